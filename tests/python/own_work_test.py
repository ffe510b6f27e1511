"""A rank reports its own seconds with what torch 2 adds: FullyShardedDataParallel on the CPU, fully_shard and
torch.compile. ddp_test.py has what Debian's torch has, too."""

import types
import unittest
import unittest.mock

import torch

from isocost.timing import own_work, stopwatch
from own_work import OwnWorkTest
from support import ShardTest, main, torchrun

torch_2 = unittest.skipIf(torch.__version__ < "2", f"torch {torch.__version__} has neither FullyShardedDataParallel on "
                          "the CPU nor fully_shard: ./run test --torch2 has both")

# Compiled autograd, where DDP's waiting is a part of the compiled backward pass.
COMPILED_AUTOGRAD = """
import contextlib, logging, sys
import torch
import torch._dynamo.compiled_autograd
from torch import distributed
import isocost

shards, measure = sys.argv[1:]
logging.basicConfig()
distributed.init_process_group("gloo")
torch._dynamo.config.optimize_ddp = "python_reducer"
model = torch.nn.Sequential(torch.nn.Embedding(300, 16), torch.nn.Linear(16, 300))
model = torch.nn.parallel.DistributedDataParallel(model)
loader = isocost.DataLoader(shards, global_batch_size=16, microbatches=2)
if measure == "attach":
    loader.attach(model, llm="1")
for microbatch in loader:
    with loader.timed(microbatch) if measure == "timed" else contextlib.nullcontext():
        loss = isocost.token_loss(model(microbatch["input_ids"].long()), microbatch)
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            loss.backward()
print(loader.stats()["reports"], flush=True)
distributed.barrier()
loader.close()
"""


class Cuda:
    """Stands in for torch.cuda, with two streams, and counts the events that are recorded."""

    def __init__(self):
        self.current, self.recorded = "compute", 0

    def current_stream(self):
        return self.current

    def Event(self, enable_timing):  # noqa: N802 (PyTorch's name)
        assert enable_timing
        return self

    def record(self):
        self.recorded += 1


class Streams(unittest.TestCase):
    def setUp(self):
        self.cuda = Cuda()
        for module in (own_work, stopwatch):
            patched = unittest.mock.patch.object(module, "cuda", lambda: self.cuda)
            patched.start()
            self.addCleanup(patched.stop)
        self.waits = own_work._left_out("stream", lambda stream, event: (stream, event))  # noqa: SLF001
        self.work = own_work.OwnWork()
        self.addCleanup(self.work.stop)

    def recorded_while(self, stream, asker):
        """The events that are recorded while the stream waits because the module `asker` wants it."""
        of_asker = types.FunctionType((lambda waits, stream: waits(stream, "event")).__code__, {"__name__": asker})
        before = self.cuda.recorded
        self.assertEqual(of_asker(self.waits, stream), (stream, "event"))
        return self.cuda.recorded - before

    def test_where_the_work_is_done_are_left_out_by_two_events(self):
        self.assertEqual(self.recorded_while("compute", "torch.distributed.fsdp.collectives"), 2)

    def test_that_communicate_wait_without_events(self):
        self.assertEqual(self.recorded_while("gather", "torch.distributed.fsdp.collectives"), 0)
        self.cuda.current = "gather"
        for stream in ("gather", "compute"):
            self.assertEqual(self.recorded_while(stream, "torch.distributed.fsdp.collectives"), 0)

    def test_that_the_training_loop_has_wait_are_its_own_work(self):
        self.assertEqual(self.recorded_while("compute", "train"), 0)


@torch_2
class FullyShardedDataParallel(OwnWorkTest):
    def test_readmes_loop_learns_the_slowdown_of_a_rank(self):
        self.check("fsdp", "timed")

    def test_so_do_attached_modules_without_reduction_before_the_last_microbatch(self):
        self.check("fsdp", "attach", "no_sync")


@torch_2
class FullyShard(OwnWorkTest):
    def test_readmes_loop_learns_the_slowdown_of_a_rank(self):
        self.check("fully_shard", "timed")

    def test_so_do_attached_modules_that_a_checkpoint_computes_again(self):
        self.check("fully_shard", "attach", "checkpoint", "no_sync")


@torch_2
class Compile(OwnWorkTest):
    def test_a_compiled_model_learns_the_slowdown_of_a_rank(self):
        self.check("ddp", "timed", "compile")

    def test_so_do_its_modules(self):
        self.check("fully_shard", "attach", "compile")


@torch_2
class CompiledAutograd(ShardTest):
    def test_is_not_reported_and_logged_once(self):
        script = self.directory / "job.py"
        script.write_text(COMPILED_AUTOGRAD)
        for measure in ("timed", "attach"):
            with self.subTest(measure=measure):
                run = torchrun([script, self.shards, measure])
                self.assertEqual(run.stdout.split(), ["0", "0"])
                self.assertEqual(run.stderr.count("not reported: where compiled autograd"), 2)  # One for each rank.


if __name__ == "__main__":
    main()
