"""Checks the arguments of isocost.DataLoader, and turns them into settings of the node."""

import dataclasses
import os
import re
import reprlib
import shutil
import sysconfig
import typing
from typing import Any, Mapping, Optional, Union

from isocost import _isocost
from isocost.base.counted import counted
from isocost.options.given_fields import given_fields
from isocost.options.node_options import NodeOptions, RecipeOptions
from isocost.options.node_settings import NodeSettings

# Keywords of torch's DataLoader that an embedded node's settings follow from.
NODE_KEYWORDS = ("batch_size", "num_workers", "drop_last", "generator", "timeout")

_OLDEST_TORCH = (1, 13)
_EXAMPLES = {"memory": '"512MiB"', "cache_size": '"500GiB"', "max_memory": '"40GiB"',
             "microbatch_memory": '"512MiB"', "max_bad_samples": '"1%"'}
# Settings that limit a microbatch: if one is given, each step chooses its number of microbatches.
_LIMITS = ("max_tokens", "max_vision_tokens", "max_memory", "microbatch_memory")


def require_torch() -> None:
    """Raises ImportError where PyTorch, whose tensors the loader hands out, cannot be imported or is too old."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("isocost.DataLoader hands out torch tensors, and PyTorch cannot be imported "
                          f"({error}): install it (pip install torch, or apt install python3-torch)",
                          name="torch") from error
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found is not None and (int(found[1]), int(found[2])) < _OLDEST_TORCH:
        oldest = ".".join(map(str, _OLDEST_TORCH))
        raise ImportError(f"isocost.DataLoader needs PyTorch {oldest} or newer, and this is {torch.__version__}: "
                          "install a newer one", name="torch")


def data(given: Any) -> str:
    """Returns the data or endpoint as one text. Raises TypeError if it is neither text nor a path nor a list of these,
    ValueError if it is empty."""
    try:
        texts = [os.fsdecode(each) for each in (given if isinstance(given, (list, tuple)) else [given])]
    except TypeError:
        raise TypeError(f"data = {reprlib.repr(given)}: must be a directory of WebDataset shards or the endpoint of a "
                        "node, as text or a path, or a list of these, which list() makes of a generator; `isocost "
                        "make-shards` writes shards from files") from None
    if not any(texts):
        raise ValueError("data= is missing: give a directory of WebDataset shards, or the endpoint of a node")
    if len(texts) > 1 and any(map(is_endpoint, texts)):
        raise ValueError(f"data = {reprlib.repr(given)}: the endpoint of a node is given alone")
    return str(_isocost.join_data(texts))


def is_endpoint(data: str) -> bool:
    """Returns whether the text names a node, and not data."""
    return data.startswith(("tcp://", "ipc://"))


def refuse_node_settings(endpoint: str, given: Mapping[str, Any]) -> None:
    """Raises ValueError if any of `given` is not None: the node at `endpoint` decides these keywords."""
    names = sorted(name for name, value in given.items() if value is not None)
    if names:
        raise ValueError(f"{', '.join(names)}: the node decides; say so to `isocost serve`, not to a loader that "
                         f"connects to {endpoint}")


def refuse_with_model(given: Mapping[str, Any]) -> None:
    """Raises ValueError if any of `given` is not None: these keywords do not support a model's tensors yet."""
    names = sorted(name for name, value in given.items() if value is not None)
    if names:
        raise ValueError(f"{', '.join(names)}: not supported together with model= yet; collate= takes whole "
                         "microbatches")


def node_settings(node: Optional[NodeOptions], direct: Mapping[str, Any]) -> NodeSettings:
    """Returns the settings that were given in `node`, and directly to the loader.

    `direct` holds fields of NodeOptions; None: not given. Raises TypeError for a node or recipe of another type,
    ValueError for a field that is given in both places.
    """
    if node is not None and not isinstance(node, NodeOptions):
        raise TypeError(f"node = {node!r}: must be an isocost.NodeOptions")
    kinds = typing.get_type_hints(NodeOptions)
    settings = NodeSettings()
    fields = [] if node is None else [field.name for field in dataclasses.fields(node)
                                      if field.name in given_fields(node)]
    given = [(name, getattr(node, name), f"node=isocost.NodeOptions({name}=...)") for name in fields]
    given += [(name, value, f"{name}=") for name, value in direct.items() if value is not None]
    for name, value, source in given:
        if name == "recipe":
            _add_recipe(settings, value, source)
        else:
            settings.add(name, _checked(name, value, kinds[name]), source)
    if settings.value("isolate") == "on" and not settings.value("decode_program"):
        settings.replace("decode_program", _program(), "isolate=")
    return settings


def _add_recipe(settings: NodeSettings, value: Any, source: str) -> None:
    """Adds the fields of a recipe that were given, and its name in any case: a recipe was given."""
    recipe = RecipeOptions(value) if isinstance(value, str) else value
    if not isinstance(recipe, RecipeOptions):
        raise TypeError(f"recipe = {recipe!r}: must be a recipe's name or an isocost.RecipeOptions")
    for name in sorted(given_fields(recipe) | {"name"}):
        settings.add(f"recipe.{name}", getattr(recipe, name), source)


def add_program(settings: NodeSettings) -> None:
    """Adds the program that decode workers run, unless it was given. A node that decodes in its own process needs it,
    too: pictures of some formats are decoded only by workers. If there is none, its name represents it, since this
    process, which is Python, is no decode worker."""
    if not settings.value("decode_program"):
        settings.replace("decode_program", _found_program() or "isocost", "the program beside this Python")


def _found_program() -> Optional[str]:
    beside = shutil.which("isocost", path=sysconfig.get_path("scripts"))
    return beside or shutil.which("isocost")


