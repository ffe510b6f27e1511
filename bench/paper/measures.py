"""Figures of a row and of the studies, computed from the record of paper.json."""

import json
import pathlib
import statistics

from columns import COLUMNS

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
TITLES = {column: title for column, _, _, title in COLUMNS}
NAMES = (("rule_random", "encoder first, random"), ("tuned_random", "uniform tuned, random"),
         ("published_random", "published, random"), ("published_published", "published, published"),
         ("ours_ours", "ours, ours"))
SHOWN = ("rule_random", "sharded_random", "tuned_random", "published_random", "published_published", "published_ours",
         "sharded_ours", "tuned_ours", "ours_random", "ours_published", "ours_ours")
PAPER_SAMPLES = 185_000  # single images, several and videos, by a second-hand summary
LEAST, PAPERS = 0.002, 0.04  # shares of a step that measuring takes, of studies.OVERHEADS
LARGE = 64  # GPUs of the rows that claims are held against


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
    kind = "H200" if row["hardware"].startswith("H200") else "A100"
    return f"{row['model']}; {row['data']}, {row['gpus']} {kind}"


def over_bound(row):
    ours = row["columns"].get("ours_ours")
    return [a / b for a, b in zip(ours["step_s"], row["bound_s"])] if ours else []


def load_ratio(row):
    return row["mean"]["encoder_s"] / row["mean"]["llm_s"]


def shares_of(record):
    return sorted({cell["share"] for cell in record["studies"]["correction"]})


def factors_of(record):
    return sorted({cell["factor"] for cell in record["studies"]["correction"]})


def cell_of(record, share, factor, overhead):
    return next(cell for cell in record["studies"]["correction"]
                if (cell["share"], cell["factor"], cell["overhead"]) == (share, factor, overhead))


def saving(cell):
    """Share of the step that correction saves."""
    return 1 - cell["corrected_s"] / cell["uncorrected_s"]


def profiling_s():
    """Seconds that profiling took on an H200, as recorded."""
    return json.loads((PAGE / "h200_profile_mllm.json").read_text())["wall_s"]


def pass_s(row):
    return PAPER_SAMPLES / row["samples"] * step(row, "ours_ours")


def planning_share(row):
    return (profiling_s() + row["search_s"]["ours"]) / pass_s(row)


def large_rows(record):
    """Rows of 64 A100, against which the paper's claims are held."""
    return [row for row in record["rows"] if row["gpus"] == LARGE and row["hardware"].startswith("A100")]


def between(values, digits=2, unit=""):
    values = list(values)
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}{unit}"


def gain(row, column, base="ours_ours"):
    return mean(found) if (found := ratios(row, column, base)) else None


def gains(rows, column, base="ours_ours"):
    return [value for row in rows if (value := gain(row, column, base))]


def idle(row, column):
    return mean(row["columns"][column]["idle"])


def named(record, name):
    return next(row for row in record["rows"] if row["name"] == name)


def nodes_of(record, nodes):
    return next(row for row in record["studies"]["scaling"] if row["gpus"] == 8 * nodes)


def idle_saved(rows, column):
    return [100 * (1 - idle(row, "ours_ours") / idle(row, column)) for row in rows if column in row["columns"]]


def settings_of(record):
    return [cell for cell in record["studies"]["correction"] if cell["overhead"] == PAPERS]
