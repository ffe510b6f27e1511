#!/usr/bin/env python3
"""Re-simulates the experiments of the DFLOP paper with Isocost's own simulator: ./run bench paper. Without arguments,
it writes docs/benchmarks/paper.json, the page paper.md and its pictures. No row is a reproduction of the paper's runs.

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
    parser.add_argument("--output", type=pathlib.Path, default=PAGE,
                        help="folder of paper.json and the page [%(default)s]")
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM, help="paper_plans [%(default)s]")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "paper",
                        help="folder of data profiles, and of plans that runs before made [%(default)s]")
    parser.add_argument("--page-only", action="store_true", help="write page and pictures of paper.json again")
    return parser.parse_args(words)


def say(words):
    print(words, file=sys.stderr, flush=True)


def timed(name, work):
    started = time.monotonic()
    result = work()
    say(f"{name}: {time.monotonic() - started:.0f} s")
    return result


def make_record(simulator, plans, before, wanted):
    """The page's JSON. Rows and studies that are not `wanted` are those of `before`; None: all are made."""
    def is_made(name, old):
        return wanted is None or name in wanted or name not in old

    rows = {row["name"]: row for row in before.get("rows", [])}
    found = before.get("studies", {})
    record = {"simulated": True, "date": datetime.date.today().isoformat(), "seeds": SEEDS, "rows": [], "studies": {}}
    for row in ROWS:
        record["rows"].append(timed(row.name, lambda row=row: simulate_row(simulator, row, SEEDS, plans))
                              if is_made(row.name, rows) else rows[row.name])
    for name, study in studies.STUDIES.items():
        record["studies"][name] = (timed(name, lambda study=study: study(simulator, plans))
                                   if is_made(name, found) else found[name])
    record["plans"] = plans.used if wanted is None else {**before.get("plans", {}), **plans.used}
    return record


def main(words):
    arguments = arguments_of(words)
    path = arguments.output / "paper.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    if arguments.page_only:
        path.write_text(page.compact(before))
        page.write(before, arguments.output)
        return
    simulator = Simulator(arguments.program, arguments.work)
    plans = Plans(before.get("plans", {}), arguments.work / "plans.json")
    if arguments.row:
        row = next(row for row in ROWS if row.name == arguments.row)
        print(json.dumps(simulate_row(simulator, row, SEEDS, plans), indent=1))
        return
    record = make_record(simulator, plans, before, arguments.only.split(",") if arguments.only else None)
    if plans.missing:
        say(f"OR-Tools is missing: {plans.missing} plans of the published scheduler are left out (pip install ortools)")
    path.write_text(page.compact(record))
    page.write(record, arguments.output)
    say(f"wrote {path} and {path.with_suffix('.md')}")


if __name__ == "__main__":
    main(sys.argv[1:])
