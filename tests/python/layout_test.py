"""Loaders at the places of a layout."""

import contextlib
import copy
import itertools
import json
import os
import pathlib
import pickle
import re
import subprocess
import tempfile
import time
import types
import unittest
import unittest.mock
import urllib.request

import torch

import isocost
from support import PROGRAM, SAMPLES, TIMEOUT, ShardTest, main, torchrun

JOB = pathlib.Path(__file__).parent / "pipeline.py"


def degrees(tensor=1, pipeline=1, data=1):
    return {"tensor": tensor, "pipeline": pipeline, "data": data}


class LayoutTest(ShardTest):
    def layout(self, encoder, llm, microbatches=3, **more):
        file = pathlib.Path(tempfile.mkdtemp(dir=self.directory)) / "layout.json"
        file.write_text(json.dumps({"version": 1, "encoder_place": "own", "encoder": encoder, "llm": llm,
                                    "microbatches": microbatches, "chunks": 1, "schedule": "1f1b", **more}))
        return file

    def whole(self, microbatches=3, data=1, tensor=1):
        both = degrees(tensor=tensor, data=data)
        return self.layout(both, both, microbatches, encoder_place="llm")


class Places(LayoutTest):
    def test_a_layout_gives_the_microbatches(self):
        file = self.whole()
        with isocost.DataLoader(self.shards, global_batch_size=12, layout=file) as loader:
            microbatches = list(loader)
            self.assertEqual(len(loader), len(microbatches))
        self.assertEqual(sum(microbatch.step == 0 for microbatch in microbatches), 3)
        ids = [sample for microbatch in microbatches for sample in microbatch.sample_ids]
        self.assertEqual(sorted(ids), list(range(SAMPLES)))
        self.assertIn("vision_patches", {name for each in microbatches for name in each.tensors})
        with self.assertRaisesRegex(ValueError, "microbatches = 2: layout"):
            isocost.DataLoader(self.shards, global_batch_size=12, microbatches=2, layout=file)

    def test_the_file_is_read_once(self):
        file, pipe = self.whole(), self.directory / "layout.fifo"
        os.mkfifo(pipe)  # which gives its content once
        writer = subprocess.Popen(["sh", "-c", 'cat "$0" > "$1"', file, pipe])
        self.addCleanup(writer.wait)
        with isocost.DataLoader(self.shards, global_batch_size=12, layout=pipe) as loader:
            self.assertEqual(sum(microbatch.step == 0 for microbatch in loader), 3)

    def test_limits_hold_and_a_step_that_does_not_fit_says_by_how_much(self):
        file = self.whole()
        totals, longest = {}, 0
        with isocost.DataLoader(self.shards, global_batch_size=12, layout=file) as loader:
            for microbatch in loader:
                totals[microbatch.step] = totals.get(microbatch.step, 0) + microbatch.tokens
                longest = max(longest, int(microbatch["lengths"].max()))
        most = max(totals.values())
        limit = max(longest, most // 2)
        with isocost.DataLoader(self.shards, global_batch_size=12, layout=file, max_tokens=limit) as loader:
            found = [(microbatch.step, microbatch.tokens) for microbatch in loader]
        self.assertEqual(sum(step == 0 for step, _tokens in found), 3)
        self.assertLessEqual(max(tokens for _step, tokens in found), limit)
        self.assertEqual(sum(tokens for _step, tokens in found), sum(totals.values()))
        limit = max(longest, most // 4)
        self.assertLess(3 * limit, most, "the largest step must not fit")
        said = (r"a step of 12 samples does not fit: they have [\d,]+ LLM tokens, and 3 microbatches of at most "
                rf"{limit:,} \(max_tokens\) hold {3 * limit:,}, [\d,]+ too many; raise max_tokens, give more microb")
        with self.assertRaisesRegex(ValueError, said):
            list(isocost.DataLoader(self.shards, global_batch_size=12, layout=file, max_tokens=limit))

    def test_places_and_ranks(self):
        layout = isocost.Layout(self.layout(degrees(2, 1, 2), degrees(1, 2, 3)))
        self.assertEqual((layout.ranks, layout.receivers), (10, 8))
        self.assertEqual(layout.place_of(3), isocost.Place("encoder", 1, 0, 1))
        self.assertEqual(layout.place_of(7), isocost.Place("llm", 0, 1, 0))
        self.assertEqual([layout.rank_of(layout.place_of(rank)) for rank in range(10)], list(range(10)))
        with self.assertRaisesRegex(ValueError, "rank 10 has no place in a layout of 10 ranks"):
            layout.place_of(10)
        for rank in (-1, 2**70, 1.5, True, "0"):
            with self.assertRaisesRegex(ValueError, "has no place in a layout of 10 ranks .*from 0 to 9"):
                layout.place_of(rank)
        for number in (2, 2**80):
            for ask in (layout.rank_of, layout.receiver_of):
                with self.assertRaisesRegex(ValueError, f"stage={number}.*stage is 0 to 1"):
                    ask(isocost.Place("llm", 0, number))

    def test_keys_are_attributes(self):
        joint = self.layout({**degrees(pipeline=2), "layers": [27, 0]}, {**degrees(pipeline=2), "layers": [8, 20]},
                            encoder_place="llm", interconnect="node=450GB/s",
                            activation_caps={"encoder_bytes": 0, "llm_bytes": 2**35})
        layout = isocost.Layout(joint)
        whole = {"shard": 1, "reshard": True, "train": "all", "adapter_rank": 0, "recompute": "none"}
        self.assertEqual(layout.encoder, {**degrees(pipeline=2), "layers": [27, 0], **whole})
        self.assertEqual(layout.llm["layers"], [8, 20])
        self.assertEqual((layout.encoder_place, layout.has_encoder_ranks), ("llm", False))
        self.assertEqual(layout.activation_caps, {"encoder_bytes": 0, "llm_bytes": 2**35})
        self.assertEqual((layout.interconnect, layout.coupled, layout.encoder_ahead), ("node=450GB/s", False, 0))
        own = isocost.Layout(self.layout(degrees(), degrees(data=2), coupled=True, encoder_ahead=2))
        self.assertEqual((own.encoder_place, own.encoder["layers"], own.llm["layers"]), ("own", [], []))
        self.assertEqual((own.activation_caps, own.interconnect, own.coupled, own.encoder_ahead), (None, "", True, 2))
        trained = isocost.Layout(self.layout({**degrees(), "train": "none"}, {**degrees(), "train": "adapters",
                                 "adapter_rank": 16, "recompute": "full"}, optimizer="replicated"))
        self.assertEqual((own.optimizer, trained.optimizer), ("sharded", "replicated"))
        self.assertEqual((trained.encoder["train"], trained.llm["recompute"]), ("none", "full"))
        self.assertEqual((trained.llm["train"], trained.llm["adapter_rank"]), ("adapters", 16))
        sharded = isocost.Layout(self.layout({**degrees(data=2), "shard": 2}, {**degrees(data=2), "shard": 2,
                                 "reshard": False}, encoder_place="llm"))
        self.assertEqual((sharded.encoder["reshard"], sharded.llm["reshard"]), (True, False))
        keys = set(json.loads(joint.read_text())) | set(json.loads(own.to_json())) - {"version"}
        self.assertEqual([key for key in keys - {"version"} if not hasattr(layout, key)], [])

    def test_copies_are_equal(self):
        file = self.layout(degrees(), degrees(data=2), coupled=True)
        layout = isocost.Layout(file)
        again = [isocost.Layout(file), isocost.Layout(self.layout(degrees(), degrees(data=2), coupled=True))]
        file.unlink()  # copies do not need it
        again += [copy.copy(layout), copy.deepcopy(layout)]
        again += [pickle.loads(pickle.dumps(layout, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
        for each in again:
            self.assertEqual((each, hash(each), each.to_json()), (layout, hash(layout), layout.to_json()))
        self.assertEqual((again[-1].file, again[-1].place_of(2)), (str(file), isocost.Place("llm", 1)))
        self.assertIn(f"{str(file)!r}: encoder 1x1x1, llm 1x1x2", repr(again[-1]))
        self.assertNotEqual(layout, isocost.Layout(self.layout(degrees(), degrees(data=2))))
        self.assertNotEqual(layout, layout.fingerprint)

    def test_a_layout_that_does_not_fit_the_job_is_refused(self):
        own = self.layout(degrees(), degrees())
        with self.assertRaisesRegex(ValueError, r"has 2 ranks, this job 1: start as many processes"):
            isocost.DataLoader(self.shards, layout=own)
        with self.assertRaisesRegex(ValueError, "give layout="):
            isocost.DataLoader(self.shards, topology=isocost.Place("llm", 0, 0, 0))
        for place, pattern in ((("llm", 1), "data is 0 to 0"), (("decoder",), "neither 'encoder' nor 'llm'"),
                               ({"node": 1}, "module, data, stage and tensor"), (("llm", -1), "data = -1"),
                               ("llm", "place = 'llm': must be"), (b"llm", "must be"), (3, "place = 3: must be"),
                               ((1, 0, 0, 0), "module 1 is neither"),
                               (("llm", 2**80, 0, 0), f"data={2**80}.*data is 0 to 0 there")):
            with self.assertRaisesRegex(ValueError, pattern):
                isocost.Layout(own).rank_of(place)
        with self.assertRaises(FileNotFoundError):
            isocost.DataLoader(self.shards, layout=self.directory / "none.json")

    def test_a_group_of_other_ranks_is_no_tensor_group(self):
        for tensor in (1, 2):
            file = self.layout(degrees(), degrees(tensor=tensor))
            with self.assertRaisesRegex(TypeError, "topology = .*'nonsense'.*the pair"):
                isocost.DataLoader("tcp://127.0.0.1:1", layout=file, topology=(isocost.Place("llm"), "nonsense"))
        script = self.directory / "group.py"
        script.write_text("""
import sys, torch, isocost
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
both, first = torch.distributed.new_group([0, 1]), torch.distributed.new_group([0])
for file, group in zip(sys.argv[2:], (both, first)):
    try:
        isocost.DataLoader(sys.argv[1], layout=file, topology=(None, group))
    except ValueError as error:
        print(rank, error, flush=True)
torch.distributed.barrier()
""")
        run = torchrun([script, self.shards, self.whole(data=2), self.whole(tensor=2)], ranks=2)
        said = sorted(run.stdout.splitlines())
        for line, pattern in zip(said, ("0 topology: the replica group has 1 rank, and the layout's tensor degree is "
                                        "2",
                                        "0 topology: the replica group has 2 ranks, .* degree is 1.*or leave it out",
                                        "1 topology: the replica group has 2 ranks",
                                        "1 topology: this process is not in the replica group")):
            self.assertRegex(line, pattern)
        self.assertEqual(len(said), 4)

    def test_a_node_of_another_layout_refuses(self):
        _node, endpoint = self.serve("--layout", self.layout(degrees(), degrees()), "--global-batch-size", 12)
        other = self.layout(degrees(), degrees(), microbatches=2)
        with isocost.DataLoader(endpoint, layout=other, topology=isocost.Place("llm")) as loader:
            with self.assertRaisesRegex(ValueError, "another layout than the node"):
                next(iter(loader))

    def test_loaders_of_one_process_at_two_places(self):
        file = self.layout(degrees(), degrees())
        _node, endpoint = self.serve("--layout", file, "--global-batch-size", 12, "--epochs", 1)
        with isocost.DataLoader(endpoint, layout=file, topology=isocost.Place("encoder")) as encoder, \
                isocost.DataLoader(endpoint, layout=file, topology=isocost.Place("llm")) as llm:
            sent, needed = {}, {}
            for here, there in zip(encoder, llm):
                self.assertNotIn("input_ids", here.tensors)
                self.assertFalse([name for name in there.tensors if name.startswith(("vision", "audio"))])
                for route in here.routes:
                    sent[here.step, route.replica, route.microbatch, route.module, route.peer_first_unit] = route.units
                for route in there.routes:
                    needed[there.step, 0, there.index, route.module, route.first_unit] = route.units
            self.assertEqual(sent, needed)
            self.assertTrue(sent)
            with self.assertRaisesRegex(TypeError, "each step decides"):
                len(encoder)

    PLACES = (isocost.Place("encoder"), isocost.Place("llm", 0, 0), isocost.Place("llm", 0, 1))

    @contextlib.contextmanager
    def stages(self, file, state=None):
        """A node of its own and a loader at each place, from `state` on."""
        _node, endpoint = self.serve("--layout", file, "--global-batch-size", 4, "--epochs", 0)
        with contextlib.ExitStack() as stack:
            loaders = [stack.enter_context(isocost.DataLoader(endpoint, layout=file, topology=place, endless=True))
                       for place in self.PLACES]
            for loader in loaders:
                if state is not None:
                    loader.load_state_dict(state)
            yield loaders, [iter(loader) for loader in loaders]

    def train_step(self, loaders, iterators):
        """One step at all places; the microbatches of the LLM's first stage."""
        trained = []
        for loader, iterator in zip(loaders, iterators):
            for microbatch in iterator:
                if loader.place == self.PLACES[1]:
                    trained.append(microbatch)
                loader.report(microbatch, 0.1 * len(microbatch.sample_ids))  # far more than the default says
                if microbatch.last_of_step:
                    break
        return trained

    def test_a_job_goes_on_from_its_state(self):
        file = self.layout(degrees(), degrees(pipeline=2), microbatches=2)
        steps = -(-SAMPLES // 4)
        trained = []
        with self.stages(file) as (loaders, iterators):
            for _ in range(steps + 9):
                trained.append(self.train_step(loaders, iterators))
            states = [loader.state_dict() for loader in loaders]
        self.assertEqual(states, states[:1] * 3)
        self.assertEqual((states[0]["epoch"], states[0]["step"]), (1, 9))

        untaught = {name: value for name, value in states[0].items() if name != "cost_model_state"}
        with self.stages(file, untaught) as (loaders, iterators):
            expected = self.train_step(loaders, iterators)
        with self.stages(file, states[0]) as (loaders, iterators):
            for _ in range(steps - 9):
                trained.append(self.train_step(loaders, iterators))
        ids = [sample for step in trained[steps:] for microbatch in step for sample in microbatch.sample_ids]
        self.assertEqual(sorted(ids), list(range(SAMPLES)))
        taught, untaught = (sum(each.predicted["llm"] for each in step) for step in (trained[steps + 9], expected))
        self.assertGreater(taught / untaught, 1.5)


class Worth(LayoutTest):
    """A node says what its layout is worth while training runs."""

    def test_a_node_says_when_another_layout_would_be_faster(self):
        shards = self.directory / "my shards"
        shards.symlink_to(self.shards)
        both = degrees(pipeline=2)
        file = self.layout(both, both, 1, encoder_place="llm",  # one microbatch: one of two stages always waits
                           activation_caps={"encoder_bytes": 400 << 30, "llm_bytes": 400 << 30})
        log = self.directory / "log"
        with log.open("w") as written:
            node = subprocess.Popen([PROGRAM, "serve", "--data", shards, "--bind", "tcp://127.0.0.1:*", "--layout",
                                     file, "--global-batch-size", "12", "--epochs", "0", "--metrics", "127.0.0.1:0",
                                     "--max-image-patches", "64", "--bad-samples-file", self.directory / "bad.jsonl"],
                                    stdout=subprocess.PIPE, stderr=written, text=True)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        endpoint = node.stdout.readline().split()[-1]
        url = next(line.split()[-1] for line in log.read_text().splitlines() if " metrics at " in line)
        with contextlib.ExitStack() as stack:
            stages = [stack.enter_context(isocost.DataLoader(endpoint, layout=file, endless=True,
                                                                  topology=isocost.Place("llm", 0, stage)))
                      for stage in range(2)]
            for _ in zip(range(70), *stages):
                pass
            deadline = time.monotonic() + TIMEOUT
            while "another layout would now be" not in log.read_text() and time.monotonic() < deadline:
                time.sleep(0.05)
        told = re.search(r"another layout would now be \d+ % faster \(simulated on the last 4 steps\): .*?"
                         r"Plan it with: (isocost plan --gpus 2 [^;\n]*)", log.read_text())
        self.assertIsNotNone(told, log.read_text())
        self.assertIn("--max-image-patches 64", told[1])
        status = json.loads(urllib.request.urlopen(url.replace("/metrics", "/status.json"), timeout=TIMEOUT).read())
        self.assertGreater(status["node"]["layout_gain_ratio"], 0.03)
        empty = self.directory / "empty"
        empty.mkdir()
        (empty / "profile.json").write_bytes(
            urllib.request.urlopen(url.replace("/metrics", "/profile.json"), timeout=TIMEOUT).read())
        (empty / "isocost").symlink_to(pathlib.Path(PROGRAM).resolve())
        subprocess.run(["bash", "-c", told[1]], check=True, cwd=empty, stdout=subprocess.DEVNULL, timeout=TIMEOUT,
                       env=os.environ | {"PATH": f"{empty}:{os.environ['PATH']}"})
        self.assertEqual(json.loads((empty / "better_layout.json").read_text())["llm"]["pipeline"], 1)


class Transforms(LayoutTest):
    """Each stage transforms what it has of the samples."""

    PLACES = (isocost.Place("encoder"), isocost.Place("llm", 0, 0), isocost.Place("llm", 0, 1),
              isocost.Place("llm", 0, 2))

    def first_steps(self, *transforms):
        """The first step's microbatches at each place."""
        file = self.layout(degrees(), degrees(pipeline=3))
        _node, endpoint = self.serve("--layout", file, "--global-batch-size", 12, "--correct", "off")
        with contextlib.ExitStack() as stack:
            loaders = [stack.enter_context(isocost.DataLoader(endpoint, layout=file, topology=place,
                                                               transform=transform))
                       for place, transform in zip(self.PLACES, transforms)]
            return [list(itertools.takewhile(lambda microbatch: microbatch.step == 0, loader)) for loader in loaders]

    def test_changes_stay_with_the_stage(self):
        def normalise(sample):
            return {name: tensor.float() / 255 for name, tensor in sample.tensors.items() if name == "vision_patches"}

        def shift(sample):
            self.assertTrue(sample.text.startswith("sample ") or not sample.text)
            return {"position_ids": sample.tensors["position_ids"] + 1}

        def swap(sample):
            return {"labels": torch.where(sample.tensors["labels"] == 97, 98, sample.tensors["labels"]),
                    "number": torch.full_like(sample.tensors["labels"], sample.id)}

        changed = {"vision_patches": lambda tensor: tensor.float() / 255, "position_ids": lambda tensor: tensor + 1,
                   "labels": lambda tensor: torch.where(tensor == 97, 98, tensor)}
        before = self.first_steps(None, None, None, None)
        after = self.first_steps(normalise, shift, lambda sample: None, swap)
        for ours, theirs in zip(after, before):
            self.assertEqual([microbatch.sample_ids for microbatch in ours],
                             [microbatch.sample_ids for microbatch in theirs])
            self.assertEqual([microbatch.routes for microbatch in ours], [microbatch.routes for microbatch in theirs])
            for here, there in zip(ours, theirs):
                self.assertEqual(set(here.tensors) - {"number"}, set(there.tensors))
                for name, tensor in there.tensors.items():
                    self.assertTrue(torch.equal(here.tensors[name], changed.get(name, lambda same: same)(tensor)), name)
        for microbatch in after[3]:
            numbers = [number for number, length in zip(microbatch.sample_ids, microbatch.tensors["lengths"])
                       for _ in range(length)]
            self.assertEqual(microbatch.tensors["number"].tolist(), numbers)

    def test_row_counts_that_other_stages_use_must_stay(self):
        ids = torch.zeros(3, dtype=torch.int64)
        for at, transform, pattern in (
                (1, lambda sample: {"input_ids": ids},
                 r"gives sample \d+ 'input_ids' of 3 rows where it has \d+: other stages"),
                (0, lambda sample: {name: tensor[:1] for name, tensor in sample.tensors.items()
                                    if name in ("vision_patches", "audio_mel")}, "of 1 row where it has"),
                (3, lambda sample: {"input_ids": sample.tensors["labels"]}, "'input_ids', which it does not have at "
                                                                            "this stage"),
                (2, lambda sample: {"lengths": sample.tensors["lengths"]}, "'lengths', which other stages of the "
                                                                           "layout have"),
                (2, lambda sample: {"text": torch.tensor([len(sample.text)])}, "this stage has no text"),
                (3, lambda sample: {"labels": torch.full_like(sample.tensors["labels"], -100)}, "0 label tokens where "
                                                                                                "the plan")):
            transforms = [None] * 4
            transforms[at] = transform
            with self.assertRaisesRegex((ValueError, RuntimeError), pattern):
                self.first_steps(*transforms)


class Measuring(LayoutTest):
    """Measurements where passes of other microbatches come between one's own."""

    def stage(self, schedule="1f1b", chunks=1, microbatches=4):
        """A loader of the LLM's first stage, and the reports that it sends."""
        file = self.layout(degrees(), degrees(pipeline=2), microbatches, schedule=schedule, chunks=chunks)
        _node, endpoint = self.serve("--layout", file, "--global-batch-size", 16, "--epochs", 1)
        loader = isocost.DataLoader(endpoint, layout=file, topology=isocost.Place("llm"))
        self.addCleanup(loader.close)
        sent, send = [], loader.recorder.send

        def watch(microbatch, measured):
            sent.append((microbatch.step, microbatch.index, round(measured.whole, 6), round(measured.forward, 6)))
            send(microbatch, measured)

        loader.recorder.send = watch
        return loader, sent

    def setUp(self):
        self.now = 0.0
        clock = types.SimpleNamespace(perf_counter=lambda: self.now)
        patch = unittest.mock.patch.object(isocost.timing.stopwatch, "time", clock)
        patch.start()
        self.addCleanup(patch.stop)

    def run_pass(self, loader, part, microbatch, seconds):
        with loader.timed(microbatch, part=part):
            self.now += seconds
        self.now += 100  # other passes, waiting

    def test_seconds_are_the_microbatchs_own_under_1f1b(self):
        loader, sent = self.stage()
        iterator, expected = iter(loader), []
        for step in range(2):
            under_way = []
            for i in range(4):
                microbatch = next(iterator)
                self.run_pass(loader, "forward", microbatch, 1 + i)
                under_way.append(microbatch)
                if i >= 1:
                    self.run_pass(loader, "backward", under_way[0], 2 + 2 * under_way.pop(0).index)
            self.run_pass(loader, "backward", under_way[0], 2 + 2 * under_way.pop(0).index)
            expected += [(step, i, 3 + 3 * i, 1 + i) for i in range(4)]
        next(iterator)  # with which the last go out
        self.assertEqual(sent, expected)
        self.assertEqual(loader.stats()["reports"], len(sent))

    def test_a_microbatch_of_two_chunks_is_reported_once(self):
        loader, sent = self.stage("interleaved", 2)
        first, second = isocost.stage_iterators(loader)
        one, other = next(first), next(first)
        for microbatch in (one, other, next(second), next(second)):
            self.run_pass(loader, "forward", microbatch, 1)
        for microbatch in (one, other, one):
            self.run_pass(loader, "backward", microbatch, 2)
        next(first)
        self.assertEqual(sent, [(0, 0, 6, 2)])
        self.run_pass(loader, "backward", other, 2)
        next(first)
        self.assertEqual(sent, [(0, 0, 6, 2), (0, 1, 6, 2)])

    def test_passes_without_their_counterpart_are_not_reported(self):
        loader, sent = self.stage()
        iterator = iter(loader)
        first, second = next(iterator), next(iterator)
        self.run_pass(loader, "forward", first, 1)
        with self.assertRaises(KeyError), loader.timed(first, part="backward"):
            raise KeyError
        with self.assertRaisesRegex(ValueError, "no forward pass of .*index 1.* was measured"):
            loader.timed(second, part="backward")
        next(iterator), next(iterator)
        self.run_pass(loader, "forward", next(iterator), 1)  # of the next step
        with self.assertRaisesRegex(ValueError, "no forward pass"):
            loader.timed(first, part="backward")
        with self.assertRaisesRegex(ValueError, "part = 'both'"):
            loader.timed(first, part="both")
        self.assertEqual(sent, [])

    def test_measuring_a_whole_block_of_a_stage_is_refused(self):
        loader, _sent = self.stage()
        microbatch = next(iter(loader))
        with self.assertRaisesRegex(ValueError, "timed: layout .* has several stages.*part="):
            loader.timed(microbatch)
        model = torch.nn.Sequential(torch.nn.Linear(1, 1))
        with self.assertRaisesRegex(ValueError, "attach: layout .* has several "
                                                "stages.*schedule_steps.*part=.*forward="):
            loader.attach(model, llm="0")
        loader, _sent = self.stage("zb-h1")
        with self.assertRaisesRegex(ValueError, "two backward passes.*report"):
            loader.timed(microbatch, part="forward")

    def test_whole_layouts_are_measured_as_without(self):
        with isocost.DataLoader(self.shards, global_batch_size=12, layout=self.whole(), epochs=1) as loader:
            loader.attach(torch.nn.Sequential(torch.nn.Linear(1, 1)), llm="0").remove()
            for i, microbatch in enumerate(loader):
                if i % 2:
                    with loader.timed(microbatch):
                        self.now += 1
                else:
                    self.run_pass(loader, "forward", microbatch, 1)
                    self.run_pass(loader, "backward", microbatch, 2)
            self.assertEqual(loader.stats()["reports"], len(loader))


class Pipelines(LayoutTest):
    def gradients(self, *arguments, ranks=1, **options):
        with tempfile.TemporaryDirectory(dir=self.directory) as folder:
            options = {"global_batch_size": 13, "seed": 3, **options}
            run = torchrun([JOB, self.shards, folder, *arguments, json.dumps(options)], ranks)
            gradients = {file.stem: torch.load(file) for file in pathlib.Path(folder).iterdir()}
        self.assertEqual(set(gradients), {"encoder-0", "llm-0", "llm-1"})
        stages = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        return torch.cat([tensor.flatten() for part in ("encoder-0", "llm-0", "llm-1")
                          for tensor in gradients[part].values()]), stages

    def test_the_gradient_is_that_of_one_process(self):
        expected, _ = self.gradients("whole", seed=1)
        self.assertGreater(expected.norm(), 1e-3)
        for encoders, replicas, coupled in (
                (1, 1, True), (2, 2, True), (1, 2, True), (2, 1, True), (1, 2, False), (2, 1, False), (3, 2, False)):
            with self.subTest(encoders=encoders, replicas=replicas, coupled=coupled):
                # Links are so fast that a step is the time of its passes, which decoupled plans make shorter.
                file = self.layout(degrees(data=encoders), degrees(pipeline=2, data=replicas), microbatches=2,
                                   coupled=coupled, interconnect="node=9TB/s,latency=0.01us")
                gradient, stages = self.gradients(file, ranks=encoders + 2 * replicas, seed=1)
                self.assertLessEqual(float((gradient - expected).norm() / expected.norm()), 1e-9)
                self.check_stages(stages)
                # Both kinds of plan are to be tried: if none is decoupled any more, another seed is needed here.
                self.assertEqual(sum(stage["decoupled"] for stage in stages) > 0, not coupled)

    def check_stages(self, stages):
        last = [sample for stage in stages if stage["place"][0::2] == ["llm", 1]
                for ids in stage["samples"] for sample in ids]
        self.assertEqual(len(last), 13)
        self.assertEqual(len(set(last)), 13)
        for stage in stages:
            media = [name for name in stage["tensors"] if name.startswith(("vision", "audio"))]
            self.assertEqual(bool(media), stage["place"][0] == "encoder")
            self.assertEqual("labels" in stage["tensors"], stage["place"][0::2] == ["llm", 1])

    def test_tensor_ranks_share_a_receiver(self):
        script = self.directory / "tensor.py"
        script.write_text("""
import sys, torch, isocost
torch.distributed.init_process_group("gloo")
with isocost.DataLoader(sys.argv[1], layout=sys.argv[2], global_batch_size=12, epochs=1) as loader:
    sums = [[microbatch.sample_ids, int(microbatch.tensors["input_ids"].sum())] for microbatch in loader]
    print(torch.distributed.get_rank(), sums, flush=True)
    torch.distributed.barrier()
""")
        run = torchrun([script, self.shards, self.whole(data=2, tensor=2)], ranks=4)
        seen = dict(line.split(" ", 1) for line in run.stdout.splitlines())
        self.assertEqual(seen["0"], seen["1"])
        self.assertEqual(seen["2"], seen["3"])
        self.assertNotEqual(seen["0"], seen["2"])


if __name__ == "__main__":
    main()
