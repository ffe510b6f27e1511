"""Lightning on a loader: by isocost.integrations.lightning, and by a LightningModule of one's own."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import unittest

import isocost
from frameworks_test import Runs, steps_of
from ranks_test import environment
from support import SAMPLES, TIMEOUT, ShardTest, main, torchrun

NEEDED = ("lightning", "transformers", "tokenizers", "jinja2", "PIL", "torchvision")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
WHY = f"{', '.join(MISSING)} not installed: ./run test --torch2 has all"
GOES_ON_AT = ((0, 2), (1, 1), (2, 0))  # A checkpoint is written after every second step.

# Trains one weight, with losses that are the samples' numbers, and writes which samples each step had. It goes on from
# the last checkpoint. None of its hooks calls `super()`, which Lightning does not ask for.
TABLE = """
import json, os, sys
import lightning, torch, isocost
from lightning.pytorch.callbacks import ModelCheckpoint, OnExceptionCheckpoint
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau
from isocost.integrations.lightning import Module

shards, folder, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
loader_options = {"epochs": 2, "global_batch_size": 8, "microbatches": 1, **options.get("loader", {})}
if "mixture" in options:
    del loader_options["epochs"]
made = []

class Failing(torch.optim.SGD):
    calls = 0

    def step(self, closure=None):
        Failing.calls += 1
        if Failing.calls == options["fails_at"]:
            raise RuntimeError("no step")
        return super().step(closure)

class Table(Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.ones_(self.table.weight)

    def make_loader(self):
        made.append(isocost.DataLoader(shards, node=isocost.NodeOptions(correct=False), **loader_options))
        return made[-1]

    def make_validation_loader(self):
        return isocost.DataLoader(shards, global_batch_size=16, shuffle=False,
                                  **options.get("validation", {})) if options.get("evaluates") else None

    def loss(self, microbatch):
        ids = sum(sample for sample, weight in zip(microbatch.sample_ids, microbatch.sample_weights) if weight)
        return self.table(torch.full((1, 1), ids / microbatch.global_label_tokens)).sum()

    def configure_optimizers(self):
        kind = Failing if "fails_at" in options else torch.optim.SGD
        optimizers = [kind(self.parameters(), lr=options.get("lr", 0.01)) for _ in range(options.get("optimizers", 1))]
        if options.get("plateau"):
            return optimizers, [ReduceLROnPlateau(optimizers[0])]
        return optimizers, [{"scheduler": LambdaLR(optimizers[0], lambda count: 1.0), **each}
                            for each in options.get("schedulers", [])]

    def configure_callbacks(self):
        return [lightning.Callback()]

    def on_train_batch_end(self, outputs, batch, batch_idx):
        counts = [each.scheduler.last_epoch for each in self.trainer.lr_scheduler_configs]
        if counts:
            print("schedulers", json.dumps([batch.microbatches[0].epoch, batch.microbatches[0].step, counts]))
        ids = [sample for each in batch.microbatches
               for sample, weight in zip(each.sample_ids, each.sample_weights) if weight]
        at = batch.microbatches[0]
        with open(os.path.join(folder, f"seen-{self.trainer.global_rank}.jsonl"), "a") as seen:
            print(json.dumps([at.epoch, at.step, ids]), file=seen)

    def on_train_epoch_end(self):
        pass

    def on_train_end(self):
        if self.trainer.is_global_zero:  # Lines of two ranks would mix.
            print("reports", made[0].stats()["reports"], flush=True)

    def on_validation_epoch_start(self):
        pass

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking and self.trainer.is_global_zero:
            print("val_loss", self.trainer.callback_metrics["val_loss"].item(), flush=True)

    def teardown(self, stage):
        pass

checkpoints = ModelCheckpoint(folder, save_last=True, every_n_train_steps=1)
callbacks = [checkpoints, OnExceptionCheckpoint(folder)] if "fails_at" in options else [checkpoints]
trainer = lightning.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                            callbacks=callbacks, **{"max_epochs": 2, **options.get("trainer", {})})
if options.get("validates"):
    trainer.validate(Table(), verbose=False)
else:
    trainer.fit(Table(), ckpt_path=options.get("checkpoint", "last"))
    try:
        iter(made[0])
    except isocost.ClosedError:
        if trainer.is_global_zero:
            print("closed", flush=True)
