"""A process among those that train together: its rank, its node, its connection to the node, and the state of the
job."""
