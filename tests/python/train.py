"""A job of the resume test: one rank of a training run that saves its state after each step and is
killed at any moment. Arguments: data, file of the state and of what was trained, epochs, options of the node as a
JSON object.

A step counts when its state is saved, as in a checkpoint: rank 0 writes both in one rename.
"""

import json
import os
import sys

import isocost

data, state_file, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3])


def all_ids(ids):
    """The samples of all ranks."""
    if loader_options["world_size"] == 1:
        return ids
    gathered = [None] * loader_options["world_size"]
    torch.distributed.all_gather_object(gathered, ids)
    return [sample for part in gathered for sample in part]


def save(state):
    if loader_options["rank"] == 0:
        with open(state_file + ".new", "w") as out:
            json.dump(state, out)
        os.rename(state_file + ".new", state_file)


loader_options = {"node": isocost.NodeOptions(**json.loads(sys.argv[4])),
                  "rank": int(os.environ.get("RANK", 0)), "world_size": int(os.environ.get("WORLD_SIZE", 1))}
import torch  # noqa: E402

if loader_options["world_size"] > 1:
    torch.distributed.init_process_group("gloo")
saved = {"loader": None, "steps": []}
if os.path.exists(state_file):
    with open(state_file) as file:
        saved = json.load(file)
if loader_options["world_size"] > 1:
    torch.distributed.barrier()  # a state at the end of an epoch is followed by the next without any exchange
with isocost.DataLoader(data, global_batch_size=8, microbatches=2, epochs=epochs, **loader_options) as loader:
    if saved["loader"] is not None:
        loader.load_state_dict(saved["loader"])
    while loader.state_dict()["epoch"] < epochs:
        ids = []
        for microbatch in loader:
            ids += [sample for sample, weight in zip(microbatch.sample_ids, microbatch.sample_weights) if weight > 0]
            if microbatch.last_of_step:
                saved["steps"].append([microbatch.epoch, microbatch.step, all_ids(ids)])
                saved["loader"] = loader.state_dict(after=microbatch)
                save(saved)
                ids = []
        saved["loader"] = loader.state_dict()
        save(saved)
