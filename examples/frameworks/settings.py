"""Shared by the examples of this folder: arguments, the device of a rank, a line for each step."""

import argparse
import json
import os

import torch


def argument_parser(description):
    """The arguments that all of them have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of shards, with tokens of `isocost tokenize`")
    parser.add_argument("--model", required=True, help="directory of the model, or its name on the hub")
    parser.add_argument("--checkpoints", required=True, help="folder of checkpoints; a run goes on from the last one")
    parser.add_argument("--global-batch-size", type=int, default=16, help="samples of a step, over all ranks")
    parser.add_argument("--max-tokens", type=int, default=16384, help="of a microbatch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--clip", type=float, default=1.0, help="norm to which a step's gradient is clipped")
    parser.add_argument("--save-every", type=int, default=100, help="steps between checkpoints; an epoch ends with one")
    return parser


def parse_arguments(description):
    arguments = argument_parser(description).parse_args()
    os.makedirs(arguments.checkpoints, exist_ok=True)
    return arguments


def device_of_rank():
    """The rank's CUDA device, which becomes the current one, or the CPU where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    return torch.device("cuda", torch.cuda.current_device())


def print_step(loader, microbatch, loss, norm):
    """Prints the loss of the step that `microbatch` ends, of which `loss` is this rank's share, and its gradient's
    norm."""
    loss = loader.sum_over_ranks(loss).item()
    if loader.rank == 0:
        print(json.dumps({"epoch": microbatch.epoch, "step": microbatch.step, "loss": loss, "norm": float(norm)}),
              flush=True)
