"""The Trainer's own setting `fsdp` on a loader: losses and norms of gradients of two ranks are those of a plain loop.

accelerate follows this setting only on accelerators. The runs here make it take their CPUs for several: what shards,
reduces, clips, saves, and loads is its code and torch's, over gloo."""

from support import main
from training_runs import Runs


class Fsdp(Runs):
    def test_sharded_models_train_as_one(self):
        for family in ("qwen2_5_vl", "qwen3_5"):  # two microbatches a rank and step
            with self.subTest(family):
                found = self.run_with(family, "--fsdp", ranks=2, output=f"{family}-fsdp")
                self.assert_equal(found, self.run_with(family, "--plain"))
                self.assert_all_samples(found)

    def test_a_killed_run_goes_on(self):
        # Adam, because torch cannot load a sharded optimizer without a state, such as SGD.
        self.check_killed("qwen3_5", "--fsdp", "--adam", ranks=(2, 3), undisturbed=2)


if __name__ == "__main__":
    main()
