"""Trains a vision-language model whose parameters `fully_shard` spreads over the ranks, with checkpoints of
torch.distributed.checkpoint, and goes on where an earlier run was stopped, on any number of ranks.

    torchrun --nproc-per-node 2 examples/frameworks/sharded.py --data SHARDS --model DIR --checkpoints FOLDER
"""

import torch
import transformers
from torch import distributed
from torch.distributed import checkpoint as distributed_checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import isocost
from checkpoints import is_due, is_saved, last_checkpoint, new_checkpoint
from settings import device_of_rank, parse_arguments, print_step


def sharded(model):
    """Shards every layer of the encoder and of the LLM, and the model around them."""
    precision = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if device.type == "cuda" else MixedPrecisionPolicy()
    for layer in [*model.model.visual.blocks, *model.model.language_model.layers]:
        fully_shard(layer, mp_policy=precision)
    return fully_shard(model, mp_policy=precision)


class Training:
    """Model and optimizer, as torch.distributed.checkpoint keeps them."""

    def state_dict(self):
        return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))

    def load_state_dict(self, state):
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


arguments = parse_arguments(__doc__)
device = device_of_rank()
distributed.init_process_group()
ranks = distributed.get_world_size()

model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.model, dtype=torch.float32)
model = sharded(model.to(device).train())
optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
loader = isocost.DataLoader(arguments.data, model=arguments.model, global_batch_size=arguments.global_batch_size,
                            max_tokens=arguments.max_tokens, epochs=arguments.epochs, device=device)
state = {"training": Training(), "loader": loader}
checkpoint = last_checkpoint(arguments.checkpoints)
if checkpoint:
    distributed_checkpoint.load(state, checkpoint_id=checkpoint)

for _ in range(loader.state_dict()["epoch"], arguments.epochs):
    for step in isocost.steps(loader):
        total = torch.zeros((), device=device)
        for microbatch in step:
            model.set_requires_gradient_sync(microbatch.last_of_step)
            with loader.timed(microbatch):
                loss = model(**microbatch).loss
                (loss * ranks).backward()  # fully_shard averages over ranks, the loss is a sum
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.clip).full_tensor()
        optimizer.step()
        optimizer.zero_grad()
        print_step(loader, microbatch, total, norm)
        if is_due(microbatch, arguments):
            checkpoint = new_checkpoint(arguments.checkpoints, microbatch)
            distributed_checkpoint.save(state, checkpoint_id=checkpoint)
            is_saved(checkpoint)
loader.close()
distributed.destroy_process_group()
