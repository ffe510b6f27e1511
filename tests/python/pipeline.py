"""A job of the layout test: a small model cut by a layout, trained for one step, its gradients saved.
Arguments: data, directory for the gradients, layout or "whole" for one process that holds all of
the model, and further settings of the loader as JSON.

Schedules call `forward_step(data_iterator, model)` as Megatron-LM's do.
"""

import itertools
import json
import sys

import torch
import torch.distributed as distributed

import isocost

data, directory, layout_file, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
WIDTH = 8
UNITS_PER_TOKEN = {"vision": 4, "audio": 2}  # of the recipe native28
MEDIA_TOKEN = {"vision": 258, "audio": 259}
torch.set_default_dtype(torch.float64)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.vision, self.audio = torch.nn.Linear(4 * 588, WIDTH), torch.nn.Linear(4 * 128, WIDTH)

    def forward(self, tensors):
        """{module: [tokens, WIDTH]} of the media that are there."""
        rows = {}
        if "vision_patches" in tensors:
            rows["vision"] = self.vision(tensors["vision_patches"].double().reshape(-1, 4 * 588) / 255).tanh()
        if "audio_mel" in tensors:
            rows["audio"] = self.audio(tensors["audio_mel"].double().reshape(-1, 4 * 128)).tanh()
        return rows


