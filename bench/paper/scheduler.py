"""DFLOP's published scheduler: a sample's seconds are its FLOP over one throughput, and CP-SAT divides samples into
groups so that the largest sum of a group, in either module, is least. Its budget is deterministic, so one problem has
one plan.

The release allows CP-SAT 10 s, then 100 s, and then gives up. A second-hand summary of the paper says that LPT follows
instead, so LPT follows here."""

import hashlib
import heapq
import json
import time
import typing

SCALE = 10_000  # as released: integers in units of 1e-4 s
DETERMINISTIC_S = 1.0  # about twice as many seconds of one core
MOST_BOOLEANS = 1_000_000  # beyond, the problem is not given to CP-SAT: its memory takes GiB

Costs = typing.List[typing.Tuple[int, int]]


class Unsolved(Exception):
    """OR-Tools is missing, and no plan of the problem was kept."""


def durations(seconds, layout) -> Costs:
    """Integers of both modules for each sample: divided by the tensor, pipeline and data degrees, as released."""
    def ranks(module):
        return layout[module]["tensor"] * layout[module]["pipeline"] * layout[module]["data"]

    shared = layout["encoder_place"] == "llm"
    encoder, llm = ranks("llm" if shared else "encoder"), ranks("llm")
    return [(round(SCALE * row[0] / encoder), round(SCALE * row[1] / llm)) for row in seconds]


def key(costs: Costs, groups: int) -> str:
    """Identifies a problem and its budget."""
    text = json.dumps([costs, groups, SCALE, DETERMINISTIC_S])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def lpt(costs: Costs, groups: int) -> "list[int]":
    """The group of each sample: the longest first, each to the group whose larger sum it keeps least."""
    sums = [(0, 0)] * groups
    chosen = [0] * len(costs)
    order = sorted(range(len(costs)), key=lambda i: -max(costs[i]))
    heap = [(0, group) for group in range(groups)]
    for i in order:
        _, group = heapq.heappop(heap)
        sums[group] = (sums[group][0] + costs[i][0], sums[group][1] + costs[i][1])
        chosen[i] = group
        heapq.heappush(heap, (max(sums[group]), group))
    return chosen


def cpsat(costs: Costs, groups: int) -> "dict[str, typing.Any]":
    """The released formulation, with one worker and a fixed seed."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    x = [[model.NewBoolVar("") for _ in range(groups)] for _ in costs]
    for row in x:
        model.AddExactlyOne(row)
    most = model.NewIntVar(0, sum(max(row) for row in costs), "")
    for group in range(groups):
        column = [row[group] for row in x]
        model.AddBoolOr(column)
        for module in range(2):
            weights = [row[module] for row in costs]
            model.Add(cp_model.LinearExpr.WeightedSum(column, weights) <= most)
    model.Minimize(most)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = DETERMINISTIC_S
    started = time.process_time()
    status = solver.Solve(model)
    spent = time.process_time() - started
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    groups_of = [next(j for j, one in enumerate(row) if solver.Value(one)) for row in x] if found else None
    return {"groups": groups_of, "optimal": status == cp_model.OPTIMAL, "seconds": spent}


def largest(costs: Costs, groups_of: "list[int]", groups: int) -> int:
    """The largest sum of a group in either module."""
    sums = [[0, 0] for _ in range(groups)]
    for cost, group in zip(costs, groups_of):
        sums[group][0] += cost[0]
        sums[group][1] += cost[1]
    return max(max(pair) for pair in sums)


def solve(costs: Costs, groups: int, kept: "dict[str, typing.Any]") -> "dict[str, typing.Any]":
    """A plan: the one that was kept, or a new one. `by`: the solver that made it; `seconds`: CP-SAT's CPU time. CP-SAT
    alone may find none, or a worse one than LPT; the better of both is taken, in favour of the published scheduler.
    Raises Unsolved."""
    name = key(costs, groups)
    if name in kept:
        return dict(kept[name])
    plan: "dict[str, typing.Any]" = {"groups": lpt(costs, groups), "by": "LPT", "optimal": False, "seconds": None}
    if len(costs) * groups > MOST_BOOLEANS:
        return plan
    try:
        found = cpsat(costs, groups)
    except ImportError:
        raise Unsolved from None
    plan["seconds"] = round(found["seconds"], 1)
    plan["cpsat_found"] = found["groups"] is not None
    if found["groups"] and largest(costs, found["groups"], groups) <= largest(costs, plan["groups"], groups):
        plan.update(groups=found["groups"], by="CP-SAT", optimal=found["optimal"])
    return plan


def microbatches(groups: "list[int]", layout) -> "list[list[int]]":
    """Microbatches by replica: group j is microbatch j // replicas of replica j % replicas, as released."""
    replicas, count = layout["llm"]["data"], layout["microbatches"]
    bins: "list[list[int]]" = [[] for _ in range(replicas * count)]
    for sample, group in enumerate(groups):
        bins[group % replicas * count + group // replicas].append(sample)
    return bins
