"""Predicts the microbatches of recorded runs of profile_mllm.py again, by the program as it is now, from the points
that were measured then.

    python3 bench/gpu/repredict.py docs/benchmarks/h200_profile_mllm.json docs/benchmarks/h200_profile_short.json

Prints the MAPE of each kind of microbatches: as recorded, and now. The seeds give the same microbatches again. Then, of
all kinds together, that of those which the host gates, and of those which the device gates: they are predicted to take
at least twice as long as the smallest load.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import plans
import pricing
import replay
import traces
from profile_mllm import FILLED_TOKENS, SEEDS

KINDS = {"held_out": "1-4 samples", "filled": "filled", "replayed": "in plans"}


def microbatches(result, model):
    """{kind: [{module: lengths}]}, as the run drew them."""
    own = model["comparisons"]
    trace = result.get("trace", traces.MIXED)  # the only one before 2026-11-28
    mixture = traces.Mixture(traces.read(result["tiny"]), SEEDS["held_out"], trace)
    drawn = {kind: [] for kind in own}
    for _ in own["held_out"]["llm"]:
        drawn["held_out"].append(traces.lengths_of(mixture.draw(mixture.some(replay.SIZES))))
        if "filled" in own:
            drawn["filled"].append(traces.lengths_of(replay.fill(mixture, FILLED_TOKENS)))
    mixture = traces.Mixture(traces.read(result["tiny"]), SEEDS["global_batches"], trace)
    mixture.draw(64)  # whose mean cost said how many samples fit
    for _ in model["steps"]:
        samples = mixture.draw(model["global_batch_size"])
        drawn["replayed"] += [traces.lengths_of([samples[i] for i in part])
                              for parts in plans.in_order(len(samples), result["ranks"], result["microbatches"])
                              for part in parts]
    return drawn


def mape(pairs):
    """In percent; pairs of predicted and measured seconds."""
    return 100 * statistics.fmean(abs(predicted / measured - 1) for predicted, measured in pairs)


def compare(result, name, model, program):
    with tempfile.TemporaryDirectory(prefix="isocost-bench-") as directory:
        file = pathlib.Path(directory) / "profile.json"
        file.write_text(json.dumps(model["profile"]), encoding="utf-8")
        prices = pricing.ProgramPrices(program, file)
        smallest = prices.price([{module: [1] for module in pricing.MODULES}])[0]
        gated_by = {module: {"host": [], "device": []} for module in pricing.MODULES}
        for kind, lengths in microbatches(result, model).items():
            priced = prices.price(lengths)
            for module in pricing.MODULES:
                comparisons = model["comparisons"][kind][module]
                predicted = [price[module].seconds for price, own in zip(priced, lengths) if own[module]]
                if [sum(own[module]) for own in lengths if own[module]] != [own["units"] for own in comparisons]:
                    raise RuntimeError(f"{name}, {kind}: the seeds give other microbatches than the recorded ones")
                then = mape((own["predicted_s"], own["measured_s"]) for own in comparisons)
                pairs = [(seconds, own["measured_s"]) for seconds, own in zip(predicted, comparisons)]
                say(result, name, module, KINDS[kind], len(pairs), f"{then:5.1f} % then, {mape(pairs):5.1f} % now")
                for pair in pairs:
                    is_of_device = pair[0] >= 2 * smallest[module].seconds
                    gated_by[module]["device" if is_of_device else "host"].append(pair)
    for module, gated in gated_by.items():
        for gate, pairs in gated.items():
            if pairs:
                say(result, name, module, f"{gate}-gated", len(pairs), f"{mape(pairs):5.1f} % now")


def say(result, name, module, kind, count, errors):
    print(f"{result['hardware']:24} {name:14} {module:7} {kind:12} {count:4} microbatches: {errors}")


def main():
    program, reason = pricing.find_program(None)
    if not program or len(sys.argv) < 2:
        sys.exit(reason or __doc__)
    for file in sys.argv[1:]:
        result = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
        for name, model in result["models"].items():
            if "skipped" not in model:
                compare(result, name, model, program)


if __name__ == "__main__":
    main()
