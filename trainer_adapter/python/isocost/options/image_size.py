"""The size of a model's pictures, as a loader's user gives it."""

from typing import Any, Mapping, Optional


def image_size_text(given: Optional[Mapping[str, int]]) -> str:
    """Returns the size in the notation of the setting image_size: "max_pixels=1003520"; "" for None.

    Raises TypeError where it is no mapping of names to whole numbers. The recipe knows which names there are.
    """
    if given is None:
        return ""
    if not isinstance(given, Mapping):
        raise TypeError(f"image_size = {given!r}: must be a dict of the keys of the model's image processor and whole "
                        "numbers, as in {'max_pixels': 1003520}")
    return ",".join(f"{name}={_whole(name, value)}" for name, value in sorted(given.items()))


def _whole(name: Any, value: Any) -> int:
    if not isinstance(name, str) or isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"image_size: {name!r} is {value!r}: must be a name and a whole number, as in "
                        "{'max_pixels': 1003520}")
    return int(value.__index__())
