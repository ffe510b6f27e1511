"""Predicts the cost of a microbatch: by the program, by the fitted form, or by one throughput.

A load is {"vision": [patches of each image], "llm": [tokens of each sample]}; a price is {module: Price}.
"""

import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import subprocess
from typing import NamedTuple

MODULES = ("vision", "llm")
PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "isocost"
TIMEOUT_S = 60


class Price(NamedTuple):
    """seconds: of a microbatch with this load; fixed: the part of it that every microbatch has; origin: as in
    `isocost predict` (measured, interpolated, extrapolated), or "form"."""

    seconds: float
    fixed: float
    origin: str


NOTHING = Price(0.0, 0.0, "form")


def find_program(wanted):
    """Finds an isocost program that runs here and has isocost-lab beside it: (path, None), or (None, reason)."""
    program = pathlib.Path(wanted or os.environ.get("ISOCOST_PROGRAM") or PROGRAM)
    for needed in (program, lab_beside(program)):
        try:
            subprocess.run([needed, "--version"], check=True, capture_output=True, timeout=TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as failure:
            output = getattr(failure, "stderr", None) or b""
            return None, f"{needed}: {output.decode(errors='replace').strip() or failure}"
    return program.resolve(), None


def lab_beside(program):
    """The path of isocost-lab, which is installed beside isocost."""
    return program.with_name("isocost-lab")


def grouped(lengths):
    """[(length, count)], ascending."""
    return [(length, len(list(group))) for length, group in itertools.groupby(sorted(lengths))]


class ProgramPrices:
    """`isocost predict` with a model profile: interpolates between its points, and uses the form beyond them."""

    name = "isocost predict"

    def __init__(self, program, profile_file):
        self._program, self._profile = program, profile_file
        self._known = {module: {} for module in MODULES}  # prices asked for before

    def price(self, loads):
        keys = [{module: tuple(grouped(load[module])) for module in MODULES if load.get(module)} for load in loads]
        new = [list(dict.fromkeys(key[module] for key in keys if module in key and key[module] not in known))
               for module, known in self._known.items()]
        # Modules are independent of each other, so that one call prices a load of each.
        calls = [dict((module, key) for module, key in zip(MODULES, pair) if key)
                 for pair in itertools.zip_longest(*new)]
        with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for call, prices in zip(calls, pool.map(self._ask, calls)):
                for module, key in call.items():
                    self._known[module][key] = prices[module]
        return [{module: self._known[module][own] for module, own in key.items()} for key in keys]

    def _ask(self, call):
        loads = [f"--{module}=" + ",".join(f"{length}x{count}" for length, count in key)
                 for module, key in call.items()]
        done = subprocess.run([self._program, "predict", "--profile", self._profile, "--json", *loads], check=True,
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        return {module: Price(own["seconds"], own["terms_s"]["fixed"], own["origin"])
                for module, own in json.loads(done.stdout)["modules"].items()}


def terms_of(lengths):
    return (1.0, float(len(lengths)), float(sum(lengths)), float(sum(n * n for n in lengths)))


def solve(matrix, right):
    """Gaussian elimination with pivots; None if the matrix is singular."""
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda k: abs(rows[k][i]))
        if abs(rows[pivot][i]) < 1e-12:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(len(rows)):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def fit(points):
    """Weights >= 0 of (1, sequences, units, units²) that minimise the squares of relative errors, over all subsets of
    the four terms. points: as in a model profile."""
    rows, scale = [], [0.0] * 4
    for point in points:
        seconds = point["forward_s"] + point["backward_s"]
        rows.append([term / seconds for term in (1, point["sequences"], point["units"], point["units_squared"])])
        scale = [max(a, b) for a, b in zip(scale, rows[-1])]
    rows = [[value / unit for value, unit in zip(row, scale)] for row in rows]
    best, best_error = None, math.inf
    for subset in itertools.chain.from_iterable(itertools.combinations(range(4), n) for n in range(1, 5)):
        matrix = [[sum(row[i] * row[j] for row in rows) for j in subset] for i in subset]
        solution = solve(matrix, [sum(row[i] for row in rows) for i in subset])
        if solution is None or min(solution) < 0:
            continue
        error = sum((sum(row[i] * weight for i, weight in zip(subset, solution)) - 1) ** 2 for row in rows)
        if error < best_error:
            best, best_error = dict(zip(subset, solution)), error
    return [best.get(i, 0.0) / scale[i] for i in range(4)]


class FormPrices:
    """Used if no program runs: the form of docs/cost_model.md, fitted to the points of the model profile. Less exact
    than the program, which also interpolates between the points."""

    name = "fitted form"

    def __init__(self, profile):
        self._weights = {module: fit(profile["modules"][module]["points"]) for module in MODULES}

    def price(self, loads):
        return [{module: self._price(module, load[module]) for module in MODULES if load.get(module)} for load in loads]

    def _price(self, module, lengths):
        weights = self._weights[module]
        return Price(sum(a * b for a, b in zip(weights, terms_of(lengths))), weights[0], "form")


class OneThroughput:
    """The published method: FLOP of a module over one throughput. It is the throughput of the measured point nearest to
    the traces' mean sequence length; of several, that with the most units."""

    def __init__(self, points, flop, mean_length):
        def nearness(point):
            length = point["units"] / point["sequences"]
            return abs(math.log(length / mean_length)), -point["units"]

        point = min(points, key=nearness)
        self.length, self.count = point["units"] // point["sequences"], point["sequences"]
        self._flop = flop
        self.flop_per_s = flop([self.length] * self.count) / (point["forward_s"] + point["backward_s"])

    def seconds(self, lengths):
        return self._flop(lengths) / self.flop_per_s
