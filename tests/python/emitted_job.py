"""A job of emitted_test.py: a model that the file of `isocost plan --emit fsdp2` parallelizes, trained for a step
beside the same model on its own. Arguments: the file, and settings as JSON: "freeze", "bf16", or "bad" with the name of
a mistake."""

import copy
import importlib.util
import json
import sys

import torch
import torch.distributed as distributed

WIDTH, ROWS = 16, 6


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Linear(WIDTH, WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(),
                                       torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, rows, *, scale=1.0):
        rows = rows + self.mix(rows).tanh() * scale
        return rows + self.mlp(rows)


class Model(torch.nn.Module):
    """An encoder's blocks, and then the LLM's, called with an argument by position and one by name."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Linear(4, WIDTH), torch.nn.Linear(WIDTH, 8)
        self.encoder = torch.nn.ModuleList(Block() for _ in range(2))
        self.llm = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, rows):
        rows = self.embedding(rows)
        for block in (*self.encoder, *self.llm):
            rows = block(rows, scale=0.5)
        return self.head(rows)


def count_forwards(model):
    """Counts how often each module's MLPs compute."""
    counts = {"encoder": 0, "llm": 0}

    def counted(name):
        def hook(*_):
            counts[name] += 1
        return hook

    for name in counts:
        for block in getattr(model, name):
            block.mlp[0].register_forward_hook(counted(name))
    return counts


def whole_layers(model):
    """Returns how many of each module's layers are whole now."""
    return {name: sum(not hasattr(block.mix.weight, "full_tensor") for block in getattr(model, name))
            for name in ("encoder", "llm")}


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def check_gradients(model, reference):
    """Gradients, averaged over ranks by the backend, are those of the whole batch."""
    found = {name.removeprefix("module."): parameter for name, parameter in model.named_parameters()}
    for name, parameter in reference.named_parameters():
        if not parameter.requires_grad:
            assert found[name].grad is None, name
            continue
        distributed.all_reduce(parameter.grad)
        torch.testing.assert_close(full(found[name].grad), parameter.grad, rtol=1e-5, atol=1e-6, msg=name)


def main():
    settings = json.loads(sys.argv[2])
    spec = importlib.util.spec_from_file_location("emitted", sys.argv[1])
    emitted = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(emitted)
    torch.manual_seed(0)
    model = Model()
    if settings.get("freeze"):
        for block in model.encoder:
            block.requires_grad_(False)
    reference = copy.deepcopy(model)
    if settings.get("bad") != "no group":
        distributed.init_process_group("gloo")
    if settings.get("bad") == "no mlp":
        for block in model.llm:
            block.inner = block.mlp
            del block.mlp
    as_file = settings.get("bf16") or emitted.SHARD == 1
    exact = {} if as_file else {"mixed_precision": emitted.MixedPrecisionPolicy()}
    if settings.get("bad") == "precision":
        exact = {"mixed_precision": emitted.MixedPrecisionPolicy()}
    counts = count_forwards(model) if not settings.get("bad") else {}
    model = emitted.parallelize(model, encoder_layers=model.encoder, llm_layers=model.llm, **exact)
    torch.manual_seed(1 + distributed.get_rank())
    rows = torch.randn(ROWS, 4)
    for part in (rows[:2], rows[2:]):  # two microbatches
        with emitted.accumulate(model, len(part) > 2):
            loss = model(part).square().sum()
            between_passes = whole_layers(getattr(model, "module", model))
            (loss * emitted.WORLD_SIZE).backward()
    reference(rows).square().sum().backward()
    if not settings.get("bf16"):
        check_gradients(model, reference)
    # Every optimizer takes what is trained.
    optimizer = torch.optim.Adam([parameter for parameter in model.parameters() if parameter.requires_grad])
    optimizer.step()
    print(json.dumps({"counts": counts, "between_passes": between_passes, "type": type(model).__name__,
                      "sharded": sum(hasattr(parameter, "full_tensor") for parameter in model.parameters()),
                      "loss": loss.item()}), flush=True)


main()
