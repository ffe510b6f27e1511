"""The training script of `train_ddp.py` with Isocost's loader.

    torchrun --nproc-per-node 2 examples/python/train_ddp_isocost.py SHARDS [SETTING=VALUE ...]   # torch 2

Settings are those of isocost.NodeOptions: balance=in-order deals samples as train_ddp.py does.
"""

import json
import sys

import torch
import torch.distributed as dist
from model import TextModel

import isocost

BATCH = 8  # samples per rank and step


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(TextModel())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
node = isocost.NodeOptions(**dict(argument.split("=") for argument in sys.argv[2:]))
loader = isocost.DataLoader(sys.argv[1], batch_size=BATCH, shuffle=False, drop_last=True, node=node)

for step, batch in enumerate(loader):
    with loader.timed(batch):  # this rank's own seconds correct the cost model
        logits = model(**batch)
        loss = isocost.token_loss(logits, batch)
        (loss * dist.get_world_size()).backward()  # DDP averages over ranks, the loss is a sum
    total = loss.detach().clone()
    dist.all_reduce(total)
    norm = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(json.dumps({"step": step, "loss": total.item(), "gradient_norm": norm.item()}))

dist.destroy_process_group()
