"""The rank that a launcher has given this process, in environment variables."""

import os
from typing import NamedTuple, Optional, Tuple

# The variables of rank and number of processes, in the order in which they count. mpirun starts its processes by srun
# where there is SLURM, one on each host, and they inherit variables that count hosts. A job script of SLURM has
# SLURM_NTASKS and SLURM_PROCID, too, although it is no task; only a step's processes have SLURM_STEP_NUM_TASKS.
_LAUNCHERS: Tuple[Tuple[str, str, str], ...] = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mpirun of MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE"),
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
REMEDY = ("make the loader once the process group is initialised (torch.distributed.init_process_group; in Lightning "
          "in train_dataloader), or give rank= and world_size=")


class Launched(NamedTuple):
    """A process among those that were launched together.

    Attributes:
        source: what says so, for messages.
    """

    rank: int
    world_size: int
    source: str


def launched() -> Optional[Launched]:
    """Returns what torchrun, an mpirun or srun has said, in this order; None if none of them did. Raises
    ValueError if one has said a part, or something else than numbers."""
    for launcher, rank_name, size_name in _LAUNCHERS:
        rank, size = _number(rank_name), _number(size_name)
        if rank is None and size is None:
            continue
        if size is None and rank_name == "SLURM_PROCID" and rank == 0:
            continue  # a job's script
        if rank is None and size == 1:
            rank = 0
        if rank is None or size is None:
            has, lacks = (size_name, rank_name) if rank is None else (rank_name, size_name)
            raise ValueError(f"the environment has {has} = {os.environ[has]} and no {lacks}, so this process's rank is "
                             f"unknown: {launcher} sets both; {REMEDY}")
        return Launched(rank, size, f"{rank_name} and {size_name} of {launcher}")
    return None


def _number(name: str) -> Optional[int]:
    text = os.environ.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"the environment has {name} = {text!r}, which is no number: unset it, or {REMEDY}")
    return int(text)
