#!/usr/bin/env python3
"""Re-simulates the experiments of the DFLOP paper with Isocost's own simulator: ./run bench paper. Without arguments, it
writes docs/benchmarks/paper.json, the page paper.md and its pictures. No row is a reproduction of the paper's runs.

    ./run bench paper                      # all rows and pictures
    ./run bench paper --row smallest       # prints one row as JSON, and writes nothing

The published scheduler needs OR-Tools. Where Python cannot import it, plans that paper.json keeps are used."""

import argparse
import datetime
import json
import pathlib
import sys
import time

import page
import studies
from columns import Plans, simulate_row
from jobs import PROGRAM, ROOT, ROWS, Simulator

SEEDS = 3
PAGE = ROOT / "docs" / "benchmarks"


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="./run bench paper", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", choices=[row.name for row in ROWS], help="print this row as JSON")
    parser.add_argument("--only", help="make these rows again, a list with commas, and keep the others of paper.json")
    parser.add_argument("--output", type=pathlib.Path, default=PAGE, help="folder of paper.json and the page [%(default)s]")
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM, help="paper_plans [%(default)s]")
    parser.add_argument("--page-only", action="store_true", help="write page and pictures of paper.json again")
    return parser.parse_args(words)


def say(words):
    print(words, file=sys.stderr, flush=True)


def main(words):
    arguments = arguments_of(words)
    path = arguments.output / "paper.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    if arguments.page_only:
        page.write(before, arguments.output)
        return
    simulator = Simulator(arguments.program, ROOT / "build" / "paper")
    plans = Plans(before.get("plans", {}), ROOT / "build" / "paper" / "plans.json")
    if arguments.row:
        row = next(row for row in ROWS if row.name == arguments.row)
        print(json.dumps(simulate_row(simulator, row, SEEDS, plans), indent=1))
        return
    record = {"simulated": True, "date": datetime.date.today().isoformat(), "seeds": SEEDS, "rows": [], "studies": {}}
    wanted = arguments.only.split(",") if arguments.only else None
    old = {row["name"]: row for row in before.get("rows", [])}
    for row in ROWS:
        if wanted is not None and row.name not in wanted and row.name in old:
            record["rows"].append(old[row.name])
            continue
        started = time.monotonic()
        record["rows"].append(simulate_row(simulator, row, SEEDS, plans))
        say(f"{row.name}: {time.monotonic() - started:.0f} s")
    for name, study in studies.STUDIES.items():
        if wanted is not None and name not in wanted and name in before.get("studies", {}):
            record["studies"][name] = before["studies"][name]
            continue
        started = time.monotonic()
        record["studies"][name] = study(simulator, plans)
        say(f"{name}: {time.monotonic() - started:.0f} s")
    if plans.missing:
        say(f"OR-Tools is not installed: {plans.missing} plans of the published scheduler are missing (pip install ortools)")
    record["plans"] = {**before.get("plans", {}), **plans.used} if wanted else plans.used
    path.write_text(page.compact(record))
    page.write(record, arguments.output)
    say(f"wrote {path} and {path.with_suffix('.md')}")


if __name__ == "__main__":
    main(sys.argv[1:])
