"""Ranks that need the same microbatch, as those of one tensor- or context-parallel group do: one of
them loads, the others receive from it."""

import pickle
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

# Dimensions of a device mesh along which ranks train on different samples; along all others they
# share them.
DATA_DIMENSIONS = ("dp", "ddp", "fsdp", "data", "dp_replicate", "dp_shard")
_FIELDS = ("samples", "position", "last_of_step", "global_label_tokens", "label_tokens", "plan_hash",
           "profile_wanted", "cost_model_state", "routes", "predicted", "waited_s")


def mesh_place(mesh: Any) -> Tuple[int, int, Any]:
    """Data-parallel rank and size of this process in a torch DeviceMesh with named dimensions, and
    the group that shares its samples (None: nobody). Raises ValueError without names."""
    names = mesh.mesh_dim_names
    if not names:
        raise ValueError("device_mesh has no dimension names: make it with mesh_dim_names, e.g. ('dp', 'tp')")
    rank, size = 0, 1
    for name, extent, at in zip(names, mesh.shape, mesh.get_coordinate()):
        if name in DATA_DIMENSIONS:
            rank, size = rank * extent + at, size * extent
    shared = tuple(name for name, extent in zip(names, mesh.shape) if name not in DATA_DIMENSIONS and extent > 1)
    if not shared:
        return rank, size, None
    return rank, size, mesh.get_group(shared[0]) if len(shared) == 1 else mesh[shared]._flatten().get_group()


class Replicas:
    """In place of a client: the group's first member has one, and passes on what it gives. Uses the
    group from the thread that calls, as the training loop does."""

    def __init__(self, group: Any, connect: Callable[[], Any]):
        import torch.distributed as distributed

        self._distributed = distributed
        self._group = group
        self._source = distributed.get_global_rank(group, 0)
        self.client: Optional[Any] = None  #: the first member's
        error: Optional[Exception] = None
        if is_first(group):
            try:
                self.client = connect()
            except Exception as failed:
                error = failed
        self._welcome, failed = self._share([self.client.welcome() if self.client is not None else None,
                                             _picklable(error)])
        if failed is not None:
            raise failed

    def next(self, produce: Callable[[], Tuple[Optional[Any], Dict[str, Any]]]) -> Tuple[Optional[Any], Dict[str, Any]]:
        """What `produce`, called by the first member, returns: a raw microbatch and its torch tensors,
        or None and the end of an epoch."""
        tensors: Dict[str, Any] = {}
        news: List[Any] = [None, None, None]  # fields and specs, end of epoch, error
        if self.client is not None:
            try:
                raw, result = produce()
                news = [None, result, None] if raw is None else [_describe(raw, result), None, None]
                tensors = result
            except Exception as error:
                news = [None, None, _picklable(error)]
        description, end, error = self._share(news)
        if error is not None:
            raise error
        if description is None:
            return None, end
        fields, specs = description
        return SimpleNamespace(**fields), {name: self._broadcast(tensors.get(name), dtype, shape)
                                           for name, dtype, shape in specs}

    def welcome(self) -> Dict[str, Any]:
        return self._welcome

    def report(self, epoch: int, step: int, microbatch: int, seconds: Sequence[float], forward: float) -> None:
        if self.client is not None:
            self.client.report(epoch, step, microbatch, seconds, forward)

    def send_profile(self, profile: str) -> None:
        if self.client is not None:
            self.client.send_profile(profile)

    def close(self) -> None:
        if self.client is not None:
            self.client.close()

    def forget(self) -> None:
        if self.client is not None:
            self.client.forget()

    def bytes_copied(self) -> int:
        return self.client.bytes_copied() if self.client is not None else 0

    def bytes_in_use(self) -> int:
        return self.client.bytes_in_use() if self.client is not None else 0

    def _share(self, objects: List[Any]) -> List[Any]:
        self._distributed.broadcast_object_list(objects, src=self._source, group=self._group)
        return objects

    def _broadcast(self, tensor: Optional[Any], dtype: str, shape: List[int]) -> Any:
        import torch

        if tensor is None:
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        if self._distributed.get_backend(self._group) == "nccl":
            tensor = tensor.cuda()
        self._distributed.broadcast(tensor, src=self._source, group=self._group)
        return tensor


def is_first(group: Any) -> bool:
    import torch.distributed

    return torch.distributed.get_rank(group) == 0


def _describe(raw: Any, tensors: Dict[str, Any]) -> Tuple[Dict[str, Any], List[Tuple[str, str, List[int]]]]:
    fields = {name: getattr(raw, name) for name in _FIELDS}
    return fields, [(name, str(tensor.dtype).partition(".")[2], list(tensor.shape))
                    for name, tensor in tensors.items()]


def _picklable(error: Optional[Exception]) -> Optional[Exception]:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
