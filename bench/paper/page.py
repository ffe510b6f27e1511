#!/usr/bin/env python3
"""Writes docs/benchmarks/paper.md and its pictures from paper.json. Alone, it prints one of the page's tables:

    python3 bench/paper/page.py TABLE"""

import json
import math
import pathlib
import sys

import pictures
from measures import (
    LARGE,
    LEAST,
    NAMES,
    PAGE,
    PAPERS,
    between,
    cell_of,
    factors_of,
    load_ratio,
    mean,
    pass_s,
    profiling_s,
    ratios,
    saving,
    shares_of,
    step,
    title_of,
)
from tables import TABLES, table

TEMPLATE = pathlib.Path(__file__).resolve().parent / "paper.md.in"


def compact(record):
    """JSON with a line for each row, study and plan."""
    def text(value):
        return json.dumps(value, separators=(",", ":"))

    def lines(values):
        return ",\n".join(text(value) for value in values)

    def members(values):
        return ",\n".join(f"{text(key)}:{text(value)}" for key, value in values.items())

    studies = ",\n".join(f"{json.dumps(name)}: [\n{lines(rows)}\n]" for name, rows in record["studies"].items())
    head = {key: value for key, value in record.items() if key not in ("rows", "studies", "plans")}
    return (json.dumps(head)[:-1] + f',\n"rows": [\n{lines(record["rows"])}\n],\n"studies": {{\n{studies}\n}},\n'
            f'"plans": {{\n{members(record["plans"])}\n}}}}\n')


def study_lines(rows, x_of, chosen, bound=True):
    drawn = []
    for colour, (column, name) in enumerate(chosen):
        points = [(x_of(row), value) for row in rows if (value := step(row, column))]
        if points:
            drawn.append(pictures.Line(name, points, (1, 2, 3, 5, 0)[colour]))
    if bound:
        drawn.append(pictures.Line("lower bound", [(x_of(row), mean(row["bound_s"])) for row in rows if row["bound_s"]],
                                   4, True))
    return drawn


def scaling_picture(record):
    rows = record["studies"]["scaling"]
    return pictures.lines(
        "Seconds a step from 1 to 128 machines of 8 GPUs (simulated)",
        "LLaVA-OneVision, Qwen2.5-7B, mixture, 8 samples for each GPU; the paper's figure ends at 32 machines",
        "machines", " s", study_lines(rows, lambda row: row["gpus"] // 8, NAMES), [row["gpus"] // 8 for row in rows])


def ratio_picture(record):
    rows = record["studies"]["ratio"]
    drawn = [pictures.Line(name, [(load_ratio(row), mean(ratios(row, column))) for row in rows if ratios(row, column)],
                           (1, 2, 3, 5)[number]) for number, (column, name) in enumerate(NAMES[:-1])]
    return pictures.lines(
        "Steps of other layouts and schedulers over ours, by the encoder's load (simulated)",
        "LLaVA-OneVision, Qwen2.5-7B, mixture, 64 GPUs; the encoder's seconds are multiplied",
        "encoder seconds over LLM seconds, mean sample", "", drawn, [load_ratio(row) for row in rows],
        [f"{load_ratio(row):.2g}" for row in rows])


def ablation_picture(record):
    groups = []
    for row in record["rows"]:
        base = step(row, "tuned_random")
        if row["gpus"] < LARGE or base is None or step(row, "ours_ours") is None:
            continue
        groups.append((title_of(row).replace(f", {LARGE} A100", ""), [
            ("our layout, random", base / step(row, "ours_random"), 2),
            ("uniform tuned layout, our scheduler", base / step(row, "tuned_ours"), 1),
            ("both", base / step(row, "ours_ours"), 0)]))
    return pictures.bars("Layout against scheduling: times as fast as the uniform tuned layout (simulated)",
                         "which has random microbatches; 64 GPUs; below 1 is slower", "", groups)


def correction_picture(record):
    cells = []
    for share in shares_of(record):
        row = []
        for factor in factors_of(record):
            net = saving(cell_of(record, share, factor, PAPERS)) - PAPERS
            is_open = cell_of(record, share, factor, PAPERS)["open"]
            row.append((f"{100 * net:+.1f} %", net / 0.1, not is_open))
        cells.append(row)
    return pictures.grid(
        "Net gain of correction if measuring takes 4 % of a step (simulated)",
        "saved share of the step minus 4 %; LLaVA-OneVision, Qwen2.5-7B, 64 GPUs; the longest samples are slower",
        [f"{factor:g} times" for factor in factors_of(record)], [f"{100 * share:g} %" for share in shares_of(record)],
        cells, "LLM seconds of these samples", "share of samples")


def solver_picture(record):
    groups = []
    for row in record["rows"]:
        if row["gpus"] < LARGE or step(row, "ours_ours") is None:
            continue
        theirs = [seconds for seconds in row["columns"].get("published_published", {}).get("plan_s", []) if seconds]
        bars = [("our plan (measured)", max(row["columns"]["ours_ours"]["plan_s"]), 0)]
        bars += [("CP-SAT, one worker (measured)", mean(theirs), 1)] if theirs else []
        bars.append(("step of ours (simulated)", step(row, "ours_ours"), 4))
        groups.append((title_of(row).replace(f", {LARGE} A100", ""), bars))
    return pictures.bars("Seconds to plan a step, beside the step", "512 samples, 64 GPUs", " s", groups)


def planning_picture(record):
    rows = [row for row in record["rows"] if row["gpus"] == LARGE and step(row, "ours_ours")]
    groups = [(title_of(row).replace(f", {LARGE} A100", ""), [
        ("profiling and search (measured)", (profiling_s() + row["search_s"]["ours"]) / 60, 1),
        ("a pass over the data (simulated)", pass_s(row) / 60, 4)]) for row in rows]
    return pictures.bars("Minutes of profiling and planning, beside a pass over 185,000 samples", "64 GPUs", " min",
                         groups)


PICTURES = {"scaling": scaling_picture, "ratio": ratio_picture, "ablation": ablation_picture,
            "correction": correction_picture, "solver": solver_picture, "planning": planning_picture}


def correction_words(record):
    """Returns the words of the page about the table of correction."""
    pairs = [(cell_of(record, share, factor, LEAST), cell_of(record, share, factor, PAPERS))
             for share in shares_of(record) for factor in factors_of(record)]
    closed = max(saving(cell) for cell, gated in pairs if not gated["open"])
    return {"estimate": between((cell["gain"] / saving(cell) for cell, _ in pairs), 1),
            "closed": f"{math.ceil(1000 * closed) / 10:.1f}",
            "loss": str(sum(gated["open"] and saving(cell) < PAPERS for cell, gated in pairs))}


def write(record, folder):
    """Writes the page, whose tables and pictures are those of the record."""
    words = TEMPLATE.read_text(encoding="utf-8")
    for name, rows in TABLES.items():
        words = words.replace(f"@{name}@", table(rows(record)))
    for name, text in correction_words(record).items():
        words = words.replace(f"@{name}@", text)
    (folder / "paper.md").write_text(words.replace("@date@", record["date"]), encoding="utf-8")
    for name, picture in PICTURES.items():
        (folder / f"paper_{name}.svg").write_text(picture(record), encoding="utf-8")


def main(words):
    if len(words) != 1 or words[0] not in TABLES:
        raise SystemExit(f"usage: page.py TABLE; there are {', '.join(TABLES)}")
    print(table(TABLES[words[0]](json.loads((PAGE / "paper.json").read_text()))))


if __name__ == "__main__":
    main(sys.argv[1:])
