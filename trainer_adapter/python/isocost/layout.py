"""A layout, and this process's place in it."""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from isocost import _isocost
from isocost.base.counted import counted
from isocost.rendezvous import rendezvous


class Place(NamedTuple):
    """The coordinates of a rank in a layout.

    Attributes:
        module: "encoder" or "llm". With encoder_place "llm" all ranks belong to the LLM.
        data: index of the module's data-parallel replica.
        stage: index of the stage in the module's pipeline.
        tensor: index in the stage's tensor-parallel group.
    """

    module: str = "llm"
    data: int = 0
    stage: int = 0
    tensor: int = 0


PlaceLike = Union[Place, Sequence[Any], Mapping[str, Any]]


class Layout(_isocost.Layout):
    """The file that `isocost plan` writes (docs/layout.md), with its keys as attributes.

    Ranks are numbered in this order: the encoder's own ranks come before the LLM's; within a module the tensor index
    changes fastest, then data, then stage. Two layouts are equal if their keys are, whatever their files. Layouts can
    be copied and pickled.

    Attributes:
        file: the path as given.
        encoder, llm: {"tensor", "pipeline", "data", "shard", "reshard", "layers", "train", "adapter_rank",
            "recompute"}; reshard is a bool; layers is a list, empty if the file leaves it out; train is "all",
            "adapters" or "none"; recompute is "none", "selective" or "full", or a list with one of these for each
            stage.
        encoder_place: "own" or "llm".
        has_encoder_ranks: True where encoder_place is "own".
        microbatches, chunks, encoder_ahead: int.
        schedule: "gpipe", "1f1b", "interleaved" or "zb-h1".
        coupled: bool.
        optimizer: "sharded" or "replicated".
        activation_caps: {"encoder_bytes", "llm_bytes"}, or None.
        interconnect: str; "" where the file leaves it out.
        ranks: number of processes.
        receivers: number of processes that receive microbatches; the others share those of their tensor-parallel group.
        fingerprint: int, equal for equal layouts.

    Raises: FileNotFoundError or another OSError where the file cannot be read; ValueError that names the field that is
        wrong.
    """

    def __init__(self, file: Union[str, os.PathLike[str]]):
        super().__init__(os.fsdecode(file))
        self.file = os.fsdecode(file)

    def place_of(self, rank: int) -> Place:
        """Returns the place of a rank. Raises ValueError if the layout has no such rank."""
        if not _is_index(rank) or rank >= self.ranks:
            raise ValueError(f"rank {rank!r} has no place in a layout of {counted(self.ranks, 'rank')} ({self}): "
                             f"it must be a whole number from 0 to {self.ranks - 1}")
        return Place(*super().place_of(rank))

    def rank_of(self, place: PlaceLike) -> int:
        """Returns the rank at a place. Raises ValueError if the layout has no such place."""
        return super().rank_of(self.checked(place))

    def receiver_of(self, place: PlaceLike) -> int:
        """Returns the number of the receiver whose microbatches the rank at a place uses. Raises ValueError if the
        layout has no such place."""
        return super().receiver_of(self.checked(place))

    def checked(self, given: PlaceLike) -> Place:
        """Returns the place. Raises ValueError if the layout has no such place."""
        place = checked_place(given)
        degrees = self.encoder if place.module == "encoder" else self.llm
        for name, index, count in (("data", place.data, degrees["data"]), ("stage", place.stage, degrees["pipeline"]),
                                   ("tensor", place.tensor, degrees["tensor"])):
            if index >= count:
                raise ValueError(f"{place} is outside the layout ({self}): {name} is 0 to {count - 1} there")
        return place

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<isocost.Layout {self.file!r}: {self}>"

    def __reduce__(self) -> Any:
        return _unpickled, (self.to_json(), self.file)

    @property
    def whole(self) -> bool:
        """Whether every rank holds the whole model, or a tensor-parallel part of it."""
        return not self.has_encoder_ranks and self.llm["pipeline"] == 1


