"""Microbatches as the training loop has them: tensors, arguments of models, losses, and the user's functions."""
