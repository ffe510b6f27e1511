"""The Trainer on a loader beside transformers' own Trainer, loader and collator with the model's own processor, over
the same global batches: losses and norms of gradients are equal."""

import json

from support import main
from training_runs import HERE, Lines, Runs

GLOBAL_BATCH, STEPS = 8, 10
OF_PROCESSOR = 1e-4  # its torchvision rounds some pixels otherwise (docs/models/processor_differences.md)


def by_run(text):
    """The lines of each run, by its name; of the ranks one after the other."""
    found, lines = {}, []
    for line in text.splitlines():
        if line.startswith('{"run"'):
            lines = found.setdefault(json.loads(line)["run"], [])
        lines.append(line)
    return {name: Lines("\n".join(lines)) for name, lines in found.items()}


class BesideTheProcessor(Runs):
    SCRIPT = HERE / "trainer_processor_run.py"
    DATA = {"train": GLOBAL_BATCH * STEPS}

    def check(self, family):
        alone, of_two = (by_run(self.printed(family, ranks=ranks)) for ranks in (1, 2))
        plain = alone["plain"]
        self.assertEqual(len(plain.losses), STEPS)
        self.assertLess(plain.losses[STEPS], plain.losses[1])
        for runs in (alone, of_two):
            self.assert_equal(runs["loader"], plain)
            self.assert_equal(runs["processor"], runs["loader"], within=OF_PROCESSOR)

    def test_qwen2_5_vl(self):
        self.check("qwen2_5_vl")

    def test_qwen3_5(self):
        self.check("qwen3_5")


if __name__ == "__main__":
    main()