"""

# A LightningModule and a loop of one's own. The loader has no length, so Lightning fetches one microbatch ahead.
OWN = """
import json, os, sys, warnings
warnings.filterwarnings("ignore")
import lightning, torch, isocost
from lightning.pytorch.callbacks import ModelCheckpoint

shards, folder, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])

class Own(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.table = torch.nn.Linear(1, 1)

    def train_dataloader(self):
        self.loader = isocost.DataLoader(shards, global_batch_size=8, max_tokens=100000)
        return self.loader

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return batch

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def training_step(self, microbatch, batch_idx):
        with self.loader.timed(microbatch):
            self.manual_backward(self.table(torch.ones(1, 1)).sum())
        self.optimizers().step()
        with open(os.path.join(folder, "seen-0.jsonl"), "a") as seen:
            print(json.dumps([microbatch.epoch, microbatch.step, microbatch.sample_ids]), file=seen)

trainer = lightning.Trainer(accelerator="cpu", max_epochs=2, logger=False, enable_progress_bar=False,
                            enable_model_summary=False,
                            callbacks=[ModelCheckpoint(folder, save_last=True, every_n_train_steps=1)], **options)
trainer.fit(Own(), ckpt_path="last")
"""

# A loader that was made before the fit, when Lightning has not started the ranks.
EARLY = """
import sys, warnings
warnings.filterwarnings("ignore")
import lightning, torch, isocost

class Early(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Linear(1, 1)

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return batch

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def training_step(self, microbatch, batch_idx):
        print("trained", flush=True)
        return self.table(torch.ones(1, 1)).sum()

loader = isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2, **eval(sys.argv[2]))
lightning.Trainer(accelerator="cpu", strategy="ddp", devices=2, max_epochs=1, logger=False, enable_progress_bar=False,
                  enable_model_summary=False, enable_checkpointing=False).fit(Early(), loader)
"""


# A Module with loaders that are passed to `fit`. It has none of its own to validate on.
PASSED = """
import sys
import lightning, torch, isocost
from isocost.integrations.lightning import Module

class Table(Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Linear(1, 1)

    def make_loader(self):
        return isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2)

    def loss(self, microbatch):
        return self.table(torch.ones(1, 1)).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

class Validating(Table):
    def validation_step(self, batch, batch_idx):
        print("validated", batch_idx, flush=True)

passed = {name: torch.utils.data.DataLoader(torch.arange(3.0)) for name in sys.argv[3:]}
trainer = lightning.Trainer(accelerator="cpu", max_epochs=1, logger=False, enable_progress_bar=False,
                            enable_model_summary=False, enable_checkpointing=False, num_sanity_val_steps=0)
module = globals()[sys.argv[2]]()
trainer.fit(module, **passed)
if not passed:
    trainer.validate(module)
"""


@unittest.skipIf(MISSING, WHY)
class Example(Runs):
    def check(self, name, *more):
        whole = torchrun([*self.arguments("lightning_module", f"{name}-whole"), "--devices", "2", *more], 2)
        self.assert_undisturbed(steps_of(whole.stdout))
        for ranks in (1, 3):
            folder = f"{name}-{ranks}"
            self.kill("lightning_module", folder, "--devices", "2", *more)
            run = torchrun([*self.arguments("lightning_module", folder), "--devices", ranks, *more], ranks)
            found = steps_of(run.stdout)
            self.assertIn(min(found), GOES_ON_AT)
            self.assert_undisturbed(found, min(found))

    def test_distributed_data_parallel(self):
        self.check("ddp")

    def test_fully_shard(self):
        self.check("sharded", "--sharded")

    def test_its_own_launcher(self):
        arguments = [*self.arguments("lightning_module", "own"), "--devices", "2"]
        run = subprocess.run([sys.executable, "-B", *map(str, arguments)], env=environment(), capture_output=True,
                             text=True, timeout=4 * TIMEOUT)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assert_undisturbed(steps_of(run.stdout))


@unittest.skipIf(MISSING, WHY)
class Lightning(ShardTest):
    def script(self, program):
        file = self.directory / "lightning_program.py"
        file.write_text(program)
        return file

    def run_table(self, folder, expect=0, ranks=1, data=None, **options):
        options.setdefault("trainer", {})
        if ranks > 1:
            options["trainer"].update(strategy="ddp", devices=ranks)
        run = subprocess.run([sys.executable, "-B", self.script(TABLE), data or self.shards, folder,
                              json.dumps(options)],
                             env=environment(), capture_output=True, text=True, timeout=4 * TIMEOUT)
        self.assertEqual(run.returncode, expect, run.stderr)
        return run

    def run_own(self, folder, **trainer):
        run = subprocess.run([sys.executable, "-B", self.script(OWN), self.shards, folder, json.dumps(trainer)],
                             env=environment(), capture_output=True, text=True, timeout=2 * TIMEOUT)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def printed(self, run, name):
        """The rest of each line of the output that begins with this name."""
        return [line.split(" ", 1)[1] for line in run.stdout.splitlines() if line.startswith(f"{name} ")]

    def counts(self, run):
        """How often each scheduler has been stepped after each of the run's steps."""
        return {(epoch, step): counts for epoch, step, counts in map(json.loads, self.printed(run, "schedulers"))}

    def seen(self, folder):
        """The samples of each step, by epoch and step, over all ranks; a step that was trained twice fails."""
        steps = {}
        for file in sorted(folder.glob("seen-*.jsonl")):
            of_rank = [json.loads(line) for line in file.read_text().splitlines()]
            self.assertEqual(len({(epoch, step) for epoch, step, _ in of_rank}), len(of_rank), "a step was repeated")
            for epoch, step, ids in of_rank:
                steps.setdefault((epoch, step), []).extend(ids)
        return {at: sorted(ids) for at, ids in steps.items()}

    def folder(self, name):
        folder = self.directory / name
        folder.mkdir()
        return folder

    def assert_each_sample_once_an_epoch(self, seen, epochs=2):
        for epoch in range(epochs):
            ids = [sample for at, of_step in seen.items() if at[0] == epoch for sample in of_step]
            self.assertEqual(sorted(ids), list(range(SAMPLES)), epoch)

    def test_a_resumed_run_goes_on_with_the_next_step(self):
        whole = self.folder("whole")
        self.run_table(whole)
        expected = self.seen(whole)
        self.assert_each_sample_once_an_epoch(expected)
        steps = len(expected) // 2
        for microbatches in (1, 2):
            for stop in (1, steps - 1, steps, steps + 1):  # within an epoch, before its last step, at its end, behind
                with self.subTest(microbatches=microbatches, stop=stop):
                    folder = self.folder(f"resumed-{microbatches}-{stop}")
                    loader = {"microbatches": microbatches}
                    self.run_table(folder, loader=loader, trainer={"max_steps": stop})
                    self.assertEqual(len(self.seen(folder)), stop)
                    self.run_table(folder, loader=loader)
                    self.assertEqual(self.seen(folder), expected)

    def test_a_mixture_goes_on_with_the_next_step_on_another_number_of_ranks(self):
        shards = sorted(pathlib.Path(self.shards).glob("*.tar"))
        mixture = self.directory / "mixture.toml"
        sources = [f'[[source]]\nname = "{name}"\npath = "{path}"\nproportion = {proportion}\n'
                   for name, path, proportion in (("one", shards[0], 1), ("two", shards[1], 3))]
        mixture.write_text("steps = 9\n" + "\n".join(sources))
        whole = self.folder("mixture-whole")
        options = {"data": mixture, "mixture": True}
        self.run_table(whole, trainer={"max_epochs": 1}, **options)
        expected = self.seen(whole)
        self.assertEqual(sorted(expected), [(0, step) for step in range(9)])
        for ranks, stop in ((1, 4), (2, 5)):
            with self.subTest(ranks=ranks):
                folder = self.folder(f"mixture-{ranks}")
                self.run_table(folder, trainer={"max_epochs": 1, "max_steps": stop}, **options)
                self.assertEqual(len(self.seen(folder)), stop)
                self.run_table(folder, ranks=ranks, trainer={"max_epochs": 1}, **options)
                self.assertEqual(self.seen(folder), expected)

    def test_a_step_whose_optimizer_failed_is_taken_by_the_resumed_run(self):
        folder = self.folder("failed")
        loader = {"microbatches": 2}
        run = self.run_table(folder, expect=1, loader=loader, fails_at=3)
        self.assertIn("RuntimeError: no step", run.stderr)
        self.assertEqual(sorted(self.seen(folder)), [(0, 0), (0, 1)])
        run = self.run_table(folder, loader=loader, checkpoint=str(folder / "on_exception.ckpt"))
        self.assert_each_sample_once_an_epoch(self.seen(folder))
        steps = len(self.seen(folder)) - 2
        self.assertGreater(int(self.printed(run, "reports")[0]), steps)  # Most steps have two microbatches.

    def test_schedulers_step_as_lightning_counts(self):
        schedulers = [{}, {"frequency": 2}, {"interval": "step"}, {"interval": "step", "frequency": 2}]
        whole = self.counts(self.run_table(self.folder("scheduled"), schedulers=schedulers))
        steps = len(whole) // 2
        for (epoch, step), found in whole.items():
            epochs = epoch + (step == steps - 1)
            self.assertEqual(found, [epochs, epochs // 2, epoch * steps + step + 1,
                                     epoch * (steps // 2) + (step + 1) // 2], (epoch, step))
        for stop in (steps - 1, steps):  # before an epoch's last step, and after it
            folder = self.folder(f"scheduled-{stop}")
            found = self.counts(self.run_table(folder, schedulers=schedulers, trainer={"max_steps": stop}))
            found.update(self.counts(self.run_table(folder, schedulers=schedulers)))
            self.assertEqual(found, whole)

    def test_what_would_not_be_stepped_is_refused(self):
        for options, said in (({"plateau": True}, "ReduceLROnPlateau needs a metric, and would not be stepped"),
                              ({"optimizers": 2}, "configure_optimizers returned 2 optimizers, and a step is one"),
                              ({"schedulers": [{"interval": "batch"}]}, "\"interval\" = 'batch': must be")):
            with self.subTest(options=options):
                folder = self.folder("refused-" + "-".join(options))
                run = self.run_table(folder, expect=1, **options)
                self.assertIn("ValueError: configure_optimizers", run.stderr)
                self.assertIn(said, run.stderr)
                self.assertEqual(self.seen(folder), {})

    def test_loaders_are_closed_after_a_fit(self):
        run = self.run_table(self.folder("closed"), trainer={"max_steps": 1})
        self.assertIn("closed", run.stdout.splitlines())

    def test_ranks_of_its_launcher_train_on_samples_of_their_own(self):
        folder = self.folder("launched")
        self.run_table(folder, ranks=2)
        self.assert_each_sample_once_an_epoch(self.seen(folder))

    def test_a_loop_of_ones_own_that_is_fetched_ahead(self):
        folder = self.folder("own")
        for stop in (2, 5, 1000):
            self.run_own(folder, max_steps=stop)
        self.assert_each_sample_once_an_epoch(self.seen(folder))

    def test_a_loop_of_ones_own_that_leaves_its_epochs(self):
        folder = self.folder("own-limited")
        run = self.run_own(folder, limit_train_batches=3)
        self.assertEqual(sorted(self.seen(folder)), [(epoch, step) for epoch in range(2) for step in range(3)])
        self.assertIn("epoch 0 was left at step 3: the rest of it is not trained on", run.stderr)

    def test_a_loader_that_was_made_before_the_fit_ends_the_run(self):
        run = subprocess.run([sys.executable, "-B", self.script(EARLY), self.shards, "{}"], env=environment(),
                             capture_output=True, text=True, timeout=2 * TIMEOUT)
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn("trained", run.stdout)
        self.assertIn("WORLD_SIZE = 2 and no RANK", run.stderr)  # in the rank that it starts
        self.assertIn("in Lightning in train_dataloader", run.stderr)

    def test_the_parent_is_told_at_its_first_microbatch(self):
        # The rank that Lightning starts is given numbers here, and the parent finds none before the fit.
        numbers = "({'rank': 0, 'world_size': 1} if 'LOCAL_RANK' in __import__('os').environ else {})"
        run = subprocess.run([sys.executable, "-B", self.script(EARLY), self.shards, numbers], env=environment(),
                             capture_output=True, text=True, timeout=2 * TIMEOUT)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("the loader was made as rank 0 of 1 (no launcher had said otherwise), and this process is rank 0 "
                      "of 2", run.stderr)

    def test_evaluation_is_the_mean_over_all_label_tokens(self):
        with isocost.DataLoader(self.shards, global_batch_size=16) as loader:
            microbatches = list(loader)
        tokens = sum(each.label_tokens for each in microbatches)
        expected = sum(range(SAMPLES)) / tokens
        for ranks in (1, 2):
            run = self.run_table(self.folder(f"evaluated-{ranks}"), ranks=ranks, evaluates=True, lr=0.0,
                                 trainer={"num_sanity_val_steps": 2})
            found = [float(value) for value in self.printed(run, "val_loss")]
            self.assertEqual(len(found), 2, "one an epoch")
            for value in found:
                self.assertAlmostEqual(value / expected, 1, delta=1e-6)
        run = self.run_table(self.folder("validated"), evaluates=True, validates=True)
        self.assertAlmostEqual(float(self.printed(run, "val_loss")[0]) / expected, 1, delta=1e-6)

    def test_an_epoch_that_is_left_early_is_followed_by_the_next(self):
        for ranks in (1, 2):
            folder = self.folder(f"limited-{ranks}")
            run = self.run_table(folder, ranks=ranks, trainer={"limit_train_batches": 2})
            self.assertEqual(sorted(self.seen(folder)), [(0, 0), (0, 1), (1, 0), (1, 1)])
            self.assertIn("epoch 0 was left at step 2: the rest of it is not trained on", run.stderr)

    def run_passed(self, module, *arguments, expect=0):
        run = subprocess.run([sys.executable, "-B", self.script(PASSED), self.shards, module, *arguments],
                             env=environment(), capture_output=True, text=True, timeout=2 * TIMEOUT)
        self.assertEqual(run.returncode, expect, run.stderr)
        return run

    def test_a_loader_of_ones_own_is_validated_on(self):
        run = self.run_passed("Validating", "val_dataloaders")
        self.assertEqual(run.stdout.splitlines(), [f"validated {i}" for i in range(3)])

    def test_no_warning_comes_of_no_loader_to_evaluate_on(self):
        run = self.run_table(self.folder("unwarned"), trainer={"max_steps": 1})  # make_validation_loader returns None
        passed = self.run_passed("Table", expect=1)  # It has none, and calls Trainer.validate after the fit.
        for stderr in (run.stderr, passed.stderr):
            self.assertNotRegex(stderr, "You defined a `validation_step`|Total length")
        self.assertIn("ValueError: Trainer.validate: make_validation_loader returned no loader to evaluate on",
                      passed.stderr)

    def test_batches_of_other_loaders_are_refused(self):
        for argument, method in (("train_dataloaders", "make_loader"), ("val_dataloaders", "make_validation_loader")):
            with self.subTest(argument=argument):
                run = self.run_passed("Table", argument, expect=1)
                self.assertRegex(run.stderr, rf"a batch is of type Tensor: return an isocost.DataLoader from {method}, "
                                             rf"and leave {argument}= out")

    def test_settings_under_which_gradients_would_be_wrong_are_refused(self):
        for trainer, said in (({"overfit_batches": 2}, "overfit_batches = 2: the loader decides"),
                              ({"reload_dataloaders_every_n_epochs": 1}, "reload_dataloaders_every_n_epochs = 1"),
                              ({"precision": "16-true"}, "precision = 16-true: .*use bf16")):
            with self.subTest(trainer=trainer):
                name = "refused-" + "-".join(trainer)
                run = self.run_table(self.folder(name), expect=1, trainer=trainer)
                self.assertRegex(run.stderr, said)

    def test_a_loader_that_ends_before_its_trainer_is_refused(self):
        run = self.run_table(self.folder("ends"), expect=1, trainer={"max_epochs": 3})
        self.assertIn("make_loader: the Trainer takes 3 epochs (max_epochs = 3, max_steps = -1, "
                      "limit_train_batches = 1.0), and the loader ends after 2: leave epochs= out", run.stderr)
        run = self.run_table(self.folder("ends-limited"), expect=1,
                             trainer={"max_epochs": -1, "max_steps": 10, "limit_train_batches": 2})
        self.assertIn("make_loader: the Trainer takes 5 epochs (max_epochs = -1, max_steps = 10, limit_train_batches = "
                      "2), and the loader ends after 2", run.stderr)
        run = self.run_table(self.folder("ends-held-out"), expect=1, evaluates=True, validation={"epochs": 1})
        self.assertIn("make_validation_loader: the loader ends after 1 epoch, and each evaluation takes one",
                      run.stderr)


if __name__ == "__main__":
    main()
