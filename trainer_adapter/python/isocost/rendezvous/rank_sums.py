"""Sums over the data-parallel ranks of a job."""

from typing import Any, Optional

from isocost.rendezvous import rendezvous


def sum_over_ranks(tensor: Any, process: rendezvous.Process, data_group: Optional[Any],
                   replica_group: Optional[Any]) -> Any:
    """Returns the sum of a tensor over the ranks that receive different microbatches, equal on all of them. Blocks
    until all have called it.

    Args:
        tensor: a torch tensor, of the same shape on all ranks. The members of a replica group have equal ones.
        process: rank and number of the data-parallel ranks.
        data_group, replica_group: see ResolvedTopology.
    Raises: RuntimeError if torch.distributed is not initialised; ValueError if its processes are not those of the
        job."""
    if process.world_size == 1:
        return tensor
    distributed = rendezvous.torch_distributed()
    if distributed is None or not distributed.is_initialized():
        raise RuntimeError(f"the {process.world_size} ranks add up their sums by torch.distributed: call "
                           "torch.distributed.init_process_group first")
    # A data group has one member of each replica group; all processes together have every member.
    has_replicas = data_group is None and replica_group is not None
    members = distributed.get_world_size(replica_group) if has_replicas else 1
    processes = distributed.get_world_size(data_group)
    if processes != process.world_size * members:
        raise ValueError(f"torch.distributed has {processes} processes, and the loader {process.world_size} ranks: "
                         "make it with topology=(data group, replica group)")
    if has_replicas and not rendezvous.is_first(replica_group):
        tensor = tensor * 0
    summed = tensor.to("cuda" if distributed.get_backend(data_group) == "nccl" else "cpu", copy=True)
    distributed.all_reduce(summed, group=data_group)
    return summed
