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

    @property
    def samples(self) -> int:
        return self.size or SAMPLES_PER_GPU * self.gpus

    def profile(self, released: bool = False) -> Json:
        profile = models.model_profile(self.encoder, models.LLMS[self.llm], released)
        for name in ("vision", "audio"):
            for weight in ("per_unit", "per_unit_squared"):
                profile["modules"][name][weight] *= self.encoder_factor
        return profile


def onevision(name, llm, data="mixture", **more):
    return Row(name, f"LLaVA-OneVision, {llm}", models.SIGLIP, llm, "llava_onevision", data, **more)


SMALLEST = onevision("smallest", "Qwen2.5-7B", data="single", gpus=8, size=16)
ROWS = (SMALLEST, onevision("qwen-7b", "Qwen2.5-7B"), onevision("qwen-7b-single", "Qwen2.5-7B", "single"),
        onevision("qwen-7b-several", "Qwen2.5-7B", "several"), onevision("qwen-7b-video", "Qwen2.5-7B", "video"),
        onevision("qwen-32b", "Qwen2.5-32B"), onevision("qwen-72b", "Qwen2.5-72B"),
        onevision("llama-8b", "Llama-3-8B"), onevision("llama-70b", "Llama-3-70B"),
        Row("internvl-72b", "InternVL-2.5, Qwen2.5-72B", models.INTERNVIT, "Qwen2.5-72B", "internvl", "mixture"),
        Row("qwen2-audio", "Qwen2-Audio", models.WHISPER, "Qwen2-Audio", "qwen2_audio", "speech"))


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

    def data_profile(self, row: Row) -> pathlib.Path:
        path = self.folder / f"{row.recipe}_{row.data}.json"
        if path not in self.made:
            drawn = samples.Source(0).draw(row.data, PROFILED_SAMPLES)
            path.write_text(json.dumps(self.run("loads", samples.loads_request(row.recipe, drawn))))
            self.made.add(path)
        return path

    def request(self, row: Row, released: bool = False) -> Json:
        return {"profile": row.profile(released), "data_profile": str(self.data_profile(row)), "gpus": row.gpus,
                "gpu_memory": 80 * GIB, "size": row.samples}
