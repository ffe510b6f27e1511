"""One process that makes loaders of models by their names, for hub_names_test.py. Prints a line of JSON for each.

arguments: a directory of shards, and JSON: a list of the loaders' arguments.
"""

import hashlib
import json
import sys

import torch

import isocost


def digest_of(loader):
    """Returns the digest of an epoch's tensors."""
    digest = hashlib.sha256()
    for microbatch in loader:
        for name, value in sorted(microbatch.items()):
            tensor = torch.as_tensor(value)
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def main():
    for options in json.loads(sys.argv[2]):
        try:
            with isocost.DataLoader(sys.argv[1], global_batch_size=8, microbatches=2, shuffle=False, epochs=1,
                                    node=isocost.NodeOptions(correct=False, balance="in-order"), **options) as loader:
                told = {"model": loader.model, "digest": digest_of(loader)}
        except Exception as error:
            told = {"error": type(error).__name__, "message": str(error)}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
