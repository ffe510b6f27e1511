"""Trains a vision-language model in a loop of accelerate, and goes on where an earlier run was stopped.

    accelerate launch examples/frameworks/accelerated.py --data SHARDS --model DIR --checkpoints FOLDER
"""

import contextlib

import accelerate
import torch
import transformers

import isocost
from checkpoints import is_due, is_saved, last_checkpoint, new_checkpoint
from isocost.integrations.accelerate import check
from settings import parse_arguments, print_step

arguments = parse_arguments(__doc__)
accelerator = accelerate.Accelerator()
check(accelerator)

model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.model, dtype=torch.float32).train()
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=arguments.lr))
loader = isocost.DataLoader(arguments.data, model=arguments.model, global_batch_size=arguments.global_batch_size,
                            max_tokens=arguments.max_tokens, epochs=arguments.epochs, dummy_media="always",
                            device=accelerator.device)  # not to be prepared: it deals out the ranks' samples itself
accelerator.register_for_checkpointing(loader)
checkpoint = last_checkpoint(arguments.checkpoints)
if checkpoint:
    accelerator.load_state(checkpoint)

for _ in range(loader.state_dict()["epoch"], arguments.epochs):
    for step in isocost.steps(loader):
        total = torch.zeros((), device=accelerator.device)
        for microbatch in step:
            with contextlib.nullcontext() if microbatch.last_of_step else accelerator.no_sync(model):
                with loader.timed(microbatch):
                    loss = model(**microbatch).loss
                    accelerator.backward(loss * accelerator.num_processes)  # DDP averages, the loss is a sum
            total += loss.detach()
        norm = accelerator.clip_grad_norm_(model.parameters(), arguments.clip)
        optimizer.step()
        optimizer.zero_grad()
        print_step(loader, microbatch, total, norm)
        if is_due(microbatch, arguments):
            checkpoint = new_checkpoint(arguments.checkpoints, microbatch)
            accelerator.save_state(checkpoint)
            is_saved(checkpoint)
loader.close()
accelerator.end_training()
