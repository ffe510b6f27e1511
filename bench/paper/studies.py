"""Studies that the page's pictures show beside the rows: machines, the encoder's load, correction."""

import dataclasses

from columns import COLUMNS, Plans, simulate_row
from jobs import ROWS, Json, Simulator, onevision

NODES = (1, 2, 4, 8, 16, 32, 64, 128)
GPUS_PER_NODE = 8
FACTORS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)
COMPARED = ("rule_random", "tuned_random", "published_random", "published_published", "ours_ours")
SEEDS = 2
# Anomalies: share of the samples, and what their LLM seconds are multiplied by.
SHARES = (0.01, 0.03, 0.1, 0.3)
SLOWDOWNS = (1.1, 1.25, 1.5, 2, 3)
# Share of a step that measuring takes: below our own default, and what the paper reports of its monitoring.
OVERHEADS = (0.002, 0.04)
# Rows that a node serves: one pipeline, an encoder with its own ranks, and audio.
SERVED, SERVED_STEPS = ("qwen-7b", "qwen-7b-several", "qwen2-audio"), 6


def compared(names=COMPARED):
    return [column for column in COLUMNS if column[0] in names]


def scaling(simulator: Simulator, plans: Plans) -> "list[Json]":
    """Qwen2.5-7B on more and more machines, with as many samples for each GPU."""
    base = onevision("nodes", "Qwen2.5-7B")
    rows = [dataclasses.replace(base, name=f"nodes-{nodes}", gpus=GPUS_PER_NODE * nodes) for nodes in NODES]
    return [simulate_row(simulator, row, SEEDS, plans, compared()) for row in rows]


def ratio(simulator: Simulator, plans: Plans) -> "list[Json]":
    """Qwen2.5-7B with an encoder whose seconds are multiplied."""
    base = onevision("ratio", "Qwen2.5-7B")
    rows = [dataclasses.replace(base, name=f"ratio-{factor:g}", encoder_factor=factor) for factor in FACTORS]
    return [simulate_row(simulator, row, SEEDS, plans, compared()) for row in rows]


def correction(simulator: Simulator, plans: Plans) -> "list[Json]":
    """Qwen2.5-7B with samples that take longer than the profile says; plans corrected by the cost model, and not."""
    row = onevision("correction", "Qwen2.5-7B")
    layout = simulator.run("layouts", simulator.request(row))["ours"]["layout"]
    found = simulator.run("correction", {**simulator.request(row), "layout": layout, "shares": SHARES,
                                         "factors": SLOWDOWNS, "overheads": OVERHEADS})
    cells: "list[Json]" = found["cells"]
    return cells


def service(simulator: Simulator, plans: Plans) -> "list[Json]":
    """Rows whose steps a real node plans and delivers: emulated steps are the simulator's."""
    found = []
    for row in (row for row in ROWS if row.name in SERVED):
        layout = simulator.run("layouts", simulator.request(row))["ours_file"]
        answer = simulator.emulate(row, layout, SERVED_STEPS)
        found.append({"name": row.name, "layout": answer["layout"], "steps": SERVED_STEPS,
                      "emulated_s": answer["emulated_step_s"] / answer["time_scale"],
                      "simulated_s": answer["simulated_step_s"] / answer["time_scale"],
                      "relative_error": answer["relative_error"]})
    return found


STUDIES = {"scaling": scaling, "ratio": ratio, "correction": correction, "service": service}
