"""Schedules of torch.distributed.pipelining, fed by a layout; where torch has them."""

import importlib.util
import inspect
import json
import pathlib
import tempfile
import types
import unittest

import torch

import isocost
from isocost.schedules import share_without_padding, stage_modules
from support import SAMPLES, ShardTest, main, torchrun

JOB = pathlib.Path(__file__).parent / "torch_pipelining.py"
LOADER = {"global_batch_size": 16, "seed": 3, "epochs": 1}
HAS_PIPELINING = int(torch.__version__.split(".")[0]) >= 2 and importlib.util.find_spec("torch.distributed.pipelining")
TAKES_LISTS = False
if HAS_PIPELINING:
    from torch.distributed.pipelining import Schedule1F1B
    TAKES_LISTS = "arg_mbs" in inspect.signature(Schedule1F1B.step).parameters
needs_recent_torch = unittest.skipUnless(TAKES_LISTS, f"schedules of torch {torch.__version__} may hang over gloo "
                                                      "where they mix "
                                         "sends and receives, and infer shapes from token ids of zeros")


class ScheduleTest(ShardTest):
    def layout(self, pipeline, data, chunks=1, layers=None, place="llm", microbatches=4):
        file = pathlib.Path(tempfile.mkdtemp(dir=self.directory)) / "layout.json"
        both = {"tensor": 1, "pipeline": pipeline, "data": data}
        pieces = pipeline * chunks
        encoder, llm = layers or ([27] + [0] * (pieces - 1),
                                  [28 - (pieces - 1) * (28 // pieces)] + [28 // pieces] * (pieces - 1))
        joint = place == "llm"
        file.write_text(json.dumps({
            "version": 1, "encoder_place": place, "microbatches": microbatches, "chunks": chunks,
            "schedule": "interleaved" if chunks > 1 else "1f1b", "llm": {**both, "layers": llm},
            "encoder": {**both, "layers": encoder} if joint else {"tensor": 1, "pipeline": 1, "data": 1}}))
        return file


class Refused(ScheduleTest):
    def loader(self, file, place=("llm",), endpoint="tcp://127.0.0.1:1"):
        loader = isocost.DataLoader(endpoint, layout=file, topology=isocost.Place(*place))
        self.addCleanup(loader.close)
        return loader

    def test_encoder_ranks_and_a_missing_layout_are_refused(self):
        own = self.layout(1, 1, place="own", layers=([27], [28]))
        for place in (("llm",), ("encoder",)):
            with self.assertRaisesRegex(ValueError, "encoder ranks of its own.*stage_iterators.*encoder_place"):
                isocost.schedule_steps(self.loader(own, place))
        with isocost.DataLoader(self.shards) as loader, self.assertRaisesRegex(ValueError, "give it layout="):
            isocost.schedule_steps(loader)

    def test_an_encoder_of_several_stages(self):
        file = self.layout(3, 1, layers=([20, 7, 0], [0, 14, 14]))
        _node, endpoint = self.serve("--layout", file, "--global-batch-size", 12)
        for stage in (0, 1):
            with self.assertRaisesRegex(ValueError, "cuts the encoder into several stages.*'layers'"):
                next(isocost.schedule_steps(self.loader(file, ("llm", 0, stage), endpoint)))

    def test_max_tokens(self):
        file = self.layout(1, 1)
        with isocost.DataLoader(self.shards, layout=file, **LOADER) as loader:
            for wrong in (0, -1, 1.5, True):
                with self.assertRaisesRegex(ValueError, "max_tokens"):
                    isocost.schedule_steps(loader, wrong)
            with self.assertRaisesRegex(ValueError, r"step 0.* has \d+ tokens, beyond max_tokens = 5"):
                next(isocost.schedule_steps(loader, 5))

    def test_timed_takes_modules_only(self):
        loader = self.loader(self.layout(1, 1))
        linear = torch.nn.Linear(1, 1)
        nested = torch.nn.ModuleList([torch.nn.ModuleList([linear])])
        for wrong in ("x", 3, ["x"], [linear, None], {"stage": linear}, linear.weight, nested):
            with self.assertRaisesRegex(TypeError, "^schedule_steps: timed= has a .*must be the module of this rank's "
                                                   "stage"):
                isocost.schedule_steps(loader, timed=wrong)
        for none in (None, (), torch.nn.ModuleList()):
            self.assertEqual(stage_modules(none), [])
        model = torch.nn.Sequential(linear)  # can be iterated over, and is called as one
        stages = [model, torch.nn.Identity()]
        by_name = torch.nn.ModuleDict({"0": model})
        for given, expected in ((model, [model]), (stages, stages), (torch.nn.ModuleList(stages), stages),
                                (iter(stages), stages), (by_name.values(), [model]), (by_name, [model])):
            self.assertEqual(stage_modules(given), expected)

    def test_gradients_that_are_divided_again(self):
        with self.assertRaisesRegex(ValueError, "scale_grads=False"):
            isocost.ScheduleStep([], [], {}).run(types.SimpleNamespace(scale_grads=True))

    def test_different_shapes_need_packed_stages(self):
        stage = types.SimpleNamespace(num_stages=2)  # no packed one
        schedule = types.SimpleNamespace(scale_grads=False, _stage=stage)
        with self.assertRaisesRegex(ValueError, "packed_stage.*max_tokens"):
            isocost.ScheduleStep([], [3, 4], {}).run(schedule)

    def test_packed_stages_of_an_old_torch(self):
        if TAKES_LISTS:
            self.skipTest(f"torch {torch.__version__} has them")
        with self.assertRaisesRegex(RuntimeError, "take no split microbatches"):
            isocost.packed_stage(torch.nn.Linear(1, 1), 0, 2, torch.device("cpu"))


class Padding(ScheduleTest):
    def test_a_step_holds_what_the_loader_gave_and_padding(self):
        file = self.layout(1, 1)
        options = dict(LOADER, layout=file, node=isocost.NodeOptions(correct=False))
        with isocost.DataLoader(self.shards, **options) as one, isocost.DataLoader(self.shards, **options) as other:
            plain = list(other)
            for step in isocost.schedule_steps(one, 900, pad_token=7):
                self.assertEqual([len(inputs) for inputs in step.inputs.values()], [4, 4, 4])
                for i, microbatch in enumerate(step.microbatches):
                    expected = plain.pop(0).tensors
                    (ids,), tensors, target = (inputs[i] for inputs in step.inputs.values())
                    tokens = microbatch.tokens
                    self.assertEqual(tokens, len(expected["input_ids"]))
                    self.assertTrue(torch.equal(ids[:tokens], expected["input_ids"]))
                    self.assertEqual(ids[tokens:].tolist(), [7] * (900 - tokens))
                    self.assertTrue(torch.equal(tensors["cu_seqlens"][:-1], expected["cu_seqlens"]))
                    self.assertEqual(tensors["cu_seqlens"][-2:].tolist(), [tokens, 900])
                    self.assertEqual(tensors["lengths"].tolist(), tensors["cu_seqlens"].diff().tolist())
                    self.assertEqual(tensors["position_ids"][tokens:].tolist(), list(range(900 - tokens)))
                    self.assertEqual(int((target[:, 0] != -100).sum()), microbatch.label_tokens)
                    self.assertEqual(float(target[tokens:, 1].sum()), 0)
                    for name in set(expected) - {"input_ids", "position_ids", "labels", "loss_weights", "lengths",
                                                 "cu_seqlens"}:
                        self.assertTrue(torch.equal(tensors[name], expected[name]), name)
                for i in range(len(step.microbatches), 4):
                    self.assertEqual(step.inputs["kwarg_mbs"][i]["lengths"].tolist(), [900])
                    self.assertTrue((step.inputs["target_mbs"][i][:, 0] == -100).all())
            self.assertEqual(plain, [])

    def test_the_share_of_padding_is_not_reported(self):
        microbatch = types.SimpleNamespace(tokens=100, predicted={"vision": 1.0, "audio": 0.0, "llm": 1.0})
        self.assertEqual([share_without_padding(microbatch, rows) for rows in (100, 300)], [1, 0.5])


@unittest.skipUnless(HAS_PIPELINING, f"torch {torch.__version__} has no torch.distributed.pipelining: "
                                     "./run test --torch2 has it")
class Schedules(ScheduleTest):
    WHOLE = {}  # by number of pieces, for all tests

    def run_job(self, ranks=1, **settings):
        """Returns the lines that each process printed, and the gradients of the first and the last step."""
        with tempfile.TemporaryDirectory(dir=self.directory) as folder:
            run = torchrun([JOB, self.shards, folder, json.dumps({"loader": LOADER, **settings})], ranks)
            saved = [torch.load(file) for file in pathlib.Path(folder).iterdir()]
        told = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(len(told), ranks)
        kept = [{}, {}]
        for first, last in saved:
            kept[0].update(first)
            kept[1].update(last)
        return told, kept

    def one_process(self, pieces):
        if pieces not in self.WHOLE:
            (told,), gradients = self.run_job(layout="whole", pieces=pieces)
            self.WHOLE[pieces] = told, gradients
        return self.WHOLE[pieces]

    def check(self, pipeline, data, schedule, chunks=1, **settings):
        whole, expected = self.one_process(pipeline * chunks)
        file = str(self.layout(pipeline, data, chunks))
        told, gradients = self.run_job(pipeline * data, layout=file, schedule=schedule, **settings)
        for ours, theirs in zip(gradients, expected):
            self.assertEqual(set(ours), set(theirs))
            whole_norm = torch.cat([tensor.flatten() for tensor in theirs.values()]).norm()
            difference = torch.cat([(ours[name] - theirs[name]).flatten() for name in theirs]).norm()
            self.assertGreater(whole_norm, 1e-3)
            self.assertLessEqual(float(difference / whole_norm), 1e-9)
        for i, step in enumerate(whole["steps"]):
            at = [(process["place"], process["steps"][i]) for process in told]
            last = [part for place, part in at if place[2] == pipeline - 1]
            self.assertAlmostEqual(sum(part["loss"] for part in last), step["loss"], delta=1e-9 * step["loss"])
            for stage in range(pipeline):
                ids = [sample for place, part in at if place[2] == stage for sample in part["samples"]]
                self.assertEqual(sorted(ids), sorted(step["samples"]))
        for process in told:
            self.assertEqual(len(process["reports"]), sum(step["microbatches"] for step in process["steps"]))
            for seconds, forward in process["reports"]:
                self.assertTrue(0 < forward < seconds, process["reports"])
        return told

    @needs_recent_torch
    def test_1f1b_of_two_replicas_without_padding(self):
        told = self.check(2, 2, "1F1B")
        ids = [sample for process in told if process["place"][2] == 1 for step in process["steps"]
               for sample in step["samples"]]
        self.assertEqual(sorted(ids), list(range(SAMPLES)))
        for process in told:  # The last step is small: the schedule's other microbatches are a row of padding each.
            self.assertEqual([step["microbatches"] for step in process["steps"]], [4, 4, 4, 1])
            self.assertEqual(process["steps"][3]["rows"][1:], [1, 1, 1])
            self.assertGreater(len({rows for step in process["steps"] for rows in step["rows"]}), 4)
            last = process["place"][2] == 1
            self.assertEqual(any("labels" in step["tensors"] for step in process["steps"]), last)
            self.assertEqual(any("vision_patches" in step["tensors"] for step in process["steps"]), not last)

    @needs_recent_torch
    def test_interleaved_chunks_without_padding(self):
        self.check(2, 1, "Interleaved1F1B", chunks=2)

    @needs_recent_torch
    def test_gpipe_with_shapes_that_torch_infers(self):
        self.check(3, 1, "GPipe", infer=True)

    @needs_recent_torch
    def test_1f1b_of_one_shape(self):
        self.check(3, 1, "1F1B", max_tokens=900)

    def test_gpipe_of_one_shape(self):
        told = self.check(2, 1, "GPipe", max_tokens=900)
        self.assertEqual([step["rows"] for step in told[0]["steps"]], [[900] * 4] * 4)


if __name__ == "__main__":
    main()
