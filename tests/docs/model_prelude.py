"""Names that the Python blocks for a model of transformers use: torch, the model in DIR and its optimizer."""

import torch
import transformers

import isocost  # noqa: F401

model = transformers.AutoModelForImageTextToText.from_pretrained("DIR")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
