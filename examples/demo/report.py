"""Computes the numbers of the demo's table and JSON from the traces of its runs."""

import collections
import json
import math
import statistics

MODULES = ("vision", "audio", "llm")
# Policies as keys of the report, in the order in which they run. The others are compared with the first.
POLICIES = ("in_order", "cost")
BASELINE = POLICIES[0]
WARM_UP_STEPS = 1  # the first step pays for lazy initialisation and the first fetch
ACCURACY_WINDOW = 256  # microbatches, as in the node's own accuracy


def policy_name(policy):
    """The policy as in --balance and in what people read."""
    return policy.replace("_", "-")


def counted(count, noun):
    """"1 sample" or "2 samples"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


class Run:
    """One policy's run: the traces of all ranks and the node's summary."""

    def __init__(self, lines, summary, samples_in_dataset, limited):
        self.microbatches = [l for l in lines if l["type"] == "microbatch"]
        self.summary = summary
        self.samples_in_dataset = samples_in_dataset
        self.limited = limited  # it trained fewer steps than the epoch has
        steps = collections.defaultdict(list)
        for line in lines:
            if line["type"] == "step":
                steps[line["epoch"], line["step"]].append(line)
        self.steps = [sorted(steps[key], key=lambda l: l["rank"]) for key in sorted(steps)]

    def warm(self):
        return self.steps[WARM_UP_STEPS:] or self.steps

    def batches(self):
        """The sample ids of each global batch."""
        ids = collections.defaultdict(set)
        for line in self.microbatches:
            ids[line["epoch"], line["step"]].update(i for i, _ in line["samples"])
        return dict(ids)


def percentile(values, q):
    """By linear interpolation between the closest ranks; q in 0..1."""
    values = sorted(values)
    place = q * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def step_seconds(step):
    """From the first rank that asks for data to the last that has updated its weights."""
    return max(l["end_s"] for l in step) - min(l["start_s"] for l in step)


def idle_fraction(steps):
    """The part of the ranks' time in steps that they waited for the slowest rank."""
    return (sum(l["wait_for_peers_s"] for s in steps for l in s) /
            sum(step_seconds(s) * len(s) for s in steps))


def data_wait_fraction(steps):
    return (sum(l["data_wait_s"] for s in steps for l in s) /
            sum(step_seconds(s) * len(s) for s in steps))


def max_over_mean(steps):
    """Compute time of the slowest rank over that of the mean rank, averaged over steps."""
    return statistics.fmean(
        max(l["compute_s"] for l in s) / statistics.fmean(l["compute_s"] for l in s) for s in steps)


def mape(microbatches):
    """Mean absolute error of predicted seconds, relative to the measured ones, by module."""
    last = sorted(microbatches, key=lambda l: l["start_s"])[-ACCURACY_WINDOW:]
    result = {}
    for module in MODULES:
        errors = [abs(l["predicted"][module] - l["seconds"][module]) / l["seconds"][module]
                  for l in last if l["seconds"].get(module, 0) > 0]
        result[module] = statistics.fmean(errors) if errors else None
    return result


def count_samples(run):
    """Numbers of delivered, lost, duplicated and bad samples. A repeat of zero weight, which gives a rank something to
    run, does not count as a duplicate."""
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
        epochs = run.summary["epochs"]
        there = run.samples_in_dataset * epochs - planned["bad"] - planned["dropped"]
        lost = max(lost, there - len(seen))
    return {"delivered": len(seen), "lost": max(0, lost),
            "duplicated": sum(n - 1 for n in weighted.values()), "bad": planned["bad"]}


def losses(steps):
    """Mean loss of the first and the last four steps."""
    values = [s[0]["loss"] for s in steps]
    return {"first": statistics.fmean(values[:4]), "last": statistics.fmean(values[-4:])}


def summarise(run):
    seconds = [step_seconds(s) for s in run.warm()]
    return {
        "steps": len(run.steps),
        "step_seconds": {"mean": statistics.fmean(seconds), "p50": percentile(seconds, 0.5),
                         "p95": percentile(seconds, 0.95)},
        "idle_fraction": idle_fraction(run.warm()),
        "max_over_mean": max_over_mean(run.warm()),
        "data_wait_fraction": data_wait_fraction(run.warm()),
        "mape": mape(run.microbatches),
        "samples": count_samples(run),
        "loss": losses(run.steps),
    }


def compare(runs):
    """The demo's JSON from {policy: Run}. `speedup` is the mean step time of the baseline over that of each other
    policy."""
    policies = {policy: summarise(run) for policy, run in runs.items()}
    mean = {policy: numbers["step_seconds"]["mean"] for policy, numbers in policies.items()}
    return {"policies": policies,
            "speedup": {policy: mean[BASELINE] / mean[policy] for policy in runs if policy != BASELINE}}


def problems(runs, result):
    """A list of what went wrong, in words; empty if nothing did."""
    found = []
    for policy, numbers in result["policies"].items():
        for what in ("lost", "duplicated"):
            if numbers["samples"][what]:
                found.append(f"{policy_name(policy)}: {counted(numbers['samples'][what], 'sample')} {what}")
    for policy, run in runs.items():
        if run.batches() != runs[BASELINE].batches():
            found.append(f"{policy_name(policy)} and {policy_name(BASELINE)} trained on different global batches")
    return found


def table(result):
    policies = result["policies"]

    def percent(value):
        return "-" if value is None else f"{100 * value:.1f} %"

    rows = [("steps", lambda p: str(p["steps"])),
            ("step, mean", lambda p: f"{p['step_seconds']['mean']:.3f} s"),
            ("step, p50", lambda p: f"{p['step_seconds']['p50']:.3f} s"),
            ("step, p95", lambda p: f"{p['step_seconds']['p95']:.3f} s"),
            ("ranks wait for the slowest (idle)", lambda p: percent(p["idle_fraction"])),
            ("slowest rank over mean rank", lambda p: f"{p['max_over_mean']:.3f}"),
            ("ranks wait for data", lambda p: percent(p["data_wait_fraction"]))]
    rows += [(f"prediction error, {module}", lambda p, m=module: percent(p["mape"][m]))
             for module in MODULES]
    rows += [(f"samples {what}", lambda p, w=what: str(p["samples"][w]))
             for what in ("delivered", "lost", "duplicated", "bad")]
    rows += [("loss, first to last", lambda p: f"{p['loss']['first']:.2f} to {p['loss']['last']:.2f}")]
    lines = [f"{'':34}" + "".join(f"{policy_name(policy):>16}" for policy in policies)]
    lines += [f"{name:34}" + "".join(f"{value(numbers):>16}" for numbers in policies.values()) for name, value in rows]
    lines.append("")
    lines += [f"{policy_name(policy)}: steps are {speedup:.2f} times as fast as {policy_name(BASELINE)}"
              for policy, speedup in result["speedup"].items()]
    return "\n".join(lines)


def read_trace(file):
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
