"""Compares Isocost with its peers on the same real files: first tensors, then speed.

    ./run bench peers                                             # everything, 5 rounds
    ./run bench peers --quick                                     # 2 rounds
    ./run bench peers --work photographs,png --peers spdl,pillow
    ./run bench peers --markdown peers.md

Works: {works}.
Peers: {peers}.

Each contender runs in a process of its own, two workers each, contenders in turn. The table shows samples a second with
the least and the most, how many times as fast Isocost is, CPU time a sample over all processes, the sum of the
processes' largest resident sizes (memory that they share counts in each) and of their proportional sizes at the end,
and the mean and largest difference from the reference's tensors. Trainers in C++ have a work of their own, `cpp`.
Works whose names end in "ms" read from an nginx of this machine, which answers as late as that.
bench/peers/settings.md has the settings of each, and their sources. Exits with 1 if a contender fails or its tensors
differ by more than they may.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import sys

import bars
import data
import measuring
import nginx
import report
from contenders import CONTENDERS
from works import WORKS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def chosen(parser, option, given, known):
    """The names of a comma-separated list, or all."""
    if given is None:
        return list(known)
    names = [name.strip() for name in given.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"{option} {', '.join(unknown)}: must be of {', '.join(known)}")
    return names


def parse():
    works, peers = [work.name for work in WORKS], [name for name in CONTENDERS if name != report.OURS]
    parser = argparse.ArgumentParser(prog="./run bench peers", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__.format(works=", ".join(works), peers=", ".join(peers)))
    parser.add_argument("--work", metavar="NAME,...", help="default: all")
    parser.add_argument("--peers", metavar="NAME,...", help="beside Isocost; default: all")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="2 rounds")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", default=ROOT / "build/peers/peers.json",
                        help="where every run is written (default: build/peers/peers.json)")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", default=ROOT / "build/peers/peers.svg",
                        help="where bars are drawn (default: build/peers/peers.svg)")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE",
                        help="also write the table of docs/benchmarks.md there")
    parser.add_argument("--demo", type=pathlib.Path, default=ROOT / "build" / "demo", metavar="DIR",
                        help="the demo's media (default: build/demo)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: must be at least 1")
    arguments.rounds = 2 if arguments.quick else arguments.rounds
    arguments.work = chosen(parser, "--work", arguments.work, works)
    arguments.peers = chosen(parser, "--peers", arguments.peers, peers)
    return arguments


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    return {"cpu": cpu, "cores": os.cpu_count(), "load_before": os.getloadavg()[0],
            "load_after": os.getloadavg()[0]}


def versions():
    """{package: version or None} of the packages of all contenders."""
    found = {}
    for package in ("torch", *sorted({name for each in CONTENDERS.values() for name in each.packages})):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def progress(text):
    print(text, file=sys.stderr, flush=True)


def missing(name, installed):
    """Why a contender cannot run here; empty if it can."""
    absent = [package for package in CONTENDERS[name].packages if installed[package] is None]
    if absent:
        return f"{', '.join(absent)}: not installed"
    program = CONTENDERS[name].program
    return f"{program}: not built, for want of libtorch" if program and not (data.TRAINERS / program).exists() else ""


def measure(arguments):
    installed = versions()
    record = {"date": datetime.date.today().isoformat(), "machine": machine(), "python": platform.python_version(),
              "versions": installed, "rounds": arguments.rounds, "works": []}
    for work in WORKS:
        if work.name not in arguments.work:
            continue
        why = missing(work.reference, installed) or ("" if work.latency_ms is None else nginx.missing())
        if why:
            progress(f"{work.name}: skipped: {why}")
            continue
        absent = {name: missing(name, installed) for name in work.tolerances if missing(name, installed)}
        progress(f"{work.name}: preparing")
        dataset = data.prepare(work, arguments.demo, ROOT / "build" / "peers")
        names = [name for name in CONTENDERS if name in work.tolerances and name not in absent
                 and name in (work.ours, *arguments.peers)]
        with data.served(work, dataset, ROOT / "build" / "peers") as dataset:
            measured = measuring.measure(work, dataset, names, arguments.rounds, progress)
        measured["cannot"].update(absent)
        record["works"].append(measured)
        record["machine"]["load_after"] = os.getloadavg()[0]
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")  # after each work, since all take long
    return record


def main():
    arguments = parse()
    record = measure(arguments)
    if not record["works"]:
        sys.exit("nothing was measured: the contenders to whose tensors all others are compared are not installed")
    print(report.table(record), end="")
    if arguments.markdown:
        arguments.markdown.write_text(report.markdown(record), encoding="utf-8")
    arguments.svg.write_text(bars.svg(record), encoding="utf-8")
    progress(f"{arguments.json} has every run, {arguments.svg} the bars")
    return 1 if any(work["failed"] for work in record["works"]) else 0


if __name__ == "__main__":
    sys.exit(main())