def _unpickled(json: str, file: str) -> Layout:
    """Restores a pickled layout without its file."""
    layout = Layout.__new__(Layout)
    _isocost.Layout.__init__(layout, json=json)
    layout.file = file
    return layout


class PlaceInLayout(NamedTuple):
    """A layout, with the place of this process in it."""

    layout: Layout
    place: Place
    receiver: int
    tensor_group: Optional[Any]  # The process group that shares the receiver; None: only this process.

    @property
    def chunks(self) -> int:
        """Number of chunks of the model that this process holds."""
        return int(self.layout.chunks) if self.place.module == "llm" else 1


def resolve_place(file: Any, place: Optional[PlaceLike], process: rendezvous.Process, endpoint: bool,
              tensor_group: Any) -> PlaceInLayout:
    """Returns the place of `process`: `place`, else that of its rank. Makes the layout's tensor-parallel groups where
    they are needed and not given; then every process must call it. Raises ValueError if place, layout and number of
    processes do not fit."""
    layout = Layout(file)
    alone = endpoint and place is not None and process.world_size == 1
    if process.world_size != layout.ranks and not alone:
        raise ValueError(f"layout {layout.file} ({layout}) has {counted(layout.ranks, 'rank')}, this job "
                         f"{process.world_size}: start as many processes, or plan a layout for them")
    own = layout.place_of(process.rank) if place is None else layout.checked(place)
    receiver = layout.receiver_of(own)
    degree = (layout.encoder if own.module == "encoder" else layout.llm)["tensor"]
    if tensor_group is not None:
        _check_tensor_group(tensor_group, own, degree)
    elif max(layout.llm["tensor"], layout.encoder["tensor"]) > 1:
        if place is not None and degree > 1:
            raise ValueError("topology= is a place, and its stage has tensor-parallel ranks: give the pair (place, "
                             "replica group), with the group of this stage's tensor ranks")
        if place is None:
            tensor_group = _tensor_group(layout, process.rank)
    return PlaceInLayout(layout, own, receiver, tensor_group if degree > 1 else None)


def checked_place(given: PlaceLike) -> Place:
    """Returns the place that `given` describes. Raises ValueError if a field is invalid."""
    try:
        if isinstance(given, (str, bytes)):  # the characters of a string are no fields
            raise TypeError
        place = Place(**given) if isinstance(given, Mapping) else Place(*given)
    except TypeError:
        raise ValueError(f"place = {given!r}: must be an isocost.Place, or have module, data, stage and tensor as "
                         "(\"llm\", 0, 0, 0) has") from None
    if place.module not in ("encoder", "llm"):
        raise ValueError(f"place: module {place.module!r} is neither 'encoder' nor 'llm'")
    for name, index in zip(Place._fields[1:], place[1:]):
        if not _is_index(index):
            raise ValueError(f"place: {name} = {index!r}: must be a whole number from 0")
    return place


def _is_index(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _check_tensor_group(group: Any, place: Place, degree: int) -> None:
    import torch.distributed as distributed

    size = distributed.get_world_size(group)
    if size != degree:
        raise ValueError(f"topology: the replica group has {counted(size, 'rank')}, and the layout's tensor degree is "
                         f"{degree} at {place}: give the group of this stage's tensor ranks"
                         + (", or leave it out" if degree == 1 else ""))


def _tensor_group(layout: Layout, rank: int) -> Any:
    """Makes the groups of all stages, since every process must make all groups in the same order. Returns this rank's
    group."""
    import torch.distributed as distributed

    if not distributed.is_initialized():
        raise RuntimeError("a layout with tensor-parallel ranks needs torch.distributed.init_process_group: one of "
                           "them loads, and hands on")
    receivers: Dict[int, List[int]] = {}
    for other in range(layout.ranks):
        receivers.setdefault(layout.receiver_of(layout.place_of(other)), []).append(other)
    mine = None
    for members in receivers.values():
        if len(members) > 1:
            group = distributed.new_group(members)
            mine = group if rank in members else mine
    return mine
