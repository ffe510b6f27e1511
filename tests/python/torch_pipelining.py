"""A job of torch_pipelining_test.py: a small model cut by a layout, trained for an epoch by a schedule of
torch.distributed.pipelining, the gradients of its first and last step saved. Arguments: data,
directory for the gradients, and settings as JSON: "layout", or "whole" for one process that holds
all "pieces" of the model; "schedule"; "max_tokens"; "infer"; and further ones of the loader.
"""

import json
import sys

import torch
import torch.distributed as distributed

import isocost

data, directory, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
WIDTH = 8
torch.set_default_dtype(torch.float64)


class Piece(torch.nn.Module):
    """A piece of the model: mixes each token with those before it in its sample. The first embeds, the last one has the
    head."""

    def __init__(self, index, pieces):
        super().__init__()
        torch.manual_seed(index)  # the same wherever it is made
        self.first, self.last = index == 0, index == pieces - 1
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        if self.first:
            self.embedding = torch.nn.Embedding(260, WIDTH)
            self.vision, self.audio = torch.nn.Linear(4 * 588, WIDTH), torch.nn.Linear(4 * 128, WIDTH)
        if self.last:
            self.head = torch.nn.Linear(WIDTH, 260)

    def forward(self, rows, *, cu_seqlens, vision_patches=None, audio_mel=None, **_others):
        if self.first:
            ids, rows = rows, self.embedding(rows)
            if vision_patches is not None:
                encoded = self.vision(vision_patches.double().reshape(-1, 4 * 588) / 255).tanh()
                rows = rows.index_put(((ids == 258).nonzero()[:, 0],), encoded)
            if audio_mel is not None:
                encoded = self.audio(audio_mel.double().reshape(-1, 4 * 128)).tanh()
                rows = rows.index_put(((ids == 259).nonzero()[:, 0],), encoded)
        bounds = cu_seqlens.tolist()
        rows = rows + torch.cat([self.linear(rows[a:b]).cumsum(0).tanh() for a, b in zip(bounds, bounds[1:])])
        return self.head(rows) if self.last else rows


def gradients(pieces):
    return {f"{i}.{name}": torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            for i, piece in pieces.items() for name, parameter in piece.named_parameters()}


class Record:
    """A record of the steps, for comparison."""

    def __init__(self, pieces, group=None):
        self.pieces, self.group, self.steps, self.kept = pieces, group, [], []

    def step(self, microbatches, losses, rows=()):
        found = gradients(self.pieces)
        for tensor in found.values():
            if self.group is not None:
                distributed.all_reduce(tensor, group=self.group)
        self.kept = [*self.kept[:1], found]
        for piece in self.pieces.values():
            piece.zero_grad()
        self.steps.append({"samples": [sample for microbatch in microbatches for sample in microbatch.sample_ids],
                           "microbatches": len(microbatches), "rows": rows, "loss": float(sum(losses)),
                           "tensors": sorted({name for microbatch in microbatches for name in microbatch.tensors})})

    def save(self, name, **more):
        torch.save(self.kept, f"{directory}/{name}.pt")
        print(json.dumps(dict(more, steps=self.steps)), flush=True)


def train_whole(loader, count):
    pieces = {i: Piece(i, count) for i in range(count)}
    record = Record(pieces)
    for microbatch in loader:
        tensors = {name: tensor for name, tensor in microbatch.tensors.items() if name != "input_ids"}
        rows = microbatch.tensors["input_ids"]
        for piece in pieces.values():
            rows = piece(rows, **tensors)
        loss = isocost.token_loss(rows, microbatch)
        loss.backward()
        record.step([microbatch], [loss.item()])
    record.save("whole")


def make_schedule(pieces, group, layout):
    from torch.distributed import pipelining

    rows = settings.get("max_tokens")
    make_stage = pipelining.PipelineStage if rows else isocost.packed_stage
    rows = rows or 1
    count = layout.llm["pipeline"] * layout.chunks
    stages = []
    for i, piece in pieces.items():
        shapes = {} if settings.get("infer") else {
            "input_args": (torch.empty(rows, dtype=torch.int64) if i == 0
                           else torch.empty(rows, WIDTH, requires_grad=True)),
            "output_args": torch.empty(rows, 260 if i == count - 1 else WIDTH, requires_grad=True)}
        stages.append(make_stage(piece, i, count, torch.device("cpu"), group=group, **shapes))
    kind = getattr(pipelining, f"Schedule{settings['schedule']}")
    return kind(stages if layout.chunks > 1 else stages[0], layout.microbatches, loss_fn=isocost.pipeline_loss,
                scale_grads=False)


def watch_reports(loader):
    """Seconds that are sent of each microbatch, and of these the forward pass's."""
    reports, send = [], loader.recorder.send

    def sent(microbatch, measured):
        reports.append([measured.whole, measured.forward])
        send(microbatch, measured)

    loader.recorder.send = sent
    return reports


def train_stage(loader):
    reports = watch_reports(loader)
    layout, place = loader.layout, loader.place
    stages = layout.llm["pipeline"]
    mesh = distributed.device_mesh.init_device_mesh("cpu", (stages, layout.llm["data"]), mesh_dim_names=("pp", "dp"))
    count = stages * layout.chunks
    pieces = {i: Piece(i, count) for i in range(place.stage, count, stages)}
    record = Record(pieces, mesh["dp"].get_group())
    schedule = make_schedule(pieces, mesh["pp"].get_group(), layout)
    for step in isocost.schedule_steps(loader, settings.get("max_tokens"), timed=list(pieces.values())):
        losses = []
        step.run(schedule, losses)
        record.step(step.microbatches, [loss.item() for loss in losses], step.rows)
    record.save(f"{place.data}-{place.stage}", place=place, reports=reports)


options = settings.get("loader", {})
if settings["layout"] == "whole":
    with isocost.DataLoader(data, microbatches=1, **options) as whole:
        train_whole(whole, settings["pieces"])
else:
    distributed.init_process_group("gloo")
    with isocost.DataLoader(data, layout=settings["layout"], **options) as part:
        train_stage(part)
        distributed.barrier()
