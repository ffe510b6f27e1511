"""Deals the samples of a global batch to ranks and microbatches: plan[rank][microbatch] = [numbers of samples].

A step takes what its slowest rank takes: ranks run their microbatches one after another and meet at its end.
"""

import heapq
import json
import subprocess

TIMEOUT_S = 60


def blind(count, ranks, microbatches):
    """In the order drawn, equal numbers of samples."""
    bins = ranks * microbatches
    edges = [count * i // bins for i in range(bins + 1)]
    dealt = [list(range(edges[i], edges[i + 1])) for i in range(bins)]
    return [dealt[rank * microbatches:(rank + 1) * microbatches] for rank in range(ranks)]


def lpt(costs, bins):
    """Longest first, each to the bin with least so far: within 4/3 of the best."""
    heap = [(0.0, i) for i in range(bins)]
    dealt = [[] for _ in range(bins)]
    for item in sorted(range(len(costs)), key=lambda i: -costs[i]):
        load, least = heapq.heappop(heap)
        dealt[least].append(item)
        heapq.heappush(heap, (load + costs[item], least))
    return dealt


def by_program(program, costs, bins):
    """`isocost balance`."""
    table = "cost\n" + "".join(f"{cost!r}\n" for cost in costs)
    said = subprocess.run([program, "balance", "--costs", "-", "--bins", str(bins), "--json"], input=table, check=True,
                          capture_output=True, text=True, timeout=TIMEOUT_S)
    return json.loads(said.stdout)["bins"]


def balanced(costs, ranks, microbatches, program=None):
    """Equal seconds a rank, then equal seconds a microbatch of the rank. costs: of each sample, without what every
    microbatch pays alike. Without a program: lpt."""
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
    return "isocost balance" if program else "longest first"


def step(rank_seconds):
    """(seconds that the slowest rank sets, share of all ranks' time spent waiting for it)."""
    slowest = max(rank_seconds)
    return slowest, 1 - sum(rank_seconds) / (len(rank_seconds) * slowest)
