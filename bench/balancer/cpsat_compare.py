#!/usr/bin/env python3
"""Compares isocost-lab balance with OR-Tools CP-SAT on the same matrices.

CP-SAT solves the formulation of the published planner: booleans x[i, j], at least one item per group, minimise the
largest sum of any group in any dimension, costs as integers, limit 10 s. Both plans are checked and scored with the
same floating-point costs before any time is printed. Requires `pip install ortools`; without it nothing is measured.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "bench" / "quality" / "data"
MIXTURES = {
    "documents": {"documents": 1},
    "mixed": {"documents": 2, "videos": 2, "photos": 1, "speech": 1},
}
INTEGER_SCALE = 10_000  # as published: durations in units of 1e-4


def load(trace):
    with (DATA / f"{trace}.csv").open(encoding="utf-8") as file:
        return [(float(row["encoder_patches"]), float(row["llm_tokens"])) for row in csv.DictReader(file)]


def draw(mixture, items, bins, seed):
    """[items][2]: encoder and LLM seconds, each with a mean of one per bin."""
    generator = random.Random(seed)
    traces = {name: load(name) for name in MIXTURES[mixture]}
    names = generator.choices(list(traces), weights=MIXTURES[mixture].values(), k=items)
    costs = []
    for name in names:
        patches, tokens = generator.choice(traces[name])
        costs.append((patches * 913e6, tokens * (13.05e9 + 200_704 * tokens)))
    sums = [sum(column) for column in zip(*costs)]
    return [tuple(cost * bins / total for cost, total in zip(row, sums)) for row in costs]


def makespan(costs, groups, bins):
    """The largest load; raises if the groups are not a plan."""
    if len(groups) != bins or not all(groups) or sorted(i for g in groups for i in g) != list(range(len(costs))):
        raise SystemExit("the groups are not a plan")
    return max(sum(costs[i][k] for i in group) for group in groups for k in range(2))


def ours(program, costs, bins):
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        csv.writer(file).writerows(costs)
        file.flush()
        done = subprocess.run([program, "balance", "--costs", file.name, "--bins", str(bins), "--json"],
                              check=True, capture_output=True, text=True)
    plan = json.loads(done.stdout)
    return plan["bins"], plan["solve_seconds"], plan["lower_bound"]


def cpsat(costs, bins, seconds, workers):
    from ortools.sat.python import cp_model

    started = time.perf_counter()
    model = cp_model.CpModel()
    scaled = [[round(cost * INTEGER_SCALE) for cost in row] for row in costs]
    x = [[model.NewBoolVar("") for _ in range(bins)] for _ in costs]
    for row in x:
        model.AddExactlyOne(row)
    largest = model.NewIntVar(0, sum(max(row) for row in scaled), "")
    for j in range(bins):
        model.AddBoolOr([x[i][j] for i in range(len(costs))])
        for k in range(2):
            model.Add(sum(scaled[i][k] * x[i][j] for i in range(len(costs))) <= largest)
    model.Minimize(largest)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.Solve(model)
    spent = time.perf_counter() - started
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, spent
    return [[i for i in range(len(costs)) if solver.Value(x[i][j])] for j in range(bins)], spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "isocost-lab"))
    parser.add_argument("--seconds", type=float, default=10, help="limit of CP-SAT (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sizes", default="512:64,2048:256", help="items:bins,... (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        import ortools
    except ImportError:
        print("ortools is not installed here: nothing to compare with (pip install ortools)")
        return 0
    workers = os.cpu_count() or 1
    print(f"OR-Tools {ortools.__version__}, {workers} workers, limit {arguments.seconds:g} s")
    print(f"{'work':26} {'bound':>9} {'cost':>9} {'time':>10} {'CP-SAT':>9} {'time':>8} {'share':>7}")
    worse = 0
    for size in arguments.sizes.split(","):
        items, bins = map(int, size.split(":"))
        for mixture in MIXTURES:
            for seed in range(1, arguments.seeds + 1):
                costs = draw(mixture, items, bins, seed)
                groups, our_seconds, bound = ours(arguments.program, costs, bins)
                our_makespan = makespan(costs, groups, bins)
                theirs, their_seconds = cpsat(costs, bins, arguments.seconds, workers)
                their_makespan = makespan(costs, theirs, bins) if theirs else float("inf")
                worse += our_makespan > their_makespan * (1 + 1e-9)
                print(f"{mixture + f' {items} to {bins}, {seed}':26} {bound:9.5f} {our_makespan:9.5f} "
                      f"{1e3 * our_seconds:7.2f} ms {their_makespan:9.5f} {their_seconds:6.1f} s "
                      f"{100 * our_seconds / their_seconds:6.2f}%", flush=True)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
