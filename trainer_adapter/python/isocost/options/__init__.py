"""The arguments of isocost.DataLoader, checked, as settings of the node."""
