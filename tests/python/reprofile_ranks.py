"""A job of the reprofiling test: two tensor ranks that share a receiver, and measure together when the model changed.
Arguments: data, layout, model profile, and settings as JSON: `fails`: the rank whose measurement fails; `without`: the
rank that has no reprofile=; `opens_only`. Prints a line of JSON with the summary of the node."""

import json
import logging
import sys
import time

import torch
import torch.distributed as distributed

import isocost

data, layout, file, settings = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])


def profile(seconds_a_token):
    read = json.load(open(file))
    read["modules"]["llm"]["per_unit"] = seconds_a_token
    return read


def reprofile():
    if settings.get("fails") == distributed.get_rank():
        raise RuntimeError("the device is busy")
    if "fails" not in settings:
        distributed.all_reduce(torch.ones(1))  # as layers that are divided over the ranks do
    return profile(3e-6)


def train(loader):
    """Trains until the node has decided, a second or more after the start."""
    begin, seconds, steps = time.monotonic(), 1e-6, 0
    for microbatch in loader:
        loader.report(microbatch, {"llm": seconds * microbatch.tensors["input_ids"].numel()})
        if not microbatch.last_of_step:
            continue
        steps += 1
        node = loader.stats().get("node", {})
        box = [3e-6 if steps > 40 and time.monotonic() - begin > 1.2 else 1e-6,
               node.get("reprofiles", 0) + node.get("reprofiles_kept", 0) > 0]
        distributed.broadcast_object_list(box, src=0)
        seconds = box[0]
        if box[1] or steps == 5000:
            return node
    raise AssertionError("the loader ended")


logging.basicConfig(format="%(message)s", level=logging.INFO)
distributed.init_process_group("gloo")
try:
    given = None if settings.get("without") == distributed.get_rank() else reprofile
    with isocost.DataLoader(data, layout=layout, profile=file, global_batch_size=16, endless=True, reprofile=given,
                            node=isocost.NodeOptions(reprofile_budget=1.0)) as opened:
        if settings.get("opens_only"):
            distributed.barrier()
        else:
            print(json.dumps(train(opened)), flush=True)
            distributed.barrier()
except ValueError as error:
    print(distributed.get_rank(), error, flush=True)
    distributed.barrier()
