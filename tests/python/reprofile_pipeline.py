"""A job of the reprofiling test: a pipeline of two stages that trains until its layers were measured again.
Arguments: data, layout, model profile, and settings as JSON: `thaw`: the step from which the encoder is trained;
`steps`: the last one; `lengths`: of the sequences that each rank measures; `fails`: the rank that does not measure;
`after`: steps that follow the node's decision.

Prints a line of JSON for each rank: when its layers were measured, what was measured, and what its loader says."""

import contextlib
import json
import logging
import sys
import time

import torch
import torch.distributed as distributed

import isocost

data, layout_file, profile, settings = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
WIDTH, PATCH = 96, 588


class Block(torch.nn.Module):
    """A layer: an MLP beside its input."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, rows):
        return rows + self.down(self.up(rows).tanh())


def blocks(number):
    return torch.nn.Sequential(*(Block() for _ in range(number)))


@contextlib.contextmanager
def clock(seconds, module):
    begin = time.thread_time()  # which other processes of a busy machine do not lengthen
    yield
    seconds[module] = seconds.get(module, 0.0) + time.thread_time() - begin


class First(torch.nn.Module):
    """The encoder's two layers, and the first of the LLM."""

    def __init__(self):
        super().__init__()
        self.patches, self.encoder = torch.nn.Linear(PATCH, WIDTH), blocks(2)
        self.embedding, self.layers = torch.nn.Embedding(260, WIDTH), blocks(1)
        self.thaw(False)

    def thaw(self, trained):
        for part in (self.patches, self.encoder):
            part.requires_grad_(trained)

    def measured(self):
        return {"vision": self.encoder[0], "llm": self.layers[0]}

    def train_on(self, microbatch):
        seconds, tensors = {}, microbatch.tensors
        encoded, rows = None, self.embedding(tensors["input_ids"]).detach()
        if len(tensors.get("vision_patches", ())):
            patches = tensors["vision_patches"].float().reshape(-1, PATCH) / 255
            with clock(seconds, "vision"):
                encoded = self.encoder(self.patches(patches))
            tokens = (tensors["input_ids"] == 258).nonzero()[:, 0]
            vectors = encoded.detach().reshape(len(tokens), -1, WIDTH).mean(1).requires_grad_()
            rows = rows.index_put((tokens,), vectors)
        with clock(seconds, "llm"):
            outputs = self.layers(rows)
        forward = sum(seconds.values())
        distributed.send(outputs.detach(), 1)
        gradient = torch.empty_like(outputs)
        distributed.recv(gradient, 1)
        with clock(seconds, "llm"):
            outputs.backward(gradient)
        if encoded is not None and encoded.requires_grad:
            of_patches = vectors.grad.repeat_interleave(len(encoded) // len(vectors), 0)
            with clock(seconds, "vision"):
                encoded.backward(of_patches)
        return seconds, forward


class Last(torch.nn.Module):
    """The LLM's other layers and its head."""

    def __init__(self):
        super().__init__()
        self.layers, self.head = blocks(3), torch.nn.Linear(WIDTH, 260)

    def thaw(self, trained):
        pass

    def measured(self):
        return {"llm": self.layers[0]}

    def train_on(self, microbatch):
        seconds = {}
        rows = torch.empty(int(microbatch.cu_seqlens["llm"][-1]), WIDTH)
        distributed.recv(rows, 0)
        rows.requires_grad_()
        with clock(seconds, "llm"):
            loss = isocost.token_loss(self.head(self.layers(rows)), microbatch)
        forward = seconds["llm"]
        with clock(seconds, "llm"):
            loss.backward()
        distributed.send(rows.grad, 0)
        return seconds, forward


def train():
    torch.manual_seed(1)
    rank = distributed.get_rank()
    model = (First, Last)[rank]()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    at, measured, gradients_stay = [], [], True

    def reprofile(budget_s):
        nonlocal gradients_stay
        at.append(steps)
        if settings.get("fails") == rank:
            raise RuntimeError("the device is busy")
        lengths = settings.get("lengths", [[128, 128]] * 2)[rank]
        layers = {name: isocost.ProfiledLayers(module, WIDTH, lengths, lengths[-1])
                  for name, module in model.measured().items()}
        before = [parameter.grad for parameter in model.parameters()], torch.random.get_rng_state()
        part = isocost.profile_layers(budget_s, **layers)
        after = [parameter.grad for parameter in model.parameters()], torch.random.get_rng_state()
        gradients_stay &= all(a is b for a, b in zip(before[0], after[0])) and torch.equal(before[1], after[1])
        measured.append(part["modules"])
        return part

    steps, errors, last, decided = 0, [], settings["steps"], 0
    with isocost.DataLoader(data, layout=layout_file, profile=profile, global_batch_size=12, endless=True, seed=1,
                            node=isocost.NodeOptions(reprofile_budget=1.0), reprofile=reprofile) as loader:
        for microbatch in loader:
            seconds, forward = model.train_on(microbatch)
            loader.report(microbatch, seconds, forward=forward)
            errors.append({name: microbatch.predicted[name] / taken for name, taken in seconds.items()})
            if not microbatch.last_of_step:
                continue
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            steps += 1
            if steps == settings["thaw"]:
                model.thaw(True)
            # All ranks stop alike: the first one's word counts.
            node = loader.stats().get("node", {})
            box = [node.get("reprofiles", 0) + node.get("reprofiles_kept", 0)]
            distributed.broadcast_object_list(box, src=0)
            if steps <= settings["thaw"]:
                decided = box[0]
            elif box[0] > decided:
                last = min(last, steps + settings["after"])
            if steps >= last:
                break
        node = loader.stats().get("node")
        distributed.barrier()
    print(json.dumps({"rank": rank, "at": at, "measured": measured, "gradients_stay": gradients_stay, "steps": steps,
                      "node": node, "errors": errors[-2 * settings["after"]:]}), flush=True)


logging.basicConfig(format="%(message)s", level=logging.INFO)
distributed.init_process_group("gloo")
train()
