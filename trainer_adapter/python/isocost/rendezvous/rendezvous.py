"""Finds this process's rank, and the endpoint of the job's node, from the initialised process group or a launcher's
environment, so that nothing needs to be configured."""

import collections
import datetime
import json
import os
from typing import Any, Callable, Counter, Dict, Mapping, NamedTuple, Optional, Tuple

from isocost.rendezvous.launcher import launched
from isocost.rendezvous.store_wait import at_work, came_from_work


class Process(NamedTuple):
    """This process among those that train together."""

    rank: int
    world_size: int


class Node(NamedTuple):
    """The node that rank 0 has started.

    Attributes:
        settings: of the node, as rank 0 gave them, by their names.
    """

    endpoint: str
    settings: Dict[str, str]


def this_process(rank: Optional[int], world_size: Optional[int], group: Any = None) -> Tuple[Process, str]:
    """Returns the given numbers, else those of the process group (the default group if it is initialised), else
    those of the launcher, else a single process; and what has said so, where a process group may yet say otherwise,
    else "". Raises ValueError for invalid numbers."""
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size belong together: give both or neither")
    source = ""
    if rank is None or world_size is None:
        rank, world_size, source = _found(group)
    for name, number in (("rank", rank), ("world_size", world_size)):
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise ValueError(f"{name} = {number!r}: must be a whole number")
    if world_size < 1:
        raise ValueError(f"world_size = {world_size}: must be at least 1")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank = {rank}: must be from 0 to world_size - 1 = {world_size - 1}")
    return Process(int(rank), int(world_size)), source


def _found(group: Any) -> Tuple[int, int, str]:
    distributed = torch_distributed()
    if distributed is not None and distributed.is_initialized():
        return distributed.get_rank(group), distributed.get_world_size(group), ""
    found = launched()
    return (0, 1, "no launcher had said otherwise") if found is None else found


def torch_distributed() -> Any:
    """Returns torch.distributed, or None if this Python has none."""
    try:
        import torch.distributed
    except ImportError:
        return None
    return torch.distributed if torch.distributed.is_available() else None


def is_first(group: Any) -> bool:
    """Returns whether this process is the first member of a process group; True without a group."""
    return group is None or torch_distributed().get_rank(group) == 0


class EndpointExchange:
    """Tells the processes that make a loader together the endpoint of their node. A process has one exchange, since it
    counts the loaders that were made."""

    def __init__(self) -> None:
        self._made: Counter[str] = collections.Counter()  # By the ranks of the processes that made them.
        self._own_store: Any = None  # A store that this process runs stays up for ranks that come late.

    def next_key(self, group: Any = None) -> str:
        """Returns a name for a loader that the processes of a group make together. All of them must call it, in the
        same order."""
        distributed = torch_distributed()
        members = ""
        if group is not None:
            ranks = (distributed.get_global_rank(group, i) for i in range(distributed.get_world_size(group)))
            members = ",".join(map(str, ranks))
        self._made[members] += 1
        return f"isocost/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}/{members}/{self._made[members]}"

    def share(self, key: str, here: Process, timeout_s: float, host: Callable[[], str],
              settings: Mapping[str, str]) -> Node:
        """Returns the job's node. Rank 0 calls `host`, which starts a node with rank 0's settings and returns its
        endpoint. The others block until they learn both through the process group's store, or a store at MASTER_ADDR.

        Raises ValueError where the ranks disagree about the world size, TimeoutError where rank 0 neither starts a node
        nor is at work on it, as while it makes tokens, within `timeout_s` seconds, ConnectionError where the store is
        lost meanwhile, and RuntimeError where no store can be found or a rank is on another host than the node.
        """
        if here.world_size == 1:
            return Node(host(), dict(settings))
        store = self._open_store(here, timeout_s)
        if here.rank == 0:
            try:
                with at_work(store, key, timeout_s):
                    endpoint = host()
            except Exception as error:
                store.set(key, json.dumps({"error": str(error)}))
                raise
            store.set(key, json.dumps({"ranks": here.world_size, "endpoint": endpoint, "settings": dict(settings)}))
            return Node(endpoint, dict(settings))
        if not came_from_work(store, key, timeout_s):
            raise TimeoutError(f"rank 0 did not start its loader within {timeout_s:g} s: does every rank make one?")
        return _checked_node(json.loads(store.get(key)), here)

    def store(self, here: Process, timeout_s: float) -> Any:
        """Returns the store of the processes that train together. Returns None if there is one process, and if
        several have neither a process group nor MASTER_ADDR. Blocks for up to `timeout_s` seconds. Raises RuntimeError
        if the store at MASTER_ADDR does not answer."""
        distributed = torch_distributed()
        if distributed is None:
            return None
        if distributed.is_initialized():
            return self._open_store(here, timeout_s) if distributed.get_world_size() > 1 else None
        has_address = "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ
        return self._open_store(here, timeout_s) if has_address and here.world_size > 1 else None

    def _open_store(self, here: Process, timeout_s: float) -> Any:
        distributed = torch_distributed()
        if distributed is None:
            raise RuntimeError("several ranks need torch.distributed to find their node; or run `isocost serve` and "
                               "give its endpoint instead of a directory")
        if distributed.is_initialized():
            return distributed.distributed_c10d._get_default_store()  # noqa: SLF001 (torch has no public way)
        if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
            raise RuntimeError("several ranks without a process group: start them with torchrun, call "
                               "torch.distributed.init_process_group first, or set MASTER_ADDR and MASTER_PORT, as "
                               "under srun and mpirun; or run `isocost serve` and give its endpoint")
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        # torchrun's agent runs the store at MASTER_PORT; without one that port is left to
        # init_process_group.
        agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        if self._own_store is None:
            self._own_store = distributed.TCPStore(address, port if agent else port + 1, here.world_size,
                                                   is_master=here.rank == 0 and not agent,
                                                   timeout=datetime.timedelta(seconds=timeout_s),
                                                   wait_for_workers=False)
        return self._own_store


def _checked_node(told: Mapping[str, Any], here: Process) -> Node:
    """Returns the node that rank 0 has announced."""
    if "error" in told:
        raise RuntimeError(f"rank 0 could not start the loader node: {told['error']}")
    if told["ranks"] != here.world_size:
        raise ValueError(f"world_size = {here.world_size} at rank {here.rank}, but {told['ranks']} at rank 0: "
                         "all ranks must give the same")
    endpoint: str = told["endpoint"]
    if endpoint.startswith("ipc://") and not os.path.exists(endpoint[len("ipc://"):]):
        raise RuntimeError(f"rank 0's loader node listens on {endpoint}, which rank {here.rank} does not see: an "
                           "embedded node serves the ranks of one host; for several hosts run `isocost serve` and give "
                           "its endpoint instead of a directory")
    return Node(endpoint, told["settings"])


endpoints = EndpointExchange()  # One for the process.
