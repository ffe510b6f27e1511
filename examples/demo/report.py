"""Computes the numbers of the demo's table and JSON from the traces of its passes."""

import collections
import json
import math
import statistics

MODULES = ("vision", "audio", "llm")
# The policies are compared with the first. Each pass trains on the same global batches; the passes are interleaved, so
# that a machine that changes its speed does not favour one policy, and two of them are repeated, to show the noise.
PASSES = ("in-order", "cost", "tokens", "cost", "in-order")
POLICIES = ("in-order", "tokens", "cost")  # as they are shown
BASELINE, BEST = POLICIES[0], POLICIES[-1]
WARM_UP_STEPS = 1  # the first step pays for lazy initialisation and the first fetch
ACCURACY_WINDOW = 256  # microbatches, as in the node's own accuracy
# Losses are sums in float32: their order differs between plans, and training amplifies the difference step by step.
LOSS_TOLERANCE = 1e-3


def counted(count, noun):
    """"1 sample" or "2 samples"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


class Run:
    """One pass: the traces of all ranks and the node's summary."""

    def __init__(self, policy, lines, summary, samples_in_dataset, limited):
        self.policy = policy
        self.microbatches = [line for line in lines if line["type"] == "microbatch"]
        self.summary = summary
        self.samples_in_dataset = samples_in_dataset
        self.limited = limited  # it trained fewer steps than the epoch has
        steps = collections.defaultdict(list)
        for line in lines:
            if line["type"] == "step":
                steps[line["epoch"], line["step"]].append(line)
        self.steps = [sorted(steps[key], key=lambda line: line["rank"]) for key in sorted(steps)]

    def warm(self):
        return self.steps[WARM_UP_STEPS:] or self.steps

    def batches(self):
        """The sample ids of each global batch."""
        ids = collections.defaultdict(set)
        for line in self.microbatches:
            ids[line["epoch"], line["step"]].update(i for i, _ in line["samples"])
        return dict(ids)

    def losses(self):
        """The loss of each global batch."""
        return [step[0]["loss"] for step in self.steps]


def by_policy(runs):
    """{policy: its passes}."""
    return {policy: [run for run in runs if run.policy == policy] for policy in POLICIES}


def percentile(values, q):
    """By linear interpolation between the closest ranks; q in 0..1."""
    values = sorted(values)
    place = q * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def step_seconds(step):
    """From the first rank that asks for data to the last that has updated its weights."""
    return max(line["end_s"] for line in step) - min(line["start_s"] for line in step)


def idle_fraction(steps):
    """The part of the ranks' time in steps that they waited for the slowest rank."""
    return (sum(line["wait_for_peers_s"] for s in steps for line in s) /
            sum(step_seconds(s) * len(s) for s in steps))


def data_wait_fraction(steps):
    return (sum(line["data_wait_s"] for s in steps for line in s) /
            sum(step_seconds(s) * len(s) for s in steps))


def per_rank(steps, key):
    """Mean over ranks and steps."""
    return statistics.fmean(line[key] for s in steps for line in s)


def max_over_mean(steps):
    """Compute time of the slowest rank over that of the mean rank, averaged over steps."""
    return statistics.fmean(
        max(line["compute_s"] for line in s) / statistics.fmean(line["compute_s"] for line in s) for s in steps)


def prediction_error_ratio(runs):
    """Mean absolute error of predicted seconds, relative to the measured ones, by module."""
    last = [line for run in runs
            for line in sorted(run.microbatches, key=lambda line: line["start_s"])[-ACCURACY_WINDOW:]]
    result = {}
    for module in MODULES:
        errors = [abs(line["predicted"][module] - line["seconds"][module]) / line["seconds"][module]
                  for line in last if line["seconds"].get(module, 0) > 0]
        result[module] = statistics.fmean(errors) if errors else None
    return result


def noise(runs):
    """How far the seconds of equal work differ between two passes, by module: the mean absolute difference over the
    mean of microbatches that hold the same samples on the same rank. No prediction can be closer than that."""
    def timed(run):
        return {(line["rank"], tuple(i for i, _ in line["samples"])): line["seconds"] for line in run.microbatches}

    result = dict.fromkeys(MODULES)
    if len(runs) > 1:
        first, second = timed(runs[0]), timed(runs[1])
        for module in MODULES:
            pairs = [(first[key][module], second[key][module]) for key in first.keys() & second.keys()
                     if first[key].get(module, 0) > 0 and second[key].get(module, 0) > 0]
            result[module] = statistics.fmean(2 * abs(a - b) / (a + b) for a, b in pairs) if pairs else None
    return result


def count_samples(run):
    """Numbers of delivered, lost, duplicated and bad samples. A repeat of zero weight, which fills an empty slot, does
    not count as a duplicate."""
    weighted = collections.Counter()
    seen = set()
    for line in run.microbatches:
        for sample, weight in line["samples"]:
            seen.add((line["epoch"], sample))
            if weight > 0:
                weighted[line["epoch"], sample] += 1
    planned = run.summary["samples"]
    lost = planned["planned"] - len(seen)
    if not run.limited:
        epochs = run.summary["epochs_planned"]
        there = run.samples_in_dataset * epochs - planned["bad"] - planned["dropped"]
        lost = max(lost, there - len(seen))
    return {"delivered": len(seen), "lost": max(0, lost),
            "duplicated": sum(n - 1 for n in weighted.values()), "bad": planned["bad"]}


