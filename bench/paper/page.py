#!/usr/bin/env python3
"""Writes docs/benchmarks/paper.md and its pictures from paper.json. Alone, it prints one of the page's tables:

    python3 bench/paper/page.py TABLE"""

import json
import pathlib
import statistics
import sys

import pictures
from columns import COLUMNS

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
TEMPLATE = pathlib.Path(__file__).resolve().parent / "paper.md.in"
TITLES = {column: title for column, _, _, title in COLUMNS}
SHOWN = ("rule_random", "tuned_random", "published_random", "published_published", "published_ours", "tuned_ours",
         "ours_random", "ours_published", "ours_ours")


def compact(record):
    """JSON with a line for each row, study and plan."""
    def lines(values):
        return ",\n".join(json.dumps(value) for value in values)

    def members(values):
        return ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())

    studies = ",\n".join(f"{json.dumps(name)}: [\n{lines(rows)}\n]" for name, rows in record["studies"].items())
    head = {key: value for key, value in record.items() if key not in ("rows", "studies", "plans")}
    return (json.dumps(head)[:-1] + f',\n"rows": [\n{lines(record["rows"])}\n],\n"studies": {{\n{studies}\n}},\n'
            f'"plans": {{\n{members(record["plans"])}\n}}}}\n')


def mean(values):
    return statistics.fmean(values)


def step(row, column):
    found = row["columns"].get(column)
    return mean(found["step_s"]) if found else None


def ratios(row, column, base="ours_ours"):
    """Steps of a column over those of `base`, seed by seed."""
    found, ours = row["columns"].get(column), row["columns"].get(base)
    return [a / b for a, b in zip(found["step_s"], ours["step_s"])] if found and ours else []


def spread(values):
    """The mean, and the least and the most."""
    return f"{mean(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else "-"


def title_of(row):
    return f"{row['model']}; {row['data']}, {row['gpus']} GPUs"


def steps_table(record):
    yield "row", *(TITLES[column] for column in SHOWN), "bound"
    for row in record["rows"]:
        cells = []
        for column in SHOWN:
            found = row["columns"].get(column)
            mark = "" if found is None or found["fits"] else " *"
            cells.append("-" if found is None else f"{step(row, column):.2f}{mark}")
        yield title_of(row), *cells, f"{mean(row['bound_s']):.2f}" if row["bound_s"] else "-"


def gains_table(record):
    chosen = ("rule_random", "tuned_random", "published_random", "published_published", "published_released", "ours_published")
    yield "row", *(TITLES[column] for column in chosen), "ours over the bound"
    for row in record["rows"]:
        ours = row["columns"].get("ours_ours")
        over = [a / b for a, b in zip(ours["step_s"], row["bound_s"])] if ours else []
        yield title_of(row), *(spread(ratios(row, column)) for column in chosen), spread(over)


def idle_table(record):
    chosen = ("rule_random", "tuned_random", "published_published", "ours_ours")
    yield "row", *(f"{TITLES[column]}: idle; memory, GiB" for column in chosen)
    for row in record["rows"]:
        cells = []
        for column in chosen:
            found = row["columns"].get(column)
            cells.append(f"{100 * mean(found['idle']):.0f} %; {found['memory_gib']:.1f}" if found else "-")
        yield title_of(row), *cells


def layouts_table(record):
    chosen = ("rule", "tuned", "published", "ours")
    yield "row", "encoder first", "uniform tuned", "published", "ours"
    for row in record["rows"]:
        yield title_of(row), *(row["layouts"][name]["text"].replace(", 1f1b", "") if row["layouts"][name] else
                               "none fits" for name in chosen)


def scaling_table(record):
    chosen = ("rule_random", "tuned_random", "published_random", "published_published", "ours_ours")
    yield "GPUs", *(TITLES[column] for column in chosen), "bound", "tuned, random over ours"
    for row in record["studies"]["scaling"]:
        cells = [f"{value:.2f}" if (value := step(row, column)) else "does not fit" for column in chosen]
        yield (f"{row['gpus']:,}", *cells, f"{mean(row['bound_s']):.2f}" if row["bound_s"] else "-",
               spread(ratios(row, "tuned_random")))


TABLES = {"steps": steps_table, "gains": gains_table, "idle": idle_table, "layouts": layouts_table,
          "scaling": scaling_table}


def table(rows):
    lines = []
    for number, row in enumerate(rows):
        lines.append("| " + " | ".join(row) + " |")
        if number == 0:
            lines.append("|---" * len(row) + "|")
    return "\n".join(lines)


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


NAMES = (("rule_random", "encoder first, random"), ("tuned_random", "uniform tuned, random"),
         ("published_random", "published, random"), ("published_published", "published, published"),
         ("ours_ours", "ours, ours"))


def scaling_picture(record):
    rows = record["studies"]["scaling"]
    nodes = [row["gpus"] // 8 for row in rows]
    return pictures.lines(
        "Seconds a step from 1 to 128 machines of 8 GPUs (simulated)",
        "LLaVA-OneVision, Qwen2.5-7B, mixture, 8 samples for each GPU; 64 and 128 machines are beyond the paper's figure",
        "machines", " s", study_lines(rows, lambda row: row["gpus"] // 8, NAMES), nodes)


PICTURES = {"scaling": scaling_picture}


def write(record, folder):
    """Writes the page, whose tables and pictures are those of the record."""
    words = TEMPLATE.read_text(encoding="utf-8")
    for name, rows in TABLES.items():
        words = words.replace(f"@{name}@", table(rows(record)))
    (folder / "paper.md").write_text(words.replace("@date@", record["date"]), encoding="utf-8")
    for name, picture in PICTURES.items():
        (folder / f"paper_{name}.svg").write_text(picture(record), encoding="utf-8")


def main(words):
    if len(words) != 1 or words[0] not in TABLES:
        raise SystemExit(f"usage: page.py TABLE; there are {', '.join(TABLES)}")
    print(table(TABLES[words[0]](json.loads((PAGE / "paper.json").read_text()))))


if __name__ == "__main__":
    main(sys.argv[1:])
