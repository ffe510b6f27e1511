"""Under DistributedDataParallel a rank reports its own seconds, without those in which it waits for other ranks."""

import json

from support import ShardTest, main, torchrun

# Two ranks over gloo; the second takes 1.5 times as long for equal work. The work is a sleep, so that other processes
# on the machine do not change the ratio; model, reduction and loop are real.
JOB = """
import contextlib, json, sys, time
import torch
import isocost
from torch import distributed

shards, way = sys.argv[1:]
distributed.init_process_group("gloo")
rank = distributed.get_rank()
factor = 1.5 if rank == 1 else 1.0

class Work(torch.autograd.Function):
    @staticmethod
    def forward(context, x, seconds):
        context.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(2 * context.seconds)
        return gradient, None

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Embedding(300, 16)
        self.head = torch.nn.Linear(16, 300)

    def forward(self, input_ids, seconds):
        return self.head(Work.apply(self.inner(input_ids.long()), seconds))

model = torch.nn.parallel.DistributedDataParallel(Model())
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loader = isocost.DataLoader(shards, global_batch_size=12, microbatches=2, epochs=3)
step_s = []
for _ in range(3):
    began = time.monotonic()
    for microbatch in loader:
        own = 0.02 + 2e-4 * microbatch.tokens  # seconds of the forward pass at the first rank
        reduces = way == "always" or microbatch.last_of_step
        with loader.timed(microbatch), (contextlib.nullcontext() if reduces else model.no_sync()):
            loss = isocost.token_loss(model(microbatch["input_ids"], factor * own), microbatch)
            (loss * 2).backward()
        if microbatch.last_of_step:
            optimizer.step()
            optimizer.zero_grad()
            step_s.append(time.monotonic() - began)
            began = time.monotonic()
if rank == 0:
    time.sleep(0.3)  # The last reports are on their way.
    print(json.dumps({"node": loader.stats()["node"], "steps": len(step_s)}))
distributed.barrier()
loader.close()
"""


class DistributedDataParallel(ShardTest):
    def slowdown(self, way):
        script = self.directory / "job.py"
        script.write_text(JOB)
        run = torchrun([script, self.shards, way])
        node = json.loads(run.stdout.splitlines()[-1])["node"]
        self.assertEqual(node["measurements_rejected"], 0)
        slowdown = node["rank_slowdown"]
        return slowdown[1] / slowdown[0]

    def test_readmes_loop_learns_the_slowdown_of_a_rank(self):
        self.assertAlmostEqual(self.slowdown("always"), 1.5, delta=0.075)

    def test_so_does_one_that_reduces_once_a_step(self):
        self.assertAlmostEqual(self.slowdown("once a step"), 1.5, delta=0.075)


if __name__ == "__main__":
    main()
