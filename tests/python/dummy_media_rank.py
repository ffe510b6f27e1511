"""A rank of dummy_media_test.py: trains a model whose parameters are sharded, or whose gradients are summed, over the
ranks. Rank 0 prints a line of JSON for each step."""

import argparse
import json
import os

import torch
import transformers
from torch import distributed

import isocost


def sharded(model, tower):
    """Shards the layers, and the encoder's where it is to be."""
    from torch.distributed.fsdp import fully_shard

    if tower:
        for block in model.model.visual.blocks:
            fully_shard(block)
        fully_shard(model.model.visual)
    for layer in model.model.language_model.layers:
        fully_shard(layer)
    return fully_shard(model)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--model")
    parser.add_argument("--how", choices=("alone", "ddp", "ddp-last", "shard", "shard-tower"), default="alone")
    parser.add_argument("--dummy-media", default="needed")
    parser.add_argument("--checkpointing", action="store_true")
    arguments = parser.parse_args()
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        distributed.init_process_group("gloo")
    model = transformers.AutoModelForImageTextToText.from_pretrained(arguments.model).train()
    if arguments.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    parameters = list(model.parameters())
    if arguments.how.startswith("shard"):
        model = sharded(model, arguments.how == "shard-tower")
        parameters = list(model.parameters())
    elif arguments.how.startswith("ddp"):
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    with isocost.DataLoader(arguments.data, model=arguments.model, global_batch_size=8, microbatches=8 // ranks,
                            shuffle=False, epochs=1, dummy_media=arguments.dummy_media,
                            node=isocost.NodeOptions(balance="in-order", correct=False)) as loader:
        for number, step in enumerate(isocost.steps(loader)):
            loss = torch.zeros(())
            for microbatch in step:
                if arguments.how == "ddp-last":
                    model.require_backward_grad_sync = microbatch.last_of_step  # what DDP's no_sync sets
                share = model(**microbatch).loss
                (share * ranks).backward()  # wrappers average over the ranks
                loss += share.detach()
            norm = torch.nn.utils.clip_grad_norm_(parameters, 1e9)
            norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
            optimizer.step()
            optimizer.zero_grad()
            loss = loader.sum_over_ranks(loss)
            if int(os.environ.get("RANK", 0)) == 0:
                print(json.dumps({"step": number, "loss": loss.item(), "norm": norm.item(),
                                  "dummies": [microbatch.dummies for microbatch in step]}), flush=True)


if __name__ == "__main__":
    main()
