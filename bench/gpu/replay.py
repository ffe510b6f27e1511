"""Runs microbatches that the profile has not seen, and compares what they take with what was predicted."""

import statistics
import time
from typing import Callable, Dict, List, NamedTuple

import plans
import pricing
import traces
from profiling import run_once

SIZES = (1, 2, 4)  # samples of a held-out microbatch
REPEATS = 3
OVERRUN = 1.3  # what a replay may take of its time, predicted


class Bench(NamedTuple):
    """What a decoder and the encoder are measured with.

    prepare: {module: what isocost.ProfiledModule calls prepare}.
    prices: prices of a profile of both, as pricing.ProgramPrices.
    throughputs: {module: pricing.OneThroughput}.
    """

    isocost_profile: object
    clock: object
    prepare: Dict[str, Callable]
    prices: object
    throughputs: Dict[str, pricing.OneThroughput]

    def seconds(self, module, lengths):
        return run_once(self.isocost_profile, self.clock, self.prepare[module](lengths)) if lengths else 0.0


def out_of_memory(bench, error):
    return bench.isocost_profile.is_out_of_memory(error)


def compared(bench, module, lengths, price, measured):
    return {"sequences": len(lengths), "units": sum(lengths), "measured_s": measured, "predicted_s": price.seconds,
            "one_throughput_s": bench.throughputs[module].seconds(lengths), "origin": price.origin}


def held_out(bench, mixture, end):
    """{module: [comparison]} of microbatches of 1, 2 or 4 samples until `end` (monotonic seconds), at least one: a run
    to warm up, the median of three."""
    found = {module: [] for module in pricing.MODULES}
    while not found["llm"] or time.monotonic() < end:
        lengths = traces.lengths_of(mixture.draw(mixture.some(SIZES)))
        price = bench.prices.price([lengths])[0]
        for module in pricing.MODULES:
            runs = [bench.seconds(module, lengths[module]) for _ in range(1 + REPEATS)]
            found[module].append(compared(bench, module, lengths[module], price[module], statistics.median(runs[1:])))
    return found


def sample_costs(bench, samples):
    """Seconds that each sample adds to a microbatch, of both modules."""
    prices = bench.prices.price([traces.lengths_of([sample]) for sample in samples])
    return [sum(own.seconds - own.fixed for own in price.values()) for price in prices]


class Size(NamedTuple):
    global_batch_size: int
    batches: int


class TooSlow(RuntimeError):
    """The device needs more than the budget for the smallest replay."""


def affordable(mean_sample_s, seconds, largest, bins, most, overrun=OVERRUN):
    """How much to replay by both plans in the time: the largest global batch, halved until two fit, though not below
    two samples for each of the bins (ranks x microbatches); then as many as fit, at most `most`. Where not even one
    fits, one sample for each bin, unless that takes `overrun` times as long."""
    two = min(2 * bins, largest)
    size = largest
    while size > two and 2 * 2 * size * mean_sample_s > seconds:
        size = max(two, size // 2)
    batches = min(most, int(seconds / (2 * size * mean_sample_s)))
    if batches > 0:
        return Size(size, batches)
    needed = 2 * bins * mean_sample_s
    if needed > overrun * seconds:
        raise TooSlow(f"too slow here: a replay of {bins} samples would take {needed:.0f} s, and {seconds:.0f} s are "
                      "left for it; raise --budget")
    return Size(bins, 1)


def replay_plan(bench, samples, plan):
    """The plan, one virtual rank after another: what each rank took, was predicted to take, and a comparison a
    microbatch and module."""
    loads = [[traces.lengths_of([samples[i] for i in part]) for part in parts] for parts in plan]
    prices = bench.prices.price([load for parts in loads for load in parts])
    ranks: List[Dict[str, float]] = []
    found = {module: [] for module in pricing.MODULES}
    left = iter(prices)
    for parts in loads:
        rank = {"predicted_s": 0.0, **{f"{module}_s": 0.0 for module in pricing.MODULES}}
        for load in parts:
            price = next(left)
            for module in pricing.MODULES:
                if not load[module]:
                    continue
                measured = bench.seconds(module, load[module])
                rank[f"{module}_s"] += measured
                rank["predicted_s"] += price[module].seconds
                found[module].append(compared(bench, module, load[module], price[module], measured))
        ranks.append(rank)
    measured_s, idle = plans.step([sum(rank[f"{module}_s"] for module in pricing.MODULES) for rank in ranks])
    predicted_s, predicted_idle = plans.step([rank["predicted_s"] for rank in ranks])
    return {"step_s": measured_s, "idle": idle, "predicted_step_s": predicted_s, "predicted_idle": predicted_idle,
            "ranks": ranks}, found


def warm(bench, samples, plan):
    """Runs the largest microbatch, so that its memory is there before anything is timed."""
    loads = [traces.lengths_of([samples[i] for i in part]) for parts in plan for part in parts]
    for module in pricing.MODULES:
        bench.seconds(module, max((load[module] for load in loads), key=sum))


def global_batch_size(bench, samples, ranks, microbatches, program):
    """One global batch by both plans: {"blind": ..., "balanced": ...}, and the blind plan's comparisons, whose
    microbatches are drawn at random."""
    costs = sample_costs(bench, samples)
    dealt = {"blind": plans.blind(len(samples), ranks, microbatches),
             "balanced": plans.balanced(costs, ranks, microbatches, program)}
    warm(bench, samples, dealt["blind"])
    outcome, found = {}, {}
    for policy, plan in dealt.items():
        outcome[policy], found[policy] = replay_plan(bench, samples, plan)
    outcome["speedup"] = outcome["blind"]["step_s"] / outcome["balanced"]["step_s"]
    return outcome, found["blind"]


def replay(bench, mixture, size, ranks, microbatches, program, end, say):
    """Global batches until `end`, as planned by `affordable`; a global batch that runs out of memory is halved. Returns
    ([outcome], {module: [comparison]}, samples of a global batch)."""
    outcomes, found = [], {module: [] for module in pricing.MODULES}
    samples_a_batch, took = size.global_batch_size, 0.0
    while len(outcomes) < size.batches and (not outcomes or time.monotonic() + took < end):
        start = time.monotonic()
        try:
            outcome, new = global_batch_size(bench, mixture.draw(samples_a_batch), ranks, microbatches, program)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(bench, error) or samples_a_batch <= ranks * microbatches:
                raise
            samples_a_batch = max(ranks * microbatches, samples_a_batch // 2)
            outcomes, found = [], {module: [] for module in pricing.MODULES}
            say(f"out of memory; global batches of {samples_a_batch} instead")
            continue
        took = time.monotonic() - start
        outcomes.append(outcome)
        for module, own in new.items():
            found[module] += own
        say(f"global batch {len(outcomes)} of {size.batches}: {outcome['blind']['step_s']:.3g} s data-blind, "
            f"{outcome['balanced']['step_s']:.3g} s balanced")
    return outcomes, found, samples_a_batch


def errors(comparisons):
    """Of the prediction and of one throughput: mean and 95th percentile of the relative errors' sizes, and the mean
    error with its sign."""
    summary = {"microbatches": len(comparisons)}
    for key, name in (("predicted_s", "prediction"), ("one_throughput_s", "one_throughput")):
        misses = [own[key] / own["measured_s"] - 1 for own in comparisons]
        sizes = sorted(abs(miss) for miss in misses)
        summary[name] = {"mape": statistics.fmean(sizes), "p95": sizes[max(0, -(-95 * len(sizes) // 100) - 1)],
                         "bias": statistics.fmean(misses)}
    return summary
