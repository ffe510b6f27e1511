#!/usr/bin/env python3
"""Compares the plans of two builds of isocost-lab on small problems, which are solved exactly: one with GLPK and one
without it, or two versions. Prints how many problems each proves optimal, and by how much plans differ.

    python3 bench/balancer/builds_compare.py build/release/isocost-lab build/portable/tree/isocost-lab
"""

import argparse
import csv
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from balancer.cpsat_compare import draw, makespan  # noqa: E402

SIZES = ((8, 2), (8, 3), (12, 2), (12, 3), (12, 4), (12, 6))
BYTES = 1 << 20


def problem(items, bins, seed, capped):
    """Rows of costs and bytes, and the cap: 5 % above an even share, or what holds everything."""
    costs = draw("mixed", items, bins, seed)
    generator = random.Random(seed)
    sizes = [generator.randrange(1, BYTES) for _ in costs]
    return costs, sizes, int(1.05 * sum(sizes) / bins) if capped else sum(sizes)


def plan(program, costs, sizes, bins, capacity):
    """Makespan, whether it is proved optimal, and solve seconds; None: there is no plan under the cap."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["vision", "llm", "bytes"])
        table.writerows([*cost, size] for cost, size in zip(costs, sizes))
        file.flush()
        done = subprocess.run([program, "balance", "--costs", file.name, "--bins", str(bins), "--capacity",
                               str(capacity), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        if "capacity" not in done.stderr:
            sys.exit(done.stderr)
        return None
    found = json.loads(done.stdout)
    if any(sum(sizes[i] for i in group) > capacity for group in found["bins"]):
        sys.exit("a plan exceeds the cap")
    return makespan(costs, found["bins"], bins), found["optimal"], found["solve_seconds"]


def compare(programs, items, bins, capped, problems):
    planned, proved, seconds, worse = [0, 0], [0, 0], ([], []), ([], [])
    for seed in range(problems):
        costs, sizes, capacity = problem(items, bins, seed, capped)
        plans = [plan(program, costs, sizes, bins, capacity) for program in programs]
        for i, found in enumerate(plans):
            if found is None:
                continue
            planned[i] += 1
            proved[i] += found[1]
            seconds[i].append(found[2])
            other = plans[1 - i]
            if other is not None and found[0] > other[0]:
                worse[i].append(found[0] / other[0] - 1)
    for i in range(2):
        yield (planned[i], proved[i], len(worse[i]), max(worse[i], default=0.0),
               1e3 * statistics.median(seconds[i]), 1e3 * max(seconds[i]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs=2)
    parser.add_argument("--problems", type=int, default=100)
    arguments = parser.parse_args()
    print("| samples → bins | cap | planned | proved optimal | worse, by at most | ms, median (longest) |")
    print("|---|---|---|---|---|---|")
    for items, bins in SIZES:
        for capped in (False, True):
            both = list(compare(arguments.programs, items, bins, capped, arguments.problems))
            cells = [f"{both[0][i]}, {both[1][i]}" for i in (0, 1)]
            cells.append(", ".join(f"{one[2]} ({100 * one[3]:.2g} %)" for one in both))
            cells.append(", ".join(f"{one[4]:.2g} ({one[5]:.2g})" for one in both))
            print(f"| {items} → {bins} | {'5 % above even' if capped else 'none'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
