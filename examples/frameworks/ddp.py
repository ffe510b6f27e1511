"""Trains a vision-language model under DistributedDataParallel, and goes on where an earlier run was stopped.

    torchrun --nproc-per-node 2 examples/frameworks/ddp.py --data SHARDS --model DIR --checkpoint FOLDER
"""

import os

import torch
import transformers
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import isocost
from settings import device_of_rank, parse_arguments, print_step

arguments = parse_arguments(__doc__)
distributed.init_process_group()
device = device_of_rank()
ranks = distributed.get_world_size()

model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.model).to(device).train()
model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
loader = isocost.DataLoader(arguments.data, model=arguments.model, global_batch_size=arguments.global_batch_size,
                            max_tokens=arguments.max_tokens, epochs=arguments.epochs, dummy_media="always",
                            device=device)
file = os.path.join(arguments.checkpoint, "checkpoint.pt")
if os.path.exists(file):
    state = torch.load(file, map_location="cpu")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loader"])

for _ in range(loader.state_dict()["epoch"], arguments.epochs):
    for step in isocost.steps(loader):
        total = torch.zeros((), device=device)
        for microbatch in step:
            model.require_backward_grad_sync = microbatch.last_of_step  # what DDP's no_sync sets
            with loader.timed(microbatch):
                loss = model(**microbatch).loss
                (loss * ranks).backward()  # DDP averages over ranks, the loss is a sum
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        print_step(loader, microbatch, total)
        if (microbatch.step + 1) % arguments.save_every == 0 and loader.rank == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                     "loader": loader.state_dict()}
            torch.save(state, file + ".new")
            os.replace(file + ".new", file)
loader.close()
distributed.destroy_process_group()
