"""A loader's connection to its node, what lives until the loader is closed, and the state of the job."""
