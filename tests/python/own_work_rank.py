"""A rank of two over gloo, for own_work.py; the second takes 1.5 times as long for equal work.

    own_work_rank.py SHARDS WRAPPER MEASURE [no_sync] [checkpoint] [compile]

WRAPPER is ddp, fsdp or fully_shard, MEASURE timed or attach. The work is emulated: it is a sleep, so that other
processes on the machine do not change the ratio. Model, communication and loop are real. After ten steps each rank
prints what it knows.
"""

import contextlib
import json
import sys
import time

import torch
from torch import distributed
from torch.utils.checkpoint import checkpoint

import isocost

STEPS = 10
shards, wrapper, measure, *ways = sys.argv[1:]
distributed.init_process_group("gloo")
rank = distributed.get_rank()
factor = 1.5 if rank == 1 else 1.0
# Compiled code checks its guards and calls back into Python, which takes both ranks the same: with more sleep beside it
# it moves the ratio less.
scale = 3 if "compile" in ways else 1
slept = 0.0


def work(seconds):
    global slept
    began = time.perf_counter()
    time.sleep(seconds)
    slept += time.perf_counter() - began


class Sleep(torch.autograd.Function):
    @staticmethod
    def forward(context, x, seconds):
        context.seconds = seconds
        work(seconds)
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        work(2 * context.seconds)
        return gradient, None


def sleep(x, seconds):
    return Sleep.apply(x, seconds)


if "compile" in ways:
    sleep = torch.compiler.disable(sleep)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x, seconds):
        return sleep(self.linear(x), seconds)


class Body(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x, seconds):
        for block in self.blocks:
            if "checkpoint" in ways:
                x = checkpoint(block, x, seconds / 2, use_reentrant=False)
            else:
                x = block(x, seconds / 2)
        return x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(300, 16)
        self.norm = torch.nn.BatchNorm1d(16)  # Its buffers are broadcast in DDP's forward pass.
        self.body = Body()
        self.head = torch.nn.Linear(16, 300)

    def forward(self, input_ids, seconds):
        return self.head(self.body(self.norm(self.embedding(input_ids.long())), seconds))


def wrapped(model):
    if wrapper == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if wrapper == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        cpu = {"device_id": torch.device("cpu")}
        for i, block in enumerate(model.body.blocks):
            model.body.blocks[i] = FullyShardedDataParallel(block, **cpu)
        return FullyShardedDataParallel(model, **cpu)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for block in model.body.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@contextlib.contextmanager
def without_reduction(model):
    if hasattr(model, "no_sync"):
        with model.no_sync():
            yield
    else:
        model.set_requires_gradient_sync(False)
        yield
        model.set_requires_gradient_sync(True)


model = wrapped(Model())
if "compile" in ways:
    model = torch.compile(model, backend="aot_eager", dynamic=True)
    for tokens in (50, 90):  # Compiles outside of what is measured.
        model(torch.zeros(tokens, dtype=torch.int32), 0.0).sum().backward()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loader = isocost.DataLoader(shards, global_batch_size=16, microbatches=4, node=isocost.NodeOptions(tail="drop"))
reported, blocks = 0.0, 0.0
send = loader.recorder.send


def sending(microbatch, measured):
    global reported
    reported += sum(measured.modules.values()) + (measured.whole or 0.0)
    send(microbatch, measured)


loader.recorder.send = sending
if measure == "attach":
    loader.attach(model, llm="body")
steps = 0
while steps < STEPS:
    for microbatch in loader:
        own = scale * (0.005 + 4e-4 * microbatch.tokens)  # seconds of the forward pass at the first rank
        reduces = "no_sync" not in ways or microbatch.last_of_step
        timed = loader.timed(microbatch) if measure == "timed" else contextlib.nullcontext()
        began = time.perf_counter()
        with timed, contextlib.nullcontext() if reduces else without_reduction(model):
            loss = isocost.token_loss(model(microbatch["input_ids"], factor * own), microbatch)
            (loss * 2).backward()
        blocks += time.perf_counter() - began
        if microbatch.last_of_step:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if steps == STEPS:
                break
loader.recorder.advance()  # Sends the last report.
distributed.barrier()
time.sleep(0.3)  # The last reports are on their way.
stats = loader.stats()
print(json.dumps({"rank": rank, "steps": steps, "slept": slept, "reported": reported, "blocks": blocks,
                  "communication_s": stats["communication_s"], "reports": stats["reports"], "microbatches": 4 * steps,
                  "node": stats.get("node")}), flush=True)
distributed.barrier()
loader.close()
