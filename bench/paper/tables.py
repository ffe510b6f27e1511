"""The tables of the page, as rows of cells."""

from claims import claims_table
from measures import (
    LEAST,
    NAMES,
    PAPERS,
    SHOWN,
    TITLES,
    cell_of,
    factors_of,
    load_ratio,
    mean,
    named,
    over_bound,
    pass_s,
    planning_share,
    profiling_s,
    ratios,
    saving,
    shares_of,
    spread,
    step,
    title_of,
)


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
    chosen = ("rule_random", "data_parallel_random", "sharded_random", "tuned_random", "published_random",
              "published_published", "published_released", "sharded_ours", "ours_published")
    yield "row", *(TITLES[column] for column in chosen), "ours over the bound"
    for row in record["rows"]:
        yield title_of(row), *(spread(ratios(row, column)) for column in chosen), spread(over_bound(row))


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
    yield "GPUs", *(TITLES[column] for column, _ in NAMES), "bound", "uniform tuned, random over ours"
    for row in record["studies"]["scaling"]:
        cells = [f"{value:.2f}" if (value := step(row, column)) else "-" for column, _ in NAMES]
        yield (f"{row['gpus']:,}", *cells, f"{mean(row['bound_s']):.2f}" if row["bound_s"] else "-",
               spread(ratios(row, "tuned_random")))


def ratio_table(record):
    yield "encoder over LLM seconds", *(f"{TITLES[column]}, over ours" for column, _ in NAMES[:-1]), "ours: layout"
    for row in record["studies"]["ratio"]:
        yield (f"{load_ratio(row):.2f}", *(spread(ratios(row, column)) for column, _ in NAMES[:-1]),
               row["layouts"]["ours"]["text"].replace(", 1f1b", ""))


def correction_table(record):
    yield "samples that are slower", *(f"{factor:g} times" for factor in factors_of(record))
    for share in shares_of(record):
        cells = [cell_of(record, share, factor, LEAST) for factor in factors_of(record)]
        gated = [cell_of(record, share, factor, PAPERS) for factor in factors_of(record)]
        yield f"{100 * share:g} %", *(f"{100 * saving(cell):.1f} % ({100 * cell['gain']:.1f} %)" +
                                      ("" if other["open"] else ", closed") for cell, other in zip(cells, gated))


def solver_table(record):
    yield ("row", "ours: CPU s a plan", "CP-SAT: CPU s a plan", "CP-SAT found a plan", "it is better than LPT's",
           "simulated step, s")
    for row in record["rows"]:
        ours = row["columns"].get("ours_ours")
        theirs = [row["columns"][name] for name in ("published_published", "ours_published") if name in row["columns"]]
        plans = [plan for series in theirs for plan in zip(series["plan_s"], series["found"], series["by"])]
        times = [seconds for seconds, _, _ in plans if seconds is not None]
        yield (title_of(row), f"{max(ours['plan_s']):.3f}" if ours else "-", f"{mean(times):.1f}" if times else "-",
               f"{sum(found for _, found, _ in plans)} of {len(plans)}",
               f"{sum(by == 'CP-SAT' for _, _, by in plans)} of {len(plans)}",
               f"{step(row, 'ours_ours'):.2f}" if ours else "-")


def planning_table(record):
    yield "row", "profiling, s", "search, CPU s", "simulated pass over 185,000 samples, h", "profiling and search in it"
    for row in record["rows"]:
        if step(row, "ours_ours") is None or row["gpus"] < 64:
            continue
        yield (title_of(row), f"{profiling_s():.0f}", f"{row['search_s']['ours']:.1f}", f"{pass_s(row) / 3600:.1f}",
               f"{100 * planning_share(row):.2f} %")


def service_table(record):
    yield "row", "layout", "simulated step, s", "emulated step, s", "relative difference"
    for row in record["studies"]["service"]:
        yield (title_of(named(record, row["name"])), row["layout"].replace(", 1f1b", ""), f"{row['simulated_s']:.3f}",
               f"{row['emulated_s']:.3f}", f"{abs(row['relative_error']):.0e}")


TABLES = {"claims": claims_table, "steps": steps_table, "gains": gains_table, "idle": idle_table,
          "layouts": layouts_table,
          "scaling": scaling_table, "ratio": ratio_table, "correction": correction_table, "solver": solver_table,
          "planning": planning_table, "service": service_table}


def table(rows):
    lines = []
    for number, row in enumerate(rows):
        lines.append("| " + " | ".join(row) + " |")
        if number == 0:
            lines.append("|---" * len(row) + "|")
    return "\n".join(lines)
