"""The microbatches of a job that a process receives: `topology=`, `rank=` and `world_size=` of isocost.DataLoader."""

from typing import Any, NamedTuple, Optional, Tuple

from isocost.layout import Place, checked_place
from isocost.rendezvous import rendezvous

# Dimensions of a device mesh along which ranks train on different samples. Along all others they share them.
DATA_DIMENSIONS = ("dp", "ddp", "fsdp", "data", "dp_replicate", "dp_shard")
FORMS = ("it must be a torch DeviceMesh with named dimensions, the process group of the data-parallel ranks, an "
         "isocost.Place, or the pair (data group, replica group)")


class ResolvedTopology(NamedTuple):
    """A process among those that train together.

    Attributes:
        process: rank and number of the processes that receive different microbatches; with a layout, of all processes.
        data_group: the process group whose members make the loader together; None: all processes.
        replica_group: the process group whose members receive the same microbatches; None: only this process.
        place: the place in the layout; None: that of the rank.
        source: what has said rank and number, where a process group may yet say otherwise; else "".
    """

    process: rendezvous.Process
    data_group: Optional[Any]
    replica_group: Optional[Any]
    place: Optional[Place]
    source: str = ""


def resolve(topology: Any, rank: Optional[int], world_size: Optional[int], has_layout: bool) -> ResolvedTopology:
    """Returns the topology of this process, from the loader's arguments.

    Raises TypeError for a topology of none of the four forms. Raises ValueError if the topology and the other
    arguments contradict each other, or this process is in none of the topology's groups.
    """
    if _is_mesh(topology):
        if has_layout:
            raise ValueError("topology= is a device mesh, and layout= already says which ranks share microbatches: "
                             "leave topology out, or give this process's isocost.Place")
        _refuse_numbers("a device mesh", rank, world_size)
        process, replica_group = _in_mesh(topology)
        return ResolvedTopology(process, None, replica_group, None)
    first, replica_group = _parts(topology)
    place = first if isinstance(first, Place) else None
    if place is not None and not has_layout:
        raise ValueError(f"topology= has {place}, a place in a layout: give layout=, too")
    data_group = None if place is not None else first
    if data_group is not None:
        _refuse_numbers("a data group", rank, world_size)
    process, source = rendezvous.this_process(rank, world_size, data_group)
    return ResolvedTopology(process, data_group, replica_group, place, source if place is None else "")


def _parts(topology: Any) -> Tuple[Any, Any]:
    """Returns the place or data group, and the replica group."""
    if topology is None:
        return None, None
    if isinstance(topology, Place):
        return checked_place(topology), None
    if not isinstance(topology, (tuple, list)):
        return _group(topology, topology, "group"), None
    if len(topology) != 2:
        raise TypeError(f"topology = {topology!r}: {FORMS}")
    first, replicas = topology
    return (checked_place(first) if isinstance(first, Place) else _group(first, topology, "data group"),
            _group(replicas, topology, "replica group"))


def _group(group: Any, topology: Any, name: str) -> Any:
    if group is None:
        return None
    distributed = rendezvous.torch_distributed()
    if distributed is not None:
        if group is distributed.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(f"topology: this process is not in the {name}: give each process the group that it "
                             "belongs to")
        if isinstance(group, distributed.ProcessGroup):
            return group
    raise TypeError(f"topology = {topology!r}: {FORMS}")


def _refuse_numbers(what: str, rank: Optional[int], world_size: Optional[int]) -> None:
    if rank is not None or world_size is not None:
        raise ValueError(f"topology= is {what}, which gives rank and world_size: leave these two out")


def _is_mesh(topology: Any) -> bool:
    return hasattr(topology, "mesh_dim_names") and hasattr(topology, "get_coordinate")


def _in_mesh(mesh: Any) -> Tuple[rendezvous.Process, Optional[Any]]:
    """Returns this process's data-parallel rank and number of ranks, and the group that shares its samples; None: no
    group does."""
    names = mesh.mesh_dim_names
    if not names:
        raise ValueError("topology: the device mesh has no dimension names: make it with mesh_dim_names, e.g. ('dp', "
                         "'tp')")
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ValueError("topology: this process is not in the device mesh")
    rank, size = 0, 1
    for name, extent, at in zip(names, mesh.shape, coordinate):
        if name in DATA_DIMENSIONS:
            rank, size = rank * extent + at, size * extent
    shared = tuple(name for name, extent in zip(names, mesh.shape) if name not in DATA_DIMENSIONS and extent > 1)
    process = rendezvous.Process(rank, size)
    if not shared:
        return process, None
    if len(shared) == 1:
        return process, mesh.get_group(shared[0])
    return process, mesh[shared]._flatten().get_group()  # noqa: SLF001 (torch has no public way)
