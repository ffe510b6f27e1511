"""Words that all rooms share: the names of modules and tensors, messages, hardware."""