def loss_difference(run, reference):
    """The largest relative difference of a step's loss from that of `reference`."""
    return max(abs(a - b) / max(abs(b), 1e-9) for a, b in zip(run.losses(), reference.losses()))


def summarise(runs, reference):
    """The numbers of one policy over its passes."""
    warm = [step for run in runs for step in run.warm()]
    seconds = [step_seconds(s) for s in warm]
    samples = [count_samples(run) for run in runs]
    return {
        "passes": len(runs),
        "steps": sum(len(run.steps) for run in runs),
        "step_seconds": {"mean": statistics.fmean(seconds), "p50": percentile(seconds, 0.5),
                         "p95": percentile(seconds, 0.95),
                         "mean_of_passes": [statistics.fmean(step_seconds(s) for s in run.warm()) for run in runs]},
        "compute_seconds": per_rank(warm, "compute_s"),
        "cpu_seconds": per_rank(warm, "cpu_s"),
        "idle_fraction": idle_fraction(warm),
        "max_over_mean": max_over_mean(warm),
        "data_wait_fraction": data_wait_fraction(warm),
        "prediction_error_ratio": prediction_error_ratio(runs),
        "noise": noise(runs),
        "samples": {what: sum(counts[what] for counts in samples) for what in samples[0]},
        "loss": {"first": statistics.fmean(runs[0].losses()[:4]), "last": statistics.fmean(runs[0].losses()[-4:]),
                 "largest_difference": max(loss_difference(run, reference) for run in runs)},
    }


def speedup(policy, baseline):
    """Mean step time of the baseline over that of a policy, and its factors: by idle time and by compute time."""
    steps = baseline["step_seconds"]["mean"] / policy["step_seconds"]["mean"]
    compute = baseline["compute_seconds"] / policy["compute_seconds"]
    return {"steps": steps, "by_compute": compute, "by_idle": steps / compute}


def compare(runs):
    """The demo's JSON from the passes."""
    policies = {policy: summarise(group, runs[0]) for policy, group in by_policy(runs).items()}
    return {"policies": policies,
            "speedup": {policy: speedup(numbers, policies[BASELINE])
                        for policy, numbers in policies.items() if policy != BASELINE}}


def problems(runs, result):
    """A list of what went wrong, in words; empty if nothing did."""
    found = []
    for policy, numbers in result["policies"].items():
        for what in ("lost", "duplicated"):
            if numbers["samples"][what]:
                found.append(f"{policy}: {counted(numbers['samples'][what], 'sample')} {what}")
        if numbers["loss"]["largest_difference"] > LOSS_TOLERANCE:
            found.append(f"{policy}: a step's loss differs by {numbers['loss']['largest_difference']:.1%} from that of "
                         f"the first pass")
    found += [f"{run.policy} and {runs[0].policy} trained on different global batches"
              for run in runs[1:] if run.batches() != runs[0].batches()]
    return found


def table(result):
    policies = result["policies"]

    def percent(value):
        return "-" if value is None else f"{100 * value:.1f} %"

    def passes(numbers):
        return " and ".join(f"{seconds:.3f}" for seconds in numbers["step_seconds"]["mean_of_passes"])

    rows = [("passes, steps", lambda p: f"{p['passes']}, {p['steps']}"),
            ("step, mean", lambda p: f"{p['step_seconds']['mean']:.3f} s"),
            ("  by pass", lambda p: passes(p) + " s"),
            ("step, p50", lambda p: f"{p['step_seconds']['p50']:.3f} s"),
            ("step, p95", lambda p: f"{p['step_seconds']['p95']:.3f} s"),
            ("compute per rank and step", lambda p: f"{p['compute_seconds']:.3f} s"),
            ("  CPU time in it", lambda p: f"{p['cpu_seconds']:.3f} s"),
            ("ranks wait for the slowest (idle)", lambda p: percent(p["idle_fraction"])),
            ("slowest rank over mean rank", lambda p: f"{p['max_over_mean']:.3f}"),
            ("ranks wait for data", lambda p: percent(p["data_wait_fraction"]))]
    for module in MODULES:
        rows.append((f"prediction error, {module}", lambda p, m=module: percent(p["prediction_error_ratio"][m])))
        rows.append(("  equal work differs by", lambda p, m=module: percent(p["noise"][m])))
    rows += [(f"samples {what}", lambda p, w=what: str(p["samples"][w]))
             for what in ("delivered", "lost", "duplicated", "bad")]
    rows += [("loss, first to last", lambda p: f"{p['loss']['first']:.2f} to {p['loss']['last']:.2f}"),
             ("  a step differs by at most", lambda p: f"{p['loss']['largest_difference']:.1e}")]
    lines = [f"{'':34}" + "".join(f"{policy:>18}" for policy in policies)]
    lines += [f"{name:34}" + "".join(f"{value(numbers):>18}" for numbers in policies.values()) for name, value in rows]
    lines.append("")
    lines += [f"{policy}: steps are {factors['steps']:.2f} times as fast as {BASELINE}: {factors['by_idle']:.2f} times "
              f"by idle time, {factors['by_compute']:.2f} times by compute time"
              for policy, factors in result["speedup"].items()]
    return "\n".join(lines)


def read_trace(file):
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
