"""Assigns the samples of a global batch to ranks and microbatches: plan[rank][microbatch] = [sample numbers].

Ranks run their microbatches one after another and wait for each other at the end of a step, so that a step takes as
long as its slowest rank.
"""

import heapq
import json
import subprocess

TIMEOUT_S = 60


# Keys of the result, and how people read them; the first is what the others are compared with.
POLICIES = {"in-order": "in-order", "tokens": "by tokens", "one_throughput": "as published", "cost": "by cost"}
BASELINE = "in-order"


def policies_of(outcome):
    """The policies of a result, in their order: results from before 2026-11-27 have two."""
    return [policy for policy in POLICIES if policy in outcome]


def in_order(count, ranks, microbatches):
    """The policy in-order: equal numbers of samples, in the order drawn."""
    bins = ranks * microbatches
    edges = [count * i // bins for i in range(bins + 1)]
    dealt = [list(range(edges[i], edges[i + 1])) for i in range(bins)]
    return [dealt[rank * microbatches:(rank + 1) * microbatches] for rank in range(ranks)]


def lpt(costs, bins):
    """Longest processing time first, each item to the bin with the least load so far: within 4/3 of the optimum."""
    heap = [(0.0, i) for i in range(bins)]
    dealt = [[] for _ in range(bins)]
    for item in sorted(range(len(costs)), key=lambda i: -costs[i]):
        load, least = heapq.heappop(heap)
        dealt[least].append(item)
        heapq.heappush(heap, (load + costs[item], least))
    return dealt


def by_program(program, costs, bins):
    """The bins of `isocost-lab balance`."""
    table = "cost\n" + "".join(f"{cost!r}\n" for cost in costs)
    done = subprocess.run([program, "balance", "--costs", "-", "--bins", str(bins), "--json"], input=table, check=True,
                          capture_output=True, text=True, timeout=TIMEOUT_S)
    return json.loads(done.stdout)["bins"]


def by_cost(costs, ranks, microbatches, program=None):
    """Equal sums of costs for each rank, then for each microbatch of a rank.

    costs: of each sample; of the policy cost its predicted seconds, without the fixed cost of a microbatch.
    program: isocost-lab; without it, samples are assigned by lpt."""
    def share(items, bins):
        bins = min(bins, len(items))
        own = [costs[item] for item in items]
        dealt = by_program(program, own, bins) if program else lpt(own, bins)
        return [[items[i] for i in part] for part in dealt]

    plan = []
    for items in share(list(range(len(costs))), ranks):
        parts = share(items, microbatches)
        plan.append(parts + [[] for _ in range(microbatches - len(parts))])
    return plan


def method(program):
    return "isocost-lab balance" if program else "lpt"


def step(rank_seconds):
    """(seconds of the slowest rank, part of all ranks' time spent waiting for it)."""
    slowest = max(rank_seconds)
    return slowest, 1 - sum(rank_seconds) / (len(rank_seconds) * slowest)
