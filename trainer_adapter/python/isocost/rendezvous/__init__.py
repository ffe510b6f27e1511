"""A process among those that train together: its rank, and how it finds the others and their node."""
