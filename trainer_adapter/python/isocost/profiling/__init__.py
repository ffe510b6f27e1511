"""Model profiles: the measured cost of a model's modules over a grid of loads."""
