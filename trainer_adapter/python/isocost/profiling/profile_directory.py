"""Measures a model profile of the model in a directory: python3 -m isocost.model_profile DIR."""

import argparse
import json
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, NoReturn, Optional, Sequence

from isocost.base.counted import counted
from isocost.base.file_names import readable
from isocost.base.hardware import versions
from isocost.profiling.built_modules import How, Measured, measure
from isocost.profiling.profile_model import check_writable, document_of, write
from isocost.profiling.random_loads import module_loads
from isocost.profiling.skeleton import Skeleton

DTYPES = ("bfloat16", "float16", "float32")
FROZEN = ("vision", "audio")
_UNITS = {"vision": "patches", "audio": "positions", "llm": "tokens"}

_EPILOG = """\
Builds the model from config.json with random weights, its parts one at a time, and measures forward and backward passes
of the encoder of pictures or sounds with its projector and of the language model with its output head and loss. Weights
are not read. Layers that do not fit in memory are extrapolated from those that do.

examples:
  {program} Qwen2.5-VL-7B-Instruct --budget 300
  {program} DIR --dtype bfloat16 --attention flash_attention_2 --frozen vision

exit status: 0 done; 1 an error; 2 wrong arguments; 130 interrupted
"""


class Settings(NamedTuple):
    """Settings of the measurement.

    Attributes:
        directory: of the model.
        output: file of the model profile; "" for none.
        budget_s: seconds for all modules together, without the time that weights take to be made.
        dtype: one of DTYPES; "" for that of config.json on a GPU, float32 on a CPU.
        device: as torch names it; "" for a GPU if there is one, else the CPU.
        attention: of transformers' implementations; "" for the model's own.
        frozen: names of modules that are not trained.
        most_units: by module, units of its largest microbatch; if there are none, as many as the budget has time
            for and the device memory.
        room: bytes that a module may take; None: those that are free.
        image_size: sizes of the model's pictures in place of its directory's, as text.
    """

    directory: str
    output: str = ""
    budget_s: float = 60.0
    dtype: str = ""
    device: str = ""
    attention: str = ""
    frozen: Sequence[str] = ()
    most_units: Dict[str, int] = {}
    room: Optional[int] = None
    image_size: str = ""


class Outcome(NamedTuple):
    """Results of the measurement.

    Attributes:
        document: the model profile, as docs/model_profile.md describes it.
        output: file that it was written to; "" for none.
        modules: by name.
        seconds: that all of it took.
    """

    document: Dict[str, Any]
    output: str
    modules: Dict[str, Measured]
    seconds: float

    def to_json(self) -> Dict[str, Any]:
        modules = {name: {"parameters": its.parameters, "layers": its.all_layers, "measured_layers": its.layers,
                          "attention": its.attention, "points": len(its.document["points"]),
                          "most_units": its.most_units, "peak_bytes": _peak(its)}
                   for name, its in self.modules.items()}
        return {"output": self.output, **{key: self.document[key] for key in ("hardware", "dtype", "versions")},
                "modules": modules, "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        lines = [f"{self.document['hardware']}, {self.document['dtype']}"]
        for name, its in self.modules.items():
            layers = f"{its.layers} of {its.all_layers} layers" if its.layers < its.all_layers else counted(
                its.layers, "layer")
            lines.append(f"{name}: {its.parameters / 1e6:,.1f} million parameters, {layers}, attention "
                         f"{its.attention}; {_largest(name, its)}")
        lines.append(f"{self.output or 'not written'}, {self.seconds:.1f} s")
        return "\n".join(lines)


def _largest(name: str, its: Measured) -> str:
    points = its.document["points"]
    point = max(points, key=lambda point: (point["units"], point["forward_s"] + point["backward_s"]))
    seconds = point["forward_s"] + point["backward_s"]
    return (f"{counted(len(points), 'load')}, {point['units']:,} {_UNITS[name]} in {1e3 * seconds:.4g} ms and "
            f"{_peak(its) / 2**20:,.0f} MiB")


def _peak(its: Measured) -> int:
    return max(int(point["peak_bytes"]) for point in its.document["points"])


def profile_directory(settings: Settings, say: Callable[[str], None] = lambda line: None) -> Outcome:
    """Measures the modules of the model in a directory, without its weights, and writes the model profile.

    say: receives lines of progress.
    Blocks for the budget, and while weights are made.
    Raises: what Skeleton and measure raise; ValueError for a device that this machine lacks; OSError, before anything
        is measured, where `output` cannot be written.
    """
    begin = time.monotonic()
    if settings.output:
        check_writable(settings.output)
    skeleton = Skeleton(settings.directory, settings.attention, settings.image_size)
    device = _device(settings.device)
    dtype = _dtype(settings.dtype, skeleton, device)
    loads = module_loads(skeleton)
    _check_names("frozen", settings.frozen, loads)
    _check_names("largest microbatch", settings.most_units, loads)
    measured = {}
    for name, own in loads.items():
        how = How(device, dtype, name in settings.frozen, settings.most_units.get(name), settings.room)
        measured[name] = measure(skeleton, name, own, how, settings.budget_s / len(loads), say)
    document = document_of({name: its.document for name, its in measured.items()}, _source(skeleton, measured),
                           str(dtype).partition(".")[2])
    document["versions"] = {**versions(), "transformers": _transformers_version()}
    if settings.output:
        write(document, settings.output)
    return Outcome(document, settings.output, measured, time.monotonic() - begin)


def _check_names(what: str, given: Iterable[str], loads: Mapping[str, Any]) -> None:
    """Raises ValueError for a module that the model lacks."""
    for name in given:
        if name not in loads:
            raise ValueError(f"{what} of {name}: this model has no such module, only {' and '.join(loads)}")


def _source(skeleton: Skeleton, measured: Dict[str, Measured]) -> str:
    parts = [f"isocost model profile {skeleton.name}"]
    parts += [f"{name} with attention {its.attention}" for name, its in measured.items()]
    parts += [f"{name} extrapolated from {its.layers} of {its.all_layers} layers" for name, its in measured.items()
              if its.layers < its.all_layers]
    return ", ".join(parts)


def _transformers_version() -> str:
    import transformers

    return str(transformers.__version__)


def _device(name: str) -> Any:
    import torch

    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type not in ("cuda", "cpu"):
            raise ValueError("must be cuda, cuda:N or cpu")
        device = torch.empty(0, device=device).device
        if device.type == "cuda":
            torch.cuda.set_device(device)  # The clock's events belong to the current device.
        return device
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"device {name!r}: {reason}") from None


