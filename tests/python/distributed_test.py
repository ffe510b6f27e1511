"""Several ranks under torchrun: the examples, the swap of the loader, ranks that are slow or leave."""

import json
import pathlib
import subprocess
import unittest

import torch
import torch.distributed

from support import PROGRAM, SAMPLES, ShardTest, main, torchrun

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"

# Ranks tell each other of events through the store that support.torchrun runs; a wait ends after a minute.
JOB = """
import datetime, os, signal, sys
import isocost
from torch import distributed
rank = int(os.environ["RANK"])
events = distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)

def tell(event):
    events.set(event, "1")

def wait_for(event):
    events.wait([event], datetime.timedelta(seconds=60))
"""


class Swap(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = cls.directory / "texts"
        files.mkdir()
        for i in range(67):
            (files / f"t{i:03}.txt").write_text(f"text {i} " + "la" * (i * i % 61))
        cls.texts = cls.directory / "text_shards"
        subprocess.run([PROGRAM, "make-shards", files, cls.texts, "--samples-per-shard", "20"], check=True,
                       capture_output=True)

    def losses(self, script, *arguments):
        run = torchrun([EXAMPLES / script, self.texts, *arguments])
        return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]

    def assertClose(self, ours, theirs, relative):
        self.assertEqual(len(ours), 4)
        self.assertEqual(len(theirs), 4)
        for our, their in zip(ours, theirs):
            for name in ("loss", "gradient_norm"):
                self.assertLessEqual(abs(our[name] - their[name]), relative * their[name], (name, our, their))

    def test_losses_and_gradients_are_those_of_torchs_loader(self):
        before = self.losses("train_ddp.py")
        in_order = self.losses("train_ddp_isocost.py", "balance=in-order")
        self.assertClose(in_order, before, 1e-6)
        self.assertClose(self.losses("train_ddp_isocost.py", "balance=cost"), before, 1e-6)


