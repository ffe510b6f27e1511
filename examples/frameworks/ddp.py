"""Trains a vision-language model under DistributedDataParallel, and goes on where an earlier run was stopped.

    torchrun --nproc-per-node 2 examples/frameworks/ddp.py --data SHARDS --model DIR --checkpoints FOLDER
"""

import torch
import transformers
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import isocost
from checkpoints import is_due, is_saved, last_checkpoint, new_checkpoint
from settings import device_of_rank, parse_arguments, print_step

arguments = parse_arguments(__doc__)
device = device_of_rank()
distributed.init_process_group()
ranks = distributed.get_world_size()

model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.model, dtype=torch.float32)
model = DistributedDataParallel(model.to(device).train())
optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
loader = isocost.DataLoader(arguments.data, model=arguments.model, global_batch_size=arguments.global_batch_size,
                            max_tokens=arguments.max_tokens, epochs=arguments.epochs, dummy_media="always",
                            device=device)
checkpoint = last_checkpoint(arguments.checkpoints)
if checkpoint:
    state = torch.load(checkpoint, map_location="cpu")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loader"])

for _ in range(loader.state_dict()["epoch"], arguments.epochs):
    for step in isocost.steps(loader):
        total = torch.zeros((), device=device)
        for microbatch in step:
            model.require_backward_grad_sync = microbatch.last_of_step  # what DDP's no_sync sets
            with loader.timed(microbatch), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = model(**microbatch).loss
                (loss * ranks).backward()  # DDP averages over ranks, the loss is a sum
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.clip)
        optimizer.step()
        optimizer.zero_grad()
        print_step(loader, microbatch, total, norm)
        if is_due(microbatch, arguments):
            checkpoint = new_checkpoint(arguments.checkpoints, microbatch)
            if loader.rank == 0:
                torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                            "loader": loader.state_dict()}, checkpoint)
            is_saved(checkpoint)
loader.close()
distributed.destroy_process_group()
