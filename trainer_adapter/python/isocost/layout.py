"""Where in a layout this process stands, and what that means for its loader."""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from isocost import _isocost, rendezvous


class Place(NamedTuple):
    """Of a rank in a layout.

    Attributes:
        module: "encoder" or "llm"; with encoder_place "llm" all ranks are the LLM's.
        data: index of the module's replica.
        stage: of the module's pipeline.
        tensor: index in the stage's tensor-parallel group.
    """

    module: str = "llm"
    data: int = 0
    stage: int = 0
    tensor: int = 0


PlaceLike = Union[Place, Sequence[Any], Mapping[str, Any]]


class Layout(_isocost.Layout):
    """The file that `isocost plan` writes (docs/layout.md), with its keys as attributes. Its ranks in
    order: the encoder's own before the LLM's; within a module the tensor index is the fastest, then
    data, then stage.

    Raises FileNotFoundError; ValueError naming the field that is wrong.
    """

    def __init__(self, file: Union[str, "os.PathLike[str]"]):
        super().__init__(os.fspath(file))
        self.file = os.fspath(file)

    def place_of(self, rank: int) -> Place:
        """Raises ValueError where the layout has no such rank."""
        return Place(*super().place_of(rank))

    @property
    def whole(self) -> bool:
        """Every rank holds the whole model, or a tensor-parallel part of it."""
        return not self.has_encoder_ranks and self.llm["pipeline"] == 1


class Seated(NamedTuple):
    """A process at its place."""

    layout: Layout
    place: Place
    seat: int
    tensor_group: Optional[Any]  # that shares the seat; None: nobody


def take_seat(file: Any, place: Optional[PlaceLike], process: rendezvous.Process, endpoint: bool,
              tensor_group: Any) -> Seated:
    """Where `process` stands: at `place`, else at that of its rank. Makes the layout's tensor-parallel
    groups where they are needed and not given, and then every process has to call it. Raises
    ValueError where place, layout and number of processes do not fit."""
    layout = Layout(file)
    alone = endpoint and place is not None and process.world_size == 1
    if process.world_size != layout.ranks and not alone:
        raise ValueError(f"layout {layout.file} ({layout}) has {layout.ranks} ranks, this job {process.world_size}: "
                         "start as many processes, or plan a layout for them")
    own = layout.place_of(process.rank) if place is None else _place(place)
    seat = layout.seat_of(own)
    degree = (layout.encoder if own.module == "encoder" else layout.llm)["tensor"]
    if tensor_group is None and max(layout.llm["tensor"], layout.encoder["tensor"]) > 1:
        if place is not None and degree > 1:
            raise ValueError("place= with tensor-parallel ranks: give replica_group=, the group of this stage's tensor ranks")
        if place is None:
            tensor_group = _tensor_group(layout, process.rank)
    return Seated(layout, own, seat, tensor_group if degree > 1 else None)


def _place(given: PlaceLike) -> Place:
    try:
        place = Place(**given) if isinstance(given, Mapping) else Place(*given)
    except TypeError:
        raise ValueError(f"place = {given!r}: must have module, data, stage and tensor") from None
    for name, index in zip(Place._fields[1:], place[1:]):
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise ValueError(f"place: {name} = {index!r}: must be a whole number from 0")
    return place


def _tensor_group(layout: Layout, rank: int) -> Any:
    """All processes make all groups, in one order."""
    import torch.distributed as distributed

    if not distributed.is_initialized():
        raise RuntimeError("a layout with tensor-parallel ranks needs torch.distributed.init_process_group: one of them "
                           "loads, and hands on")
    seats: Dict[int, List[int]] = {}
    for other in range(layout.ranks):
        seats.setdefault(layout.seat_of(layout.place_of(other)), []).append(other)
    mine = None
    for members in seats.values():
        if len(members) > 1:
            group = distributed.new_group(members)
            mine = group if rank in members else mine
    return mine
