"""Prints the result as a table."""

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
             f"attention: {attention}", f"predicted by {result['pricing']}, balanced by {result['balancing']}"]
    if result["no_program"]:
        lines.append(f"(no isocost program: {result['no_program']})")
    if result["tiny"]:
        lines.append("tiny shapes: a test of the path; the numbers mean nothing")
    return lines


def error_rows(model):
    """Relative errors of predictions for microbatches that were not profiled."""
    lines = [f"  {'error':26}{'microbatches':>13}{'MAPE':>9}{'p95':>9}    one throughput: MAPE, p95"]
    for key, name in (("held_out", "1-4 samples"), ("replayed", f"{plans.policy_name(plans.BASELINE)} plans")):
        for module, title in MODULES.items():
            own = model[key][module]
            ours, theirs = own["prediction"], own["one_throughput"]
            lines.append(f"  {title + ', ' + name:26}{own['microbatches']:>13}{percent(ours['mape']):>9}"
                         f"{percent(ours['p95']):>9}{percent(theirs['mape']):>20},{percent(theirs['p95']):>8}")
    return lines


def ranged(values, scale=1.0, unit=""):
    return f"{scale * values['median']:.3g}{unit} ({scale * values['least']:.3g} to {scale * values['most']:.3g})"


def step_rows(model):
    lines = [f"  {'seconds of the slowest rank':30}{'measured':>26}{'predicted':>26}{'idle, %':>24}"]
    for policy in plans.POLICIES:
        own = model["summary"][policy]
        lines.append(f"  {plans.policy_name(policy):30}{ranged(own['step_s']):>26}{ranged(own['predicted_step_s']):>26}"
                     f"{ranged(own['idle_fraction'], 100):>24}")
    baseline = plans.policy_name(plans.BASELINE)
    return lines + [f"  {plans.policy_name(policy)} is {ranged(speedup)} times as fast as {baseline}"
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
