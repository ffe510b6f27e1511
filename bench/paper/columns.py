"""The columns of a row: which layout runs under which scheduler, and the steps of all of them."""

import json
import pathlib
import typing

import scheduler
from jobs import Json, Row, Simulator

# Column, layout, scheduler and title.
COLUMNS = (("rule_random", "rule", "random", "encoder first, random"),
           ("data_parallel_random", "data_parallel", "random", "data parallel, random"),
           ("sharded_random", "sharded", "random", "FSDP, random"),
           ("tuned_random", "tuned", "random", "uniform tuned, random"),
           ("published_random", "published", "random", "published, random"),
           ("published_published", "published", "published", "published, published"),
           ("published_released", "published", "released", "published, released"),
           ("published_ours", "published", "ours", "published, ours"),
           ("sharded_ours", "sharded", "ours", "FSDP, ours"),
           ("tuned_ours", "tuned", "ours", "uniform tuned, ours"),
           ("ours_random", "ours", "random", "ours, random"),
           ("ours_published", "ours", "published", "ours, published"),
           ("ours_ours", "ours", "ours", "ours, ours"))
# Schedulers that CP-SAT solves; `released` counts the FLOP of keys and values as the release does.
SOLVED = {"published": False, "released": True}


class Plans:
    """Plans of the published scheduler: those of the page's JSON, those of runs before, which `cache` holds, and new
    ones. Solving one takes seconds to minutes."""

    def __init__(self, kept: Json, cache: pathlib.Path):
        self.cache = cache
        self.kept = {**(json.loads(cache.read_text()) if cache.exists() else {}), **kept}
        self.used: Json = {}
        self.missing = 0

    def of(self, seconds, layout) -> "typing.Any":
        costs = scheduler.durations(seconds, layout)
        groups = layout["llm"]["data"] * layout["microbatches"]
        name = scheduler.key(costs, groups)
        try:
            plan = scheduler.solve(costs, groups, self.kept)
        except scheduler.Unsolved:
            self.missing += 1
            return None
        self.used[name] = plan
        if name not in self.kept:
            self.kept[name] = plan
            self.cache.write_text(json.dumps(self.kept))
        return plan


def solved_plans(simulator: Simulator, row: Row, layout: Json, name: str, seeds: int, plans: Plans) -> "typing.Any":
    """Plans of all seeds by one of SOLVED; None if one is missing."""
    request = {**simulator.request(row), "profile": row.by_flop(SOLVED[name]), "seeds": seeds}
    found = [plans.of(batch, layout) for batch in simulator.run("costs", request)["batches"]]
    return None if None in found else found


def simulate_layout(simulator: Simulator, row: Row, layout: Json, schedulers, seeds: int, plans: Plans) -> Json:
    """The steps of a layout under its schedulers. Those that CP-SAT cannot plan here are left out."""
    solved = {name: solved_plans(simulator, row, layout, name, seeds, plans) for name in schedulers if name in SOLVED}
    known = [name for name in schedulers if solved.get(name, True) is not None]
    request = {**simulator.request(row), "layout": layout, "seeds": seeds, "schedulers": known,
               "plans": {name: [scheduler.microbatches(plan["groups"], layout) for plan in solved[name]]
                         for name in known if name in SOLVED}}
    answer = simulator.run("steps", request)
    for name in known:
        if name in SOLVED:
            answer["schedulers"][name]["by"] = [plan["by"] for plan in solved[name]]
            answer["schedulers"][name]["optimal"] = [plan["optimal"] for plan in solved[name]]
            answer["schedulers"][name]["found"] = [plan.get("cpsat_found", False) for plan in solved[name]]
            answer["schedulers"][name]["plan_s"] = [plan["seconds"] for plan in solved[name]]
    return answer


def simulate_row(simulator: Simulator, row: Row, seeds: int, plans: Plans, columns=COLUMNS) -> Json:
    """A row of the page's JSON."""
    layouts = simulator.run("layouts", simulator.request(row))
    record: Json = {"name": row.name, "model": row.model, "data": row.data, "gpus": row.gpus, "samples": row.samples,
                    "hardware": "H200, measured" if row.measured else "A100 by FLOP", "mean": layouts["mean"],
                    "layouts": {}, "columns": {}, "bound_s": None,
                    "search_s": {name: layouts[f"{name}_s"] for name in ("ours", "published", "uniform")}}
    if "ours_error" in layouts:
        record["why"] = layouts["ours_error"]
    for name in ("rule", "data_parallel", "sharded", "tuned", "published", "ours"):
        found = layouts[name]
        record["layouts"][name] = found
        wanted = {scheduled: column for column, layout, scheduled, _ in columns if layout == name}
        if found is None or not wanted:
            continue
        answer = simulate_layout(simulator, row, found["layout"], list(wanted), seeds, plans)
        for scheduled, series in answer["schedulers"].items():
            record["columns"][wanted[scheduled]] = series
        if name == "ours":
            record["bound_s"] = answer["bound_s"]
    return record
