"""Microbatches for the training loop: tensors, arguments of models, losses, and the user's functions."""
