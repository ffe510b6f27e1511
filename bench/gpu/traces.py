"""Reads the traces in bench/quality/data: the units of each sample for the encoder and for the decoder."""

import csv
import pathlib
import random
from typing import NamedTuple, Tuple

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "quality" / "data"
WEIGHTS = {"documents": 2, "videos": 2, "photos": 1, "speech": 1}  # as bench/quality mixes them
ONE_SEQUENCE = {"documents": 1024, "videos": 729}  # patches of a tile, of a frame; otherwise one sequence a sample
TINY = 64


class Sample(NamedTuple):
    """vision: patches of each tile, frame, photo (or 20 ms positions of an utterance), one sequence each.
    tokens: of the decoder, one sequence."""

    vision: Tuple[int, ...]
    tokens: int


def _shrunk(units, tiny):
    return max(1, units // TINY) if tiny else units


def read(tiny=False):
    """{trace: [Sample]}; tiny: sequences a 64th as long."""
    traces = {}
    for name in WEIGHTS:
        with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
            rows = [(int(row["encoder_patches"]), int(row["llm_tokens"])) for row in csv.DictReader(file)]
        traces[name] = []
        for patches, tokens in rows:
            length = min(ONE_SEQUENCE.get(name, patches), patches)
            vision = (_shrunk(length, tiny),) * (patches // length)
            traces[name].append(Sample(vision, _shrunk(tokens, tiny)))
    return traces


MIXED = "mixed"


class Mixture:
    """Draws samples: a trace by its weight, or the named one, then any of its rows. The same seed gives the same
    samples."""

    def __init__(self, traces, seed, trace=MIXED):
        weights = WEIGHTS if trace == MIXED else {trace: 1}
        self._names = [name for name in traces if name in weights]
        self._weights = [weights[name] for name in self._names]
        self._traces, self._random = traces, random.Random(seed)

    def draw(self, count):
        names = self._random.choices(self._names, self._weights, k=count)
        return [self._random.choice(self._traces[name]) for name in names]

    def some(self, sizes):
        return self._random.choice(sizes)


def lengths_of(samples):
    """Sequences of a microbatch by module: {"vision": [patches...], "llm": [tokens...]}."""
    return {"vision": [n for sample in samples for n in sample.vision], "llm": [sample.tokens for sample in samples]}


def extent(traces, module):
    """(shortest, longest) sequence of a module, and the mean."""
    lengths = [n for samples in traces.values() for n in lengths_of(samples)[module]]
    return min(lengths), max(lengths), sum(lengths) / len(lengths)
