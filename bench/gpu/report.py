"""Prints the result as a table; `python3 bench/gpu/report.py FILE` prints that of docs/benchmarks, from a JSON file."""

import json
import sys

import plans

MODULES = {"vision": "encoder", "llm": "decoder"}


def percent(value):
    return f"{100 * value:.1f} %"


def batches(model):
    count = len(model["steps"])
    return f"{count} global batch{'es' if count > 1 else ''} of {model['global_batch_size']} samples"


def header(result):
    attention = ", ".join(f"{name} {own['path']}" for name, own in result["attention"].items())
    lines = [f"{result['hardware']}, {result['dtype']}, torch {result['versions'].get('torch')}, {result['date']}, "
             f"{result['wall_s']:.0f} s",
             f"attention: {attention}", f"predicted by {result['pricing']}, balanced by {result['balancing']}, "
             f"trace: {result['trace']}"]
    if result["no_program"]:
        lines.append(f"(no isocost program: {result['no_program']})")
    if result["tiny"]:
        lines.append("tiny shapes: a test of the path; the numbers mean nothing")
    return lines


def error_rows(model):
    """Relative errors of predictions for microbatches that were not profiled."""
    lines = [f"  {'error':26}{'microbatches':>13}{'MAPE':>9}{'p95':>9}    one throughput: MAPE, p95"]
    for key, name in (("held_out", "1-4 samples"), ("filled", "filled"),
                      ("replayed", f"{plans.POLICIES[plans.BASELINE]} plans")):
        for module, title in MODULES.items() if key in model else ():  # results before version 3 have none filled
            own = model[key][module]
            ours, theirs = own["prediction"], own["one_throughput"]
            lines.append(f"  {title + ', ' + name:26}{own['microbatches']:>13}{percent(ours['mape']):>9}"
                         f"{percent(ours['p95']):>9}{percent(theirs['mape']):>20},{percent(theirs['p95']):>8}")
    return lines


def ranged(values, scale=1.0, unit=""):
    return f"{scale * values['median']:.3g}{unit} ({scale * values['least']:.3g} to {scale * values['most']:.3g})"


def step_rows(model):
    lines = [f"  {'seconds of the slowest rank':30}{'measured':>26}{'predicted':>26}{'idle, %':>24}"]
    for policy in plans.policies_of(model["summary"]):
        own = model["summary"][policy]
        lines.append(f"  {plans.POLICIES[policy]:30}{ranged(own['step_s']):>26}{ranged(own['predicted_step_s']):>26}"
                     f"{ranged(own['idle_fraction'], 100):>24}")
    baseline = plans.POLICIES[plans.BASELINE]
    return lines + [f"  {plans.POLICIES[policy]} is {ranged(speedup)} times as fast as {baseline}"
                    for policy, speedup in model["summary"]["speedup"].items()]


def table(result):
    lines = header(result)
    for name, model in result["models"].items():
        if "skipped" in model:
            lines += ["", f"{name}: left out, {model['skipped']}"]
            continue
        lines += ["", f"{name}: {batches(model)}, "
                  f"{result['ranks']} ranks x {result['microbatches']} microbatches; median (least to most)"]
        lines += error_rows(model) + step_rows(model)
    return "\n".join(lines)


def pages_rows(result):
    """The rows of the table in docs/benchmarks, a column for each model."""
    measured = {name: model for name, model in result["models"].items() if "skipped" not in model}
    models = measured.values()
    yield "", *(written(name) for name in measured)
    for key, microbatches in (("held_out", "unseen microbatches of 1 to 4 samples: MAPE; one throughput, as published"),
                              ("filled", "unseen microbatches filled up to 16,384 tokens"),
                              ("replayed", f"microbatches of the {plans.POLICIES[plans.BASELINE]} plan")):
        for module, title in MODULES.items() if all(key in model for model in models) else ():
            errors = [model[key][module] for model in models]
            yield (f"{title}, {microbatches if module == 'vision' else 'the same'}",
                   *("; ".join(percent(own[method]["mape"]) for method in ("prediction", "one_throughput"))
                     for own in errors))
    policies = plans.policies_of(next(iter(models))["summary"])
    for policy in policies:
        steps = [model["summary"][policy] for model in models]
        yield (f"step {plans.POLICIES[policy]}: measured, predicted",
               *(f"{own['step_s']['median']:.2f} s, {own['predicted_step_s']['median']:.2f} s" for own in steps))
    yield (f"ranks idle, {listed(policies)}",
           *(listed(policies, lambda policy, own=model: percent(own["summary"][policy]["idle_fraction"]["median"]))
             for model in models))
    for policy in policies[1:]:
        yield (f"{plans.POLICIES[policy]} is … times as fast",
               *(f"{own['summary']['speedup'][policy]['median']:.2f}" for own in models))


def listed(policies, of=plans.POLICIES.get):
    """Returns the values of `of` for the policies, joined as in a sentence."""
    *first, last = map(of, policies)
    return f"{', '.join(first)} and {last}"


def written(name):
    """A model's name as pages write it: Qwen2.5 7B."""
    family, _, size = name.partition("-")
    return f"{family.capitalize()} {size.upper()}"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        for number, row in enumerate(pages_rows(json.load(file))):
            print("| " + " | ".join(row) + " |")
            if number == 0:
                print("|---" * len(row) + "|")
