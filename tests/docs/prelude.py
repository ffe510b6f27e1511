"""Names that the Python blocks of the pages use: torch, a model and its optimizer."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))

from model import TextModel  # noqa: E402

import isocost  # noqa: E402, F401

model = TextModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
