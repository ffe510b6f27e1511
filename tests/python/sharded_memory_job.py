"""A job of sharded_memory_test.py: trains a small model with fully_shard, and prints the bytes that its state takes and
those that were live at once. Argument: settings as JSON, with "encoder" and "llm", each with a "shape", "reshard" and
"recompute"; "vocabulary", "patch", "patches", "tokens", "microbatches" and "cases", a list of changes to them."""

import json
import sys
import weakref

import torch
import torch.distributed as distributed
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fused_model import Layer, Shape

LABELLED = 8  # The rows that have a loss, since layouts count logits as layers of the LLM.


class Model(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        encoder, llm = (Shape(**settings[name]["shape"]) for name in ("encoder", "llm"))
        self.patches = torch.nn.Linear(settings["patch"], encoder.width, bias=False)
        self.embedding = torch.nn.Embedding(settings["vocabulary"], llm.width)
        self.head = torch.nn.Linear(llm.width, settings["vocabulary"], bias=False)
        self.encoder, self.llm = (
            torch.nn.ModuleList(Layer(shape, settings[name]["recompute"], reentrant=False) for _ in range(shape.layers))
            for name, shape in (("encoder", encoder), ("llm", llm)))

    def forward(self, patches, ids):
        media = self.patches(patches)
        for layer in self.encoder:
            media = layer(media)
        rows = self.embedding(ids)
        rows = torch.cat([rows[:-len(media)], rows[-len(media):] + media])
        for layer in self.llm:
            rows = layer(rows)
        return self.head(rows[-LABELLED:])


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class Live(TorchDispatchMode):
    """Counts the bytes of all storages that operations read or made, while these live."""

    def __init__(self):
        super().__init__()
        self.storages, self.peak = {}, 0

    def add(self, tensor):
        if isinstance(tensor, torch.Tensor) and not isinstance(tensor, DTensor):
            storage = tensor.untyped_storage()
            key = id(storage)
            if key not in self.storages:
                self.storages[key] = weakref.ref(storage, lambda _: self.storages.pop(key, None))

    def bytes(self):
        found = (storage() for storage in list(self.storages.values()))
        return sum(storage.nbytes() for storage in found if storage is not None)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, kwargs, out)):
            self.add(tensor)
        self.peak = max(self.peak, self.bytes())
        return out


def state_bytes(model, optimizer):
    """Bytes of parameters, gradients, and the optimizer's state."""
    parameters = [local(parameter) for parameter in model.parameters()]
    gradients = [local(parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
    moments = [local(value) for state in optimizer.state.values() for value in state.values() if value.dim() > 0]
    return {name: sum(tensor.nbytes for tensor in tensors)
            for name, tensors in (("parameters", parameters), ("gradients", gradients), ("optimizer", moments))}


def train(settings):
    torch.manual_seed(0)
    model = Model(settings)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for name in ("encoder", "llm"):
        for layer in getattr(model, name):
            fully_shard(layer, reshard_after_forward=settings[name]["reshard"], mp_policy=precision)
    fully_shard(model, mp_policy=precision)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    def step():
        for _ in range(settings["microbatches"]):
            patches = torch.randn(settings["patches"], settings["patch"])
            ids = torch.randint(settings["vocabulary"], (settings["tokens"],))
            model(patches, ids).float().square().mean().backward()
            del patches, ids
        optimizer.step()

    step()  # It makes the optimizer's state.
    optimizer.zero_grad()
    with Live() as live:
        for tensor in tree_leaves([list(model.parameters()), list(optimizer.state.values())]):
            live.add(local(tensor))
        step()
    return {"state": state_bytes(model, optimizer), "peak": live.peak}


def main():
    distributed.init_process_group("gloo")
    settings = json.loads(sys.argv[1])
    found = []
    for case in settings["cases"]:
        changed = {name: {**settings[name], **case.get(name, {})} for name in ("encoder", "llm")}
        found.append(train({**settings, **changed}))
    print(json.dumps(found), flush=True)
    distributed.destroy_process_group()


main()
