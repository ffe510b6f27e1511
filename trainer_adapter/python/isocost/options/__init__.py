"""What isocost.DataLoader is called with, checked, as settings of the node."""