class Ranks(ShardTest):
    def job(self, script, ranks=2, expect=0):
        file = self.directory / f"{self.id()}.py"
        file.write_text(JOB + script)
        return torchrun([file, self.shards], ranks, expect)

    def test_embedded_without_a_process_group(self):
        run = self.job("""
with isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2) as loader:
    print("counts", len(list(loader)), len(loader), flush=True)
""", ranks=3)
        self.assertEqual(run.stdout.count("counts 7 7"), 3, run.stdout)  # 3 whole steps, a tail of 2

    def test_a_step_that_chooses_its_number_of_microbatches_has_as_many_on_all_ranks(self):
        run = self.job("""
steps = {}
with isocost.DataLoader(sys.argv[1], global_batch_size=16, max_tokens=150,
                        node=isocost.NodeOptions(correct=False), epochs=1) as loader:
    for microbatch in loader:
        assert microbatch.tokens <= 150
        steps[microbatch.step] = steps.get(microbatch.step, 0) + 1
print("counts", list(steps.values()), flush=True)
""", ranks=3)
        counts = [line for line in run.stdout.splitlines() if line.startswith("counts")]
        self.assertEqual(len(counts), 3)
        self.assertEqual(len(set(counts)), 1, counts)
        numbers = json.loads(counts[0].removeprefix("counts "))
        self.assertGreater(max(numbers[:-1]), 1)
        self.assertGreater(len(set(numbers)), 1, numbers)  # they differ from step to step

    def test_only_the_first_rank_notes_keywords(self):
        run = self.job("""
import warnings
with warnings.catch_warnings(record=True) as notes:
    warnings.simplefilter("always", isocost.KeywordNote)
    isocost.DataLoader(sys.argv[1], batch_size=8, persistent_workers=True).close()
print("notes of", rank, [str(note.message).partition("=")[0] for note in notes], flush=True)
""", ranks=3)
        self.assertEqual(sorted(run.stdout.splitlines()), ["notes of 0 ['batch_size', 'persistent_workers', "
                                                           "'shuffle']", "notes of 1 []", "notes of 2 []"])

    def test_a_rank_that_does_not_see_the_nodes_socket_is_told(self):
        run = self.job("""
from isocost.rendezvous import rendezvous
here, _source = rendezvous.this_process(None, None, None)
try:
    rendezvous.EndpointExchange().share("isocost/elsewhere", here, 20, lambda: "ipc:///no/such/host/node", {})
except RuntimeError as error:
    print(rank, error, flush=True)
""")
        self.assertIn("which rank 1 does not see", run.stdout)
        self.assertNotIn("which rank 0", run.stdout)

    def test_ranks_that_give_the_node_other_settings_are_refused(self):
        for first, second, said in (
                ("seed=1", "seed=2", "seed= makes seed '2' at rank 1, and rank 0, .* has '1': give all ranks the same"),
                ("dummy_media='off'", "dummy_media='always'", "dummy_media 'always' at rank 1, .* has 'off'"),
                ("", "workers=1", "workers '1' at rank 1, .* leaves it out"),
                ("seed=1, workers=1", "seed=1", "rank 1 has 7")):
            with self.subTest(said=said):
                run = self.job(f"""
options = (dict({first}), dict({second}))[rank]
try:
    loader = isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2, **options)
    print(f"rank {{rank}} has {{len(loader)}}", flush=True)
except ValueError as error:
    print(error, flush=True)
tell(f"rank {{rank}} is done")
wait_for(f"rank {{1 - rank}} is done")
""")
                self.assertIn("rank 0 has 7", run.stdout)
                self.assertRegex(run.stdout, said)

    def test_a_slow_rank_holds_only_itself_up(self):
        run = self.job("""
received = 0
with isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2, epochs=1,
                        node=isocost.NodeOptions(plan_ahead=50)) as loader:
    for microbatch in loader:
        received += 1
        if rank == 1 and received == 1:
            wait_for("the other rank has all")
            print("slow", flush=True)
    if rank == 0:
        tell("the other rank has all")
print("received", rank, received, flush=True)
""")
        # Rank 0 could tell only while rank 1 held its first microbatch.
        self.assertEqual(run.stdout.splitlines(), ["received 0 7", "slow", "received 1 7"])

    def test_a_rank_that_leaves_stops_none_that_has_its_data(self):
        run = self.job("""
loader = isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2, epochs=1,
                            node=isocost.NodeOptions(plan_ahead=50))
received = 0
for microbatch in loader:
    received += 1
    if rank == 1:
        break
loader.close()
print("received", rank, received, flush=True)
""")
        self.assertEqual(run.stdout.splitlines(), ["received 0 7", "received 1 1"])

    def test_a_rank_that_leaves_ends_those_that_wait_for_it(self):
        run = self.job("""
loader = isocost.DataLoader(sys.argv[1], global_batch_size=4, microbatches=1, heartbeat_timeout=1, connect_timeout=30)
iterator = iter(loader)
next(iterator)
tell(f"rank {rank} has joined")
wait_for(f"rank {1 - rank} has joined")
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    for microbatch in iterator:
        pass
except isocost.NodeUnavailableError as error:
    print("told:", error, flush=True)
""", expect=None)
        self.assertEqual(run.statuses, [0, -9], run.stderr)
        self.assertIn("told: the node refused: rank 1 has left", run.stdout)

    def test_a_late_rank_finds_a_node_through_master_addr_alone(self):
        self.job("""
if rank == 1:
    wait_for("rank 0 has a node")
for _ in range(2):
    with isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2, connect_timeout=30) as loader:
        tell("rank 0 has a node")
        assert len(list(loader)) == len(loader)
""")

    def test_groups_and_replica_groups_keep_apart(self):
        self.job("""
import torch.distributed as dist
dist.init_process_group("gloo")
data = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
options = dict(global_batch_size=16, microbatches=2, connect_timeout=30)
with isocost.DataLoader(sys.argv[1], topology=data, **options) as loader:
    assert len(list(loader)) == len(loader)
    assert (loader.rank, loader.world_size) == (rank % 2, 2)
with isocost.DataLoader(sys.argv[1], rank=rank // 2, world_size=2, topology=(None, data), **options) as loader:
    first = [microbatch.sample_ids for microbatch in loader]
with isocost.DataLoader(sys.argv[1], **options) as loader:
    assert len(list(loader)) == len(loader)
""", ranks=4)

    def test_a_replica_group_with_a_transform_beside_the_loops_own_collectives(self):
        run = self.job("""
import json, torch, torch.distributed as dist
dist.init_process_group("gloo")
replicas = dist.group.WORLD
calls = []
with isocost.DataLoader(sys.argv[1], rank=0, world_size=1, topology=(None, replicas), global_batch_size=16,
                        microbatches=2,
                        transform=lambda sample: calls.append(sample.id) or {"id": torch.tensor([sample.id])},
                        collate=lambda microbatch: (microbatch.sample_ids, microbatch["id"].tolist())) as loader:
    for ids, tensor in loader:
        assert ids == tensor
        dist.all_reduce(torch.ones(1), group=replicas)
print("calls", rank, len(set(calls)), flush=True)
""")
        self.assertIn("calls 0 50", run.stdout)
        self.assertIn("calls 1 0", run.stdout)

    def test_rank_0_that_dies_ends_the_others_with_the_reason(self):
        run = self.job("""
loader = isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2, heartbeat_timeout=1,
                            node=isocost.NodeOptions(plan_ahead=1))
iterator = iter(loader)
next(iterator)
if rank == 0:
    wait_for("rank 1 has joined")
    os.kill(os.getpid(), signal.SIGKILL)
tell("rank 1 has joined")
try:
    for microbatch in iterator:
        pass
except isocost.NodeUnavailableError as error:
    print("told:", error, flush=True)
""", expect=None)
        self.assertEqual(run.statuses, [-9, 0], run.stderr)
        self.assertIn("told: ", run.stdout)

    def test_ranks_of_a_replica_group_get_the_same_microbatch(self):
        run = self.job("""
import json, torch, torch.distributed as dist
dist.init_process_group("gloo")
data = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
replicas = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
with isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2,
                        topology=(data, replicas)) as loader:
    for microbatch in loader:
        total = int(microbatch.tensors["input_ids"].sum())
        print(json.dumps([rank, microbatch.step, microbatch.index, microbatch.sample_ids, total]), flush=True)
        loader.report(microbatch, 0.1)
    state = loader.state_dict()
""", ranks=4)
        seen = {rank: [] for rank in range(4)}
        for line in run.stdout.splitlines():
            rank, *rest = json.loads(line)
            seen[rank].append(rest)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[2], seen[3])
        self.assertNotEqual(seen[0], seen[2])
        ids = [sample for rank in (0, 2) for _, _, ids, _ in seen[rank] for sample in ids]
        self.assertEqual(set(ids), set(range(SAMPLES)))

    @unittest.skipUnless(hasattr(torch.distributed, "device_mesh"), "this torch has no DeviceMesh")
    def test_a_device_mesh_gives_ranks_and_replica_groups(self):
        run = self.job("""
import json, torch.distributed as dist
dist.init_process_group("gloo")
mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
with isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=2, topology=mesh) as loader:
    print(json.dumps([rank, [microbatch.sample_ids for microbatch in loader]]), flush=True)
""", ranks=4)
        seen = dict(json.loads(line) for line in run.stdout.splitlines())
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[2], seen[3])
        self.assertNotEqual(seen[0], seen[2])

    def test_world_sizes_that_differ(self):
        run = self.job("""
try:
    isocost.DataLoader(sys.argv[1], global_batch_size=16, rank=rank, world_size=2 + rank)
except ValueError as error:
    print("refused:", error, flush=True)
""")
        self.assertIn("refused: world_size = 3 at rank 1, but 2 at rank 0", run.stdout)


if __name__ == "__main__":
    main()
