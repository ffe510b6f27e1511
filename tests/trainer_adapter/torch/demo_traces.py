"""Makes up traces of two ranks in which every number is known."""


def trace(step_seconds, microbatches=2, predicted=1.1):
    """`step_seconds[k][rank]` is what the rank computes in step k; 0.01 s of data wait and 0.02 s of
    reducing a step. Sample ids count up; a microbatch has two."""
    lines = []
    start, sample = 100.0, 0
    for step, ranks in enumerate(step_seconds):
        slowest = max(ranks) + 0.01
        for rank, seconds in enumerate(ranks):
            share = seconds / microbatches
            for m in range(microbatches):
                lines.append({
                    "type": "microbatch", "rank": rank, "epoch": 0, "step": step, "microbatch": m,
                    "start_s": start + 0.01 + m * share, "data_wait_s": 0.01 if m == 0 else 0.0,
                    "compute_s": share, "seconds": {"vision": share * 0.5, "llm": share * 0.5},
                    "predicted": {"vision": share * 0.5 * predicted, "audio": 0.0,
                                  "llm": share * 0.5}, "units": {},
                    "samples": [[sample, 1.0], [sample + 1, 0.5]], "label_tokens": 10})
                sample += 2
            lines.append({
                "type": "step", "rank": rank, "epoch": 0, "step": step, "start_s": start,
                "end_s": start + slowest + 0.02, "data_wait_s": 0.01, "compute_s": seconds,
                "cpu_s": 0.9 * seconds,
                "wait_for_peers_s": slowest - 0.01 - seconds, "reduce_s": 0.02, "loss": 5.0 - step})
        start += slowest + 0.02
    return lines


def summary(planned, bad=0, dropped=0):
    return {"epochs_planned": 1, "steps_planned": 0,
            "samples": {"planned": planned, "bad": bad, "dropped": dropped}}
