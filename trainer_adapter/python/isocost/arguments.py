"""What a loader is called with: settings of its node, torch's keywords, and values checked early."""

from typing import Any, Dict, Optional, Tuple

from isocost import _isocost, keywords

_SETTINGS = {name: text for name, _value, text, _default in _isocost.option_table()}
# What the loader says itself to the node that it embeds.
_OWN_SETTINGS = {"shards", "ranks", "bind", "insecure", "curve_key", "curve_clients", "summary", "global_batch_size",
                 "layout"}

# Of torch's keywords.
OF_THE_NODE = {"batch_size", "shuffle", "num_workers", "drop_last", "generator", "timeout"}


def split(options: Dict[str, Any]) -> Tuple[Dict[str, str], Dict[str, Any]]:
    """Settings of the node as text, and torch's keywords that are used."""
    settings, others = {}, {}
    for name, value in options.items():
        setting = _setting(name)
        if setting is None:
            others[name] = value
        else:
            settings[setting] = setting_text(value)
    return settings, keywords.take(others)


def refuse_the_nodes(endpoint: str, options: Dict[str, Any], own: Dict[str, Any]) -> None:
    """Raises ValueError for what the node at `endpoint` decides: of `options` its settings and torch's
    keywords for it, and all that is given of the loader's `own`."""
    given = {_setting(name) or name for name, value in options.items()
             if _setting(name) or (name in OF_THE_NODE and value is not None)}
    given |= {name for name, value in own.items() if value is not None}
    if given:
        raise ValueError(f"{', '.join(sorted(given))}: the node decides; say so to `isocost serve`, not to a loader that "
                         f"connects to {endpoint}")


def _setting(name: str) -> Optional[str]:
    """Of the node, that a loader's keyword is; None: another keyword."""
    setting = "recipe.name" if name == "recipe" else name if name in _SETTINGS else f"recipe.{name}"
    others = name in keywords.KEYWORDS or setting not in _SETTINGS or name in _OWN_SETTINGS
    return None if others else setting


def setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def node_numbers(global_batch_size: Optional[int], microbatches: Optional[int], seed: Optional[int],
                 torch_options: Dict[str, Any], world_size: int) -> Dict[str, str]:
    """What decides the global batches, where it was given."""
    numbers: Dict[str, str] = {}
    batch_size = torch_options.get("batch_size")
    if microbatches is None and batch_size is not None:
        microbatches = 1
    if global_batch_size is None and batch_size is not None:
        global_batch_size = whole("batch_size", batch_size, 1) * world_size * (microbatches or 1)
    if seed is None and "generator" in torch_options:
        if not hasattr(torch_options["generator"], "initial_seed"):
            raise TypeError(f"generator = {torch_options['generator']!r}: must be a torch.Generator; or give seed=")
        seed = torch_options["generator"].initial_seed() % 2**64
    for setting, name, number, least in (("global_batch_size", "global_batch_size", global_batch_size, 1),
                                         ("microbatches", "microbatches", microbatches, 1), ("seed", "seed", seed, 0)):
        if number is not None:
            numbers[setting] = str(whole(name, number, least, 2**64))
    return numbers


def from_torch(torch_options: Dict[str, Any]) -> Dict[str, str]:
    settings = {}
    if "shuffle" in torch_options:
        settings["shuffle"] = "on" if flag("shuffle", torch_options["shuffle"]) else "off"
    if torch_options.get("num_workers"):
        settings["workers"] = str(whole("num_workers", torch_options["num_workers"], 0))
    if flag("drop_last", torch_options.get("drop_last", False)):
        settings["tail"] = "drop"
    if torch_options.get("timeout"):  # 0 is torch's default
        settings["timeout"] = str(seconds("timeout", torch_options["timeout"]))
    return settings


def whole(name: str, number: Any, least: int, beyond: int = 2**31) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__") or not least <= number.__index__() < beyond:
        raise ValueError(f"{name} = {number!r}: must be a whole number of at least {least}, below {beyond}")
    return number.__index__()


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} = {value!r}: must be True or False")
    return value


def seconds(name: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < 1e6:
        raise ValueError(f"{name} = {number!r}: must be a number of seconds above 0, below a million")
    return float(number)


def device(device: Any) -> Any:
    """As a torch.device with its number; ValueError where there is none such."""
    if device is None:
        return None
    import torch

    try:
        found = torch.device(device)
        return torch.empty(0, device=found).device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"device = {device!r}: {reason}") from error