def _program() -> str:
    """Returns the path of the program isocost, which decode workers run. Raises FileNotFoundError if there is
    none."""
    found = _found_program()
    if found is None:
        raise FileNotFoundError("isolate = True: decode workers run the program isocost, which is neither on PATH nor "
                                "beside this Python: install it, or give decode_program=")
    return found


def add_padding(settings: NodeSettings, multiple: int) -> None:
    """Adds the settings by which plans count the padding of samples as rows, unless they were given."""
    pads_llm = "llm" in settings.value("padded", "llm").split(",")
    if not settings.given("padded"):
        settings.add("padded", "llm", "batching=")
    if multiple > 1 and pads_llm and not settings.given("padded_multiple"):
        settings.add("padded_multiple", multiple, "batching=")


def _checked(name: str, value: Any, kind: Any) -> Any:
    """Returns the value of a field of NodeOptions. Raises TypeError or ValueError if its kind does not allow it."""
    if kind is bool:
        return flag(name, value)
    if kind == Union[int, str] and not isinstance(value, str):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ValueError(f"{name} = {value!r}: must be a whole number, or text such as {_EXAMPLES[name]}")
        return value.__index__()
    return value


def add_numbers(settings: NodeSettings, global_batch_size: Optional[int], microbatches: Optional[int],
                seed: Optional[int], torch_options: Mapping[str, Any], data_ranks: int) -> None:
    """Adds the settings that decide the global batches, if they were given."""
    batch_size = torch_options.get("batch_size")
    limited = any(settings.value(name, "0") != "0" for name in _LIMITS)
    if microbatches is None and batch_size is not None and not limited:
        microbatches = 1
    if batch_size is not None:
        of_step = 1 if microbatches is None else whole("microbatches", microbatches, 1)
        global_batch_size = _from_batch_size(batch_size, global_batch_size, of_step, data_ranks)
    if seed is None and "generator" in torch_options:
        if not hasattr(torch_options["generator"], "initial_seed"):
            raise TypeError(f"generator = {torch_options['generator']!r}: must be a torch.Generator; or give seed=")
        seed = torch_options["generator"].initial_seed() % 2**64
    for name, number, least in (("global_batch_size", global_batch_size, 1), ("microbatches", microbatches, 1),
                                ("seed", seed, 0)):
        if number is not None:
            settings.add(name, whole(name, number, least, 2**64), f"{name}=")


def _from_batch_size(batch_size: Any, global_batch_size: Optional[int], microbatches: int, data_ranks: int) -> int:
    samples = whole("batch_size", batch_size, 1) * data_ranks * microbatches
    if global_batch_size not in (None, samples):
        raise ValueError(f"global_batch_size = {global_batch_size} and batch_size = {batch_size} contradict each "
                         f"other: {batch_size} x {counted(data_ranks, 'rank')} x {microbatches} (microbatches=) is "
                         f"{samples}; leave one of them out")
    return samples


def add_torch_options(settings: NodeSettings, torch_options: Mapping[str, Any],
                      heartbeat_timeout: Optional[float]) -> None:
    """Adds the settings that follow from torch's keywords. Raises ValueError if the two contradict each other."""
    if torch_options.get("num_workers"):  # 0 is torch's default
        settings.add("workers", whole("num_workers", torch_options["num_workers"], 0), "num_workers=")
    if flag("drop_last", torch_options.get("drop_last", False)):
        tail = settings.value("tail", "drop")
        if tail != "drop":
            raise ValueError(f"drop_last=True and tail={tail!r} contradict each other: give one of them")
        if not settings.given("tail"):
            settings.add("tail", tail, "drop_last=")
    if heartbeat_timeout is not None:
        settings.add("heartbeat_timeout", seconds("heartbeat_timeout", heartbeat_timeout), "heartbeat_timeout=")
    if torch_options.get("timeout"):  # 0 is torch's default
        settings.add("heartbeat_timeout", seconds("timeout", torch_options["timeout"]), "timeout=")


def whole(name: str, number: Any, least: int, beyond: int = 2**31) -> int:
    """Returns the number as an int. Raises ValueError unless it is whole, at least `least` and below `beyond`."""
    if isinstance(number, bool) or not hasattr(number, "__index__") or not least <= number.__index__() < beyond:
        raise ValueError(f"{name} = {number!r}: must be a whole number of at least {least}, below {beyond}")
    return int(number.__index__())


def flag(name: str, value: Any) -> bool:
    """Returns the value. Raises TypeError if it is no bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} = {value!r}: must be True or False")
    return value


def shuffle(value: Any) -> str:
    """Returns the value of the setting `shuffle`. Raises TypeError if it is neither a bool nor one of the setting's
    words."""
    if isinstance(value, bool):
        return "global" if value else "off"
    if value in ("off", "global", "blocks"):
        return str(value)
    raise TypeError(f'shuffle = {value!r}: must be True ("global"), False ("off") or "blocks"')


def seconds(name: str, number: Any) -> float:
    """Returns the number as a float. Raises ValueError if it is no positive number of seconds."""
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < 1e6:
        raise ValueError(f"{name} = {number!r}: must be a number of seconds above 0, below a million")
    return float(number)


def function(name: str, value: Any) -> Any:
    """Returns the value. Raises TypeError if it is neither None nor callable."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} = {value!r}: must be a function")
    return value


def device(device: Any) -> Any:
    """Returns the torch.device with its number. Raises ValueError if this machine has no such device."""
    if device is None:
        return None
    import torch

    try:
        found = torch.device(device)
        return torch.empty(0, device=found).device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"device = {device!r}: {reason}") from error
