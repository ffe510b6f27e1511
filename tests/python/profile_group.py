"""One of two tensor ranks: measures its half of a layer together with the other, and prints the profile."""

import json
import sys

import torch
from torch import distributed

import isocost

WIDTH = 32


def whole(lengths):
    layer, rows = torch.nn.Linear(WIDTH, WIDTH), torch.randn(sum(lengths), WIDTH)
    return lambda: layer(rows)


def half(lengths):
    layer, rows = torch.nn.Linear(WIDTH // 2, WIDTH), torch.randn(sum(lengths), WIDTH // 2)

    def forward():
        sums = layer(rows)
        distributed.all_reduce(sums.detach())
        return sums

    return forward


def main():
    distributed.init_process_group("gloo")
    module = isocost.ProfiledModule(whole, (64, 512), 2048, cuts=[isocost.Cut(half, tensor=2)])
    profile = isocost.profile_model(budget_s=1, output=sys.argv[1], progress=False, group=distributed.group.WORLD,
                                    llm=module)
    print(json.dumps(profile))
    distributed.destroy_process_group()


main()
