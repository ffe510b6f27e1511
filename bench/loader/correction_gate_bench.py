"""Measures what correction gains, less what measuring costs the trainers, over a grid: the share of samples that take
longer than the model profile says, how much longer, and what measuring takes of a pass.

Trainers are emulated on virtual clocks (`isocost-lab emulate`); node, sockets and plans are real. Each cell runs twice
with the same batches: with correction, and without correction and measuring. Prints the net gain, the median over seeds
with its spread, which share of the steps was measured, and what correction was at the end; and fails if the net gain of
a cell is below the limit.
Usage: correction_gate_bench.py [--steps 1000] [--seeds 3] [--json FILE]
"""

import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / "build/release/isocost-lab"
TRACES = ",".join(str(ROOT / "bench/quality/data" / name) for name in ("documents.csv", "videos.csv"))
JOB = ("--dp", "4", "--pp", "2", "--microbatches", "4", "--global-batch-size", "64", "--noise", "0.03",
       "--virtual-clock")
ANOMALIES = (None, "0.01:1.5", "0.03:1.25", "0.05:1.5", "0.1:2", "0.2:2")
COSTS = (0.001, 0.01, 0.04)
LEAST_NET_GAIN = -0.002


def emulated(anomalies, cost, steps, seed):
    command = [LAB, "emulate", "--trace", TRACES, *JOB, "--steps", str(steps), "--seed", str(seed),
               "--measuring-cost", str(cost), "--json"]
    if anomalies is not None:
        command += ["--anomalies", anomalies]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    # A step of these trainers takes what the simulator says, or the emulation is broken.
    assert abs(answer["relative_error"]) < 1e-6, answer["relative_error"]
    return answer["correction"]


def cell(anomalies, cost, steps, seeds):
    runs = [emulated(anomalies, cost, steps, seed) for seed in range(seeds)]
    gains = [run["net_gain"] for run in runs]
    return {"anomalies": anomalies, "measuring_cost": cost, "net_gain": statistics.median(gains),
            "net_gain_least": min(gains), "net_gain_most": max(gains),
            "measured_share": statistics.median(run["measured_steps"] for run in runs) / steps,
            "on": sum(run["correction_on"] for run in runs), "runs": len(runs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    cells = []
    print(f"{'anomalies':>10} {'cost':>7} {'net gain':>9} {'least':>8} {'most':>8} {'measured':>9} {'on':>5}")
    for anomalies in ANOMALIES:
        for cost in COSTS:
            found = cell(anomalies, cost, arguments.steps, arguments.seeds)
            cells.append(found)
            print(f"{anomalies or 'none':>10} {100 * cost:5.1f} % {100 * found['net_gain']:7.2f} % "
                  f"{100 * found['net_gain_least']:6.2f} % {100 * found['net_gain_most']:6.2f} % "
                  f"{100 * found['measured_share']:7.1f} % {found['on']}/{found['runs']}", flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"emulated": True, "steps": arguments.steps, "cells": cells}, indent=1))
    worst = min(found["net_gain_least"] for found in cells)
    print(f"least net gain {100 * worst:.2f} %, limit {100 * LEAST_NET_GAIN:.1f} %")
    if worst < LEAST_NET_GAIN:
        raise SystemExit("correction costs more than it may")


if __name__ == "__main__":
    main()
