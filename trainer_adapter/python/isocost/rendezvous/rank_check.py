"""Compares a loader's rank with the process group that was initialised after the loader was made."""

from isocost.rendezvous.launcher import REMEDY
from isocost.rendezvous.rendezvous import Process, torch_distributed


class RankCheck:
    """Whether a loader that was made without a process group has the rank that this process has in the one that trains.

    A launcher inside a framework (Lightning's) says nothing until it has started the processes: a loader made before
    takes itself for the only one, and each process would train on all samples."""

    def __init__(self, process: Process, source: str):
        """`source` says what gave the rank; "": the arguments or the process group itself, so that nothing is
        compared."""
        self._process = process
        self._source = source

    def check(self) -> None:
        """Raises ValueError if there is a process group by now and its numbers differ. Call it before a microbatch
        is used."""
        if not self._source:
            return
        distributed = torch_distributed()
        if distributed is None or not distributed.is_initialized():
            return
        here = Process(distributed.get_rank(), distributed.get_world_size())
        if here != self._process:
            raise ValueError(
                f"the loader was made as rank {self._process.rank} of {self._process.world_size} ({self._source}), and "
                f"this process is rank {here.rank} of {here.world_size} of the process group that was initialised "
                f"since: ranks would train on the same samples, or wait for others. Close this loader and {REMEDY}")
        self._source = ""