class Stage(torch.nn.Module):
    """Mixes each token with those before it in its sample."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, rows, cu_seqlens):
        bounds = cu_seqlens.tolist()
        return torch.cat([self.linear(rows[a:b]).cumsum(0).tanh() for a, b in zip(bounds, bounds[1:])]) + rows


class First(Stage):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(260, WIDTH)

    def forward(self, tensors, media):
        rows = self.embedding(tensors["input_ids"])
        for module, encoded in media.items():
            rows = rows.index_put(((tensors["input_ids"] == MEDIA_TOKEN[module]).nonzero()[:, 0],), encoded)
        return super().forward(rows, tensors["cu_seqlens"])


class Last(Stage):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(WIDTH, 260)

    def forward(self, rows, microbatch):
        rows = super().forward(rows, microbatch.tensors["cu_seqlens"])
        return isocost.token_loss(self.head(rows), microbatch)


def make(kind):
    torch.manual_seed(len(kind.__name__))  # the same wherever it is made
    return kind()


def tag(module, microbatch, first_unit):
    return (microbatch << 20 | first_unit) << 1 | (module == "audio")


def is_decoupled(layout, place, microbatch):
    """Whether this encoder microbatch is not the work of one LLM microbatch, the one that a coupled plan deals it."""
    number = microbatch.index * layout.encoder["data"] + place.data
    return any(route.microbatch * layout.llm["data"] + route.replica != number for route in microbatch.routes)


def save(name, model):
    torch.save({key: parameter.grad for key, parameter in model.named_parameters()}, f"{directory}/{name}.pt")


class Messages:
    """Sends that are under way, kept until they are done."""

    def __init__(self):
        self.sent = []

    def send(self, tensor, rank, number):
        tensor = tensor.detach().contiguous()
        self.sent.append((tensor, distributed.isend(tensor, rank, tag=number)))

    @staticmethod
    def receive(shape, rank, number):
        tensor = torch.empty(shape)
        distributed.recv(tensor, rank, tag=number)
        return tensor

    def finish(self):
        for _tensor, work in self.sent:
            work.wait()


class Piece:
    """The part of the model that a process holds; passes by name as schedules call them."""

    def __init__(self, layout, place):
        self.layout, self.place, self.messages, self.under_way = layout, place, Messages(), []

    def rank(self, module, data, stage):
        return self.layout.rank_of(isocost.Place(module, data, stage))

    def reduce(self, model):
        degrees = self.layout.encoder if self.place.module == "encoder" else self.layout.llm
        mine = None
        for module, stages, replicas in (("encoder", 1, self.layout.encoder["data"]),
                                         ("llm", self.layout.llm["pipeline"], self.layout.llm["data"])):
            for stage in range(stages):
                group = distributed.new_group([self.rank(module, data, stage) for data in range(replicas)])
                if (module, stage) == (self.place.module, self.place.stage):
                    mine = group
        assert degrees["tensor"] == 1
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad, group=mine)


class EncoderPiece(Piece):
    def forward_step(self, data_iterator, model):
        microbatch = next(data_iterator)
        rows = model(microbatch.tensors)
        for route in microbatch.routes:
            k = UNITS_PER_TOKEN[route.module]
            self.messages.send(rows[route.module][route.first_unit // k:(route.first_unit + route.units) // k],
                               self.rank("llm", route.replica, 0),
                               tag(route.module, route.microbatch, route.peer_first_unit))
        self.under_way.append((microbatch, rows))
        return microbatch

    def backward_step(self):
        microbatch, rows = self.under_way.pop(0)
        grads = {module: torch.zeros_like(encoded) for module, encoded in rows.items()}
        for route in microbatch.routes:
            k = UNITS_PER_TOKEN[route.module]
            part = grads[route.module][route.first_unit // k:(route.first_unit + route.units) // k]
            part += self.messages.receive(part.shape, self.rank("llm", route.replica, 0),
                                          tag(route.module, route.microbatch, route.peer_first_unit))
        if rows:
            torch.autograd.backward(list(rows.values()), [grads[module] for module in rows])


class FirstPiece(Piece):
    def forward_step(self, data_iterator, model):
        microbatch = next(data_iterator)
        parts = {}
        for route in microbatch.routes:
            shape = (route.units // UNITS_PER_TOKEN[route.module], WIDTH)
            parts[route] = self.messages.receive(shape, self.rank("encoder", route.replica, 0),
                                                 tag(route.module, microbatch.index, route.first_unit))
        media = {}
        for module in MEDIA_TOKEN:
            ours = sorted((route for route in parts if route.module == module), key=lambda route: route.first_unit)
            if ours:
                media[module] = torch.cat([parts[route] for route in ours]).requires_grad_()
        rows = model(microbatch.tensors, media)
        self.messages.send(rows, self.rank("llm", self.place.data, 1), microbatch.index)
        self.under_way.append((microbatch, media, rows))
        return microbatch

    def backward_step(self):
        microbatch, media, rows = self.under_way.pop(0)
        rows.backward(self.messages.receive(rows.shape, self.rank("llm", self.place.data, 1), microbatch.index))
        for route in microbatch.routes:
            k = UNITS_PER_TOKEN[route.module]
            grad = media[route.module].grad[route.first_unit // k:(route.first_unit + route.units) // k]
            self.messages.send(grad, self.rank("encoder", route.replica, 0),
                               tag(route.module, microbatch.index, route.first_unit))


class LastPiece(Piece):
    def forward_step(self, data_iterator, model):
        microbatch = next(data_iterator)
        shape = (int(microbatch.cu_seqlens["llm"][-1]), WIDTH)
        rows = self.messages.receive(shape, self.rank("llm", self.place.data, 0), microbatch.index).requires_grad_()
        self.under_way.append((microbatch, rows, model(rows, microbatch)))
        return microbatch

    def backward_step(self):
        microbatch, rows, loss = self.under_way.pop(0)
        loss.backward()
        self.messages.send(rows.grad, self.rank("llm", self.place.data, 0), microbatch.index)


def train_stage(loader, layout, place):
    kinds = {("encoder", 0): (EncoderPiece, Encoder), ("llm", 0): (FirstPiece, First), ("llm", 1): (LastPiece, Last)}
    piece, kind = kinds[place.module, place.stage]
    piece, model = piece(layout, place), make(kind)
    data_iterator = isocost.stage_iterators(loader)
    seen = []
    while not seen or not seen[-1].last_of_step:  # GPipe
        seen.append(piece.forward_step(data_iterator, model))
    for microbatch in seen:
        piece.backward_step()
        loader.report(microbatch, {module: 0.01 for module, seconds in microbatch.predicted.items() if seconds > 0})
    piece.messages.finish()
    piece.reduce(model)
    if place.data == 0:
        save(f"{place.module}-{place.stage}", model)
    names = sorted({name for microbatch in seen for name in microbatch.tensors})
    decoupled = sum(is_decoupled(layout, place, microbatch) for microbatch in seen) if place.module == "encoder" else 0
    print(json.dumps({"place": place, "tensors": names, "samples": [microbatch.sample_ids for microbatch in seen],
                      "decoupled": decoupled}))


def train_whole(loader):
    encoder, first, last = make(Encoder), make(First), make(Last)
    for microbatch in itertools.takewhile(lambda microbatch: microbatch.step == 0, loader):
        rows = first(microbatch.tensors, encoder(microbatch.tensors))
        last(rows, microbatch).backward()
    for name, model in (("encoder-0", encoder), ("llm-0", first), ("llm-1", last)):
        save(name, model)


if layout_file == "whole":
    with isocost.DataLoader(data, microbatches=1, **options) as loader:
        train_whole(loader)
else:
    distributed.init_process_group("gloo")
    layout = isocost.Layout(layout_file)
    with isocost.DataLoader(data, layout=layout_file, **options) as loader:
        train_stage(loader, layout, layout.place_of(distributed.get_rank()))
        distributed.barrier()
