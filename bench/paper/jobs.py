"""The rows of the page, and the program that simulates them."""

import dataclasses
import json
import pathlib
import subprocess
import typing

import models
import samples

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "bench" / "paper" / "paper_plans"
GIB = 1 << 30
PROFILED_SAMPLES = 2_000  # of a data profile
H200_BYTES = 141 * 10**9
H200_LINKS = "node=450GB/s,network=50GB/s"  # NVLink and InfiniBand of an HGX H200, one direction
SAMPLES_PER_GPU = 8  # of a global batch: the paper's is not known

Json = typing.Dict[str, typing.Any]


@dataclasses.dataclass(frozen=True)
class Row:
    """A model, its data and the GPUs."""

    name: str
    model: str
    encoder: models.Transformer
    llm: str
    recipe: str
    data: str
    gpus: int = 64
    size: int = 0  # samples of a global batch; 0: SAMPLES_PER_GPU each
    encoder_factor: float = 1.0  # on the encoder's seconds
    measured: str = ""  # recorded measurements of H200, and the model in them; "": an A100 by FLOP

    @property
    def samples(self) -> int:
        return self.size or SAMPLES_PER_GPU * self.gpus

    def profile(self) -> Json:
        """The model profile of the simulation."""
        if self.measured:
            return measured_profile(self)
        return self.by_flop(False)

    def by_flop(self, released: bool) -> Json:
        """The costs of the published scheduler: FLOP over one throughput of each module."""
        profile = models.model_profile(self.encoder, models.LLMS[self.llm], released)
        for name in ("vision", "audio"):
            for weight in ("per_unit", "per_unit_squared"):
                profile["modules"][name][weight] *= self.encoder_factor
        if self.measured:
            for name, module in recorded(self.measured)["one_throughput"].items():
                for weight in ("per_unit", "per_unit_squared"):
                    profile["modules"][name][weight] *= models.PEAK_FLOP * models.EFFICIENCY / module["flop_per_s"]
        return profile


def recorded(model: str) -> Json:
    """Measurements of a model that bench/gpu recorded on an H200."""
    models_of: Json = json.loads((ROOT / "docs/benchmarks/h200_profile_mllm.json").read_text())["models"]
    found: Json = models_of[model]
    return found


def measured_profile(row: Row) -> Json:
    """The recorded points, and the architectures that they lack. All layers were recomputed in the backward pass."""
    recorded_profile = recorded(row.measured)["profile"]
    profile = {key: recorded_profile[key] for key in ("version", "unit", "hardware", "dtype")}
    modules = recorded_profile["modules"]
    return {**profile, "source": "docs/benchmarks/h200_profile_mllm.json", "modules": {
        "vision": {"points": modules["vision"]["points"], "architecture": row.encoder.architecture()},
        "audio": modules["audio"],
        "llm": {"points": modules["llm"]["points"], "architecture": models.LLMS[row.llm].architecture()}}}


def onevision(name, llm, data="mixture", **more):
    return Row(name, f"LLaVA-OneVision, {llm}", models.SIGLIP, llm, "llava_onevision", data, **more)


SMALLEST = onevision("smallest", "Qwen2.5-7B", data="single", gpus=8, size=16)
ROWS = (SMALLEST, onevision("qwen-7b", "Qwen2.5-7B"), onevision("qwen-7b-single", "Qwen2.5-7B", "single"),
        onevision("qwen-7b-several", "Qwen2.5-7B", "several"), onevision("qwen-7b-video", "Qwen2.5-7B", "video"),
        onevision("qwen-32b", "Qwen2.5-32B"), onevision("qwen-72b", "Qwen2.5-72B"),
        onevision("llama-8b", "Llama-3-8B"), onevision("llama-70b", "Llama-3-70B"),
        Row("internvl-72b", "InternVL-2.5, Qwen2.5-72B", models.INTERNVIT, "Qwen2.5-72B", "internvl", "mixture"),
        Row("qwen2-audio", "Qwen2-Audio", models.WHISPER, "Qwen2-Audio", "qwen2_audio", "speech"),
        onevision("qwen-7b-h200", "Qwen2.5-7B", measured="qwen2.5-7b"))


class Refused(Exception):
    """The program ends with an error."""


class Simulator:
    """Runs `paper_plans`. Data profiles are made once."""

    def __init__(self, program: pathlib.Path, folder: pathlib.Path):
        self.program = program
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.made: "set[pathlib.Path]" = set()

    def run(self, task: str, request: Json) -> Json:
        done = subprocess.run([str(self.program), task], input=json.dumps(request), capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(done.stderr.strip())
        answer: Json = json.loads(done.stdout)
        return answer

    def emulate(self, row: Row, layout: Json, steps: int) -> Json:
        """Steps of `isocost-lab emulate`, where a real node plans and delivers, and trainers count modelled seconds."""
        names = {}
        for name, value in (("profile", row.profile()), ("layout", layout)):
            names[name] = self.folder / f"emulated_{name}.json"
            names[name].write_text(json.dumps(value))
        lab = self.program.parents[2] / "isocost-lab"
        done = subprocess.run([str(lab), "emulate", "--virtual-clock", "--json", "--data-profile",
                               str(self.data_profile(row)), "--profile", str(names["profile"]), "--layout",
                               str(names["layout"]), "--global-batch-size", str(row.samples), "--steps", str(steps)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(done.stderr.strip())
        answer: Json = json.loads(done.stdout)
        return answer

    def data_profile(self, row: Row) -> pathlib.Path:
        path = self.folder / f"{row.recipe}_{row.data}.json"
        if path not in self.made:
            drawn = samples.Source(0).draw(row.data, PROFILED_SAMPLES)
            path.write_text(json.dumps(self.run("loads", samples.loads_request(row.recipe, drawn))))
            self.made.add(path)
        return path

    def request(self, row: Row) -> Json:
        request = {"profile": row.profile(), "data_profile": str(self.data_profile(row)), "gpus": row.gpus,
                   "gpu_memory": 80 * GIB, "size": row.samples}
        if row.measured:
            request.update(gpu_memory=H200_BYTES, interconnect=H200_LINKS)
        return request
