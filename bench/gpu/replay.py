"""Runs microbatches that the model profile has not seen, and compares measured with predicted seconds."""

import statistics
import time
from typing import Callable, Dict, List, NamedTuple

import plans
import pricing
import traces
from profiling import run_once

SIZES = (1, 2, 4)  # samples of a held-out microbatch
REPEATS = 3
OVERRUN = 1.3  # a replay may be predicted to take this many times its share of the budget


class Bench(NamedTuple):
    """The inputs for measuring a decoder with the encoder.

    prepare: {module: `prepare` of its isocost.ProfiledModule}.
    prices: predicts by a model profile of both, as pricing.ProgramPrices.
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


def held_out(bench, mixture, tokens, end):
    """Returns two {module: [comparison]}: of microbatches of 1, 2 or 4 samples, and of as many as fit in `tokens`, in
    turns, as many as fit until `end` (monotonic seconds), and at least one of each. Each runs once to warm up; its time
    is the median of three more runs."""
    few, filled = ({module: [] for module in pricing.MODULES} for _ in range(2))
    while not filled["llm"] or time.monotonic() < end:
        for found, samples in ((few, mixture.draw(mixture.some(SIZES))), (filled, fill(mixture, tokens))):
            lengths = traces.lengths_of(samples)
            price = bench.prices.price([lengths])[0]
            for module in pricing.MODULES:
                runs = [bench.seconds(module, lengths[module]) for _ in range(1 + REPEATS)]
                found[module].append(compared(bench, module, lengths[module], price[module],
                                              statistics.median(runs[1:])))
    return few, filled


def fill(mixture, tokens):
    """Draws samples while they fit in `tokens`, and at least one."""
    samples = mixture.draw(1)
    while True:
        (more,) = mixture.draw(1)
        if sum(sample.tokens for sample in samples) + more.tokens > tokens:
            return samples
        samples.append(more)


def sample_costs(bench, samples):
    """Seconds that each sample adds to a microbatch, both modules together."""
    prices = bench.prices.price([traces.lengths_of([sample]) for sample in samples])
    return [sum(own.seconds - own.fixed for own in price.values()) for price in prices]


def costs_by_policy(bench, samples):
    """{policy: cost of each sample}, of the policies that balance something."""
    lengths = [traces.lengths_of([sample]) for sample in samples]
    return {"tokens": [float(sample.tokens) for sample in samples],
            "one_throughput": [sum(bench.throughputs[module].seconds(own) for module, own in each.items() if own)
                               for each in lengths],
            "cost": sample_costs(bench, samples)}


class Size(NamedTuple):
    global_batch_size: int
    batches: int


class TooSlow(RuntimeError):
    """The device needs more than the budget for the smallest replay."""


def affordable(mean_sample_s, seconds, largest, bins, most, overrun=OVERRUN):
    """Returns how much to replay under every policy in `seconds`.

    The global batch is the largest that fits: `largest`, halved as often as needed, but not below two samples
    for each of the bins (ranks x microbatches). As many batches are replayed as fit, and at most `most`. If not even
    one fits, it has one sample for each bin. Raises TooSlow if that takes more than `overrun` times `seconds`."""
    runs = len(plans.POLICIES)
    two = min(2 * bins, largest)
    size = largest
    while size > two and runs * size * mean_sample_s > seconds:
        size = max(two, size // 2)
    batches = min(most, int(seconds / (runs * size * mean_sample_s)))
    if batches > 0:
        return Size(size, batches)
    needed = runs * bins * mean_sample_s
    if needed > overrun * seconds:
        raise TooSlow(f"too slow here: a replay of {bins} samples would take {needed:.0f} s, and {seconds:.0f} s are "
                      "left for it; raise --budget")
    return Size(bins, 1)


def replay_plan(bench, samples, plan):
    """Runs the plan, one virtual rank after another. Returns measured and predicted seconds by rank, and a comparison
    for each microbatch and module."""
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
    measured_s, measured_idle = plans.step([sum(rank[f"{module}_s"] for module in pricing.MODULES) for rank in ranks])
    predicted_s, predicted_idle = plans.step([rank["predicted_s"] for rank in ranks])
    return {"step_s": measured_s, "idle_fraction": measured_idle, "predicted_step_s": predicted_s,
            "predicted_idle_fraction": predicted_idle, "ranks": ranks}, found


def warm(bench, samples, plan):
    """Runs the largest microbatch, so that its memory is allocated before anything is timed."""
    loads = [traces.lengths_of([samples[i] for i in part]) for parts in plan for part in parts]
    for module in pricing.MODULES:
        bench.seconds(module, max((load[module] for load in loads), key=sum))


def replay_global_batch(bench, samples, ranks, microbatches, program):
    """Replays one global batch under every policy. Returns {policy: outcome, "speedup": {policy: of its step over the
    baseline's}}, and the comparisons of the baseline, whose microbatches are drawn at random."""
    by_policy = {plans.BASELINE: plans.in_order(len(samples), ranks, microbatches),
                 **{policy: plans.by_cost(costs, ranks, microbatches, program)
                    for policy, costs in costs_by_policy(bench, samples).items()}}
    warm(bench, samples, by_policy[plans.BASELINE])
    outcome, found = {}, {}
    for policy, plan in by_policy.items():
        outcome[policy], found[policy] = replay_plan(bench, samples, plan)
    outcome["speedup"] = {policy: outcome[plans.BASELINE]["step_s"] / outcome[policy]["step_s"]
                          for policy in by_policy if policy != plans.BASELINE}
    return outcome, found[plans.BASELINE]


def replay(bench, mixture, size, ranks, microbatches, program, end, say):
    """Global batches until `end`, as planned by `affordable`; a global batch that runs out of memory is halved. Returns
    ([outcome], {module: [comparison]}, samples of a global batch)."""
    outcomes, found = [], {module: [] for module in pricing.MODULES}
    samples_a_batch, took = size.global_batch_size, 0.0
    while len(outcomes) < size.batches and (not outcomes or time.monotonic() + took < end):
        start = time.monotonic()
        try:
            outcome, new = replay_global_batch(bench, mixture.draw(samples_a_batch), ranks, microbatches, program)
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
        steps = (f"{name} {outcome[policy]['step_s']:.3g} s" for policy, name in plans.POLICIES.items())
        say(f"global batch {len(outcomes)} of {size.batches}: " + ", ".join(steps))
    return outcomes, found, samples_a_batch


def errors(comparisons):
    """Relative errors of the prediction and of one throughput: mean and 95th percentile of their absolute values (mape,
    p95), and the mean with its sign (bias)."""
    summary = {"microbatches": len(comparisons)}
    for key, name in (("predicted_s", "prediction"), ("one_throughput_s", "one_throughput")):
        misses = [own[key] / own["measured_s"] - 1 for own in comparisons]
        sizes = sorted(abs(miss) for miss in misses)
        summary[name] = {"mape": statistics.fmean(sizes), "p95": sizes[max(0, -(-95 * len(sizes) // 100) - 1)],
                         "bias": statistics.fmean(misses)}
    return summary