def _dtype(name: str, skeleton: Skeleton, device: Any) -> Any:
    import torch

    own = getattr(skeleton.config, "dtype", None) or getattr(skeleton.text_config, "dtype", None)
    if name or device.type == "cpu" or own is None:
        return getattr(torch, name or "float32")
    return getattr(torch, own) if isinstance(own, str) else own


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Measures a model profile of the model in a directory.",
        epilog=_EPILOG.format(program=program), formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False)
    parser.add_argument("directory", metavar="DIR", help="the model's directory: config.json, preprocessor_config.json")
    parser.add_argument("--output", metavar="FILE", default="profile.json",
                        help="model profile to write, which is replaced (default: %(default)s)")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=60.0,
                        help="time to spend on measuring (default: %(default)s)")
    parser.add_argument("--dtype", choices=DTYPES, default="",
                        help="of the weights (default: that of config.json on a GPU, float32 on a CPU)")
    parser.add_argument("--device", metavar="NAME", default="",
                        help="cuda, cuda:N or cpu (default: a GPU if there is one)")
    parser.add_argument("--attention", metavar="NAME", default="",
                        help="sdpa, eager, flash_attention_2 or another of transformers' (default: the model's own)")
    parser.add_argument("--image-size", metavar="KEY=N,...", default="",
                        help="sizes of the model's pictures in place of its directory's, as for `isocost serve`")
    parser.add_argument("--frozen", choices=FROZEN, action="append", default=[], help="a module that is not trained")
    parser.add_argument("--most-patches", metavar="N", type=int, default=0,
                        help="of the largest microbatch (default: by budget and memory)")
    parser.add_argument("--most-positions", metavar="N", type=int, default=0, help="likewise, 1,500 for each sound")
    parser.add_argument("--most-tokens", metavar="N", type=int, default=0, help="likewise")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    return parser


def main(argv: Optional[Sequence[str]] = None, program: str = "python3 -m isocost.model_profile") -> int:
    """Runs the command, whose messages begin with the program's name. Returns the exit status."""
    parser = _parser(program)
    given = parser.parse_args(argv)
    if not 0 < given.budget < float("inf"):
        parser.error(f"--budget {given.budget}: must be above 0 and finite")
    most = {"vision": given.most_patches, "audio": given.most_positions, "llm": given.most_tokens}
    for name, units in most.items():
        if not 0 <= units <= 1 << 24:
            parser.error(f"--most-{_UNITS[name]} {units}: must be from 0 to {1 << 24}")
    signal.signal(signal.SIGTERM, _end)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # All files are in the directory.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # Torch's profiler, which measures memory, logs each use.
    settings = Settings(given.directory, given.output, given.budget, given.dtype, given.device, given.attention,
                        given.frozen, {name: units for name, units in most.items() if units},
                        image_size=given.image_size)
    try:
        outcome = profile_directory(settings, lambda line: print(line, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        print(f"{program}: interrupted; no model profile was written", file=sys.stderr)
        return 128 + signal.SIGINT
    except (OSError, ValueError, ImportError, RuntimeError, MemoryError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(outcome.to_json()) if given.json else readable(str(outcome)), flush=True)
    return 0


def _end(number: int, _frame: Optional[FrameType]) -> NoReturn:
    sys.exit(128 + number)
