"""A plain PyTorch + DDP training script over text in WebDataset shards: before Isocost.

    torchrun --nproc-per-node 2 examples/python/train_ddp.py SHARDS   # torch 2

`train_ddp_isocost.py` is the same script with Isocost's loader; docs/your_trainer.md shows the difference.
"""

import json
import pathlib
import sys
import tarfile

import torch
import torch.distributed as dist
from model import TextModel

BATCH = 8  # samples per rank and step


class Texts(torch.utils.data.Dataset):
    """The .txt members of all shards, as bytes between a begin and an end token."""

    def __init__(self, directory):
        self.texts = []
        for shard in sorted(pathlib.Path(directory).glob("*.tar")):
            with tarfile.open(shard) as tar:
                self.texts += [tar.extractfile(member).read() for member in tar if member.name.endswith(".txt")]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return torch.tensor([256, *self.texts[index], 257])


def pack(samples):
    """Samples one after the other, without padding."""
    labels = [torch.cat([ids[1:], torch.tensor([-100])]) for ids in samples]
    return {"input_ids": torch.cat(samples), "labels": torch.cat(labels),
            "position_ids": torch.cat([torch.arange(len(ids)) for ids in samples])}


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(TextModel())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = Texts(sys.argv[1])
sampler = torch.utils.data.distributed.DistributedSampler(dataset, shuffle=False, drop_last=True)
loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, sampler=sampler, collate_fn=pack, drop_last=True)

for step, batch in enumerate(loader):
    logits = model(**batch)
    tokens = (batch["labels"] != -100).sum()
    dist.all_reduce(tokens)
    loss = torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="sum") / tokens
    (loss * dist.get_world_size()).backward()  # DDP averages over ranks, the loss is a sum
    total = loss.detach().clone()
    dist.all_reduce(total)
    norm = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(json.dumps({"step": step, "loss": total.item(), "gradient_norm": norm.item()}))

dist.destroy_process_group()
