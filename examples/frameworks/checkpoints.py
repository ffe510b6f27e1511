"""Names of checkpoints, of which the file `latest` in their folder names the last one that is whole."""

import os

from torch import distributed


def last_checkpoint(folder):
    """The path of the last checkpoint that was saved to its end; None where there is none."""
    file = os.path.join(folder, "latest")
    if not os.path.exists(file):
        return None
    with open(file, encoding="utf-8") as latest:
        return os.path.join(folder, latest.read())


def is_due(microbatch, arguments):
    """Whether a checkpoint is due once the step that `microbatch` ends is done."""
    return microbatch.last_of_epoch or (microbatch.step + 1) % arguments.save_every == 0


def new_checkpoint(folder, microbatch):
    """The path of the checkpoint of the step that `microbatch` ends. An earlier try at it is overwritten."""
    return os.path.join(folder, f"epoch-{microbatch.epoch}-step-{microbatch.step}")


def is_saved(checkpoint):
    """Makes a checkpoint the last one, once all ranks have saved their parts of it."""
    if distributed.is_initialized():
        distributed.barrier()
    if int(os.environ.get("RANK", 0)) == 0:
        folder, name = os.path.split(checkpoint)
        file = os.path.join(folder, "latest")
        with open(file + ".new", "w", encoding="utf-8") as latest:
            latest.write(name)
        os.replace(file + ".new", file)
