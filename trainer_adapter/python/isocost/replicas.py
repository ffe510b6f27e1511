"""Ranks that need the same microbatch, as those of one tensor- or context-parallel group do: one of
them loads, the others receive from it."""

from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

# Dimensions of a device mesh along which ranks train on different samples; along all others they
# share them.
DATA_DIMENSIONS = ("dp", "ddp", "fsdp", "data", "dp_replicate", "dp_shard")
_FIELDS = ("samples", "position", "announced", "rows", "microbatches", "last_of_step", "global_label_tokens",
           "label_tokens", "tensor_bytes", "plan_hash", "predicted", "waited_s")


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
    """In place of a client: the group's first member has one, and passes on what it gives."""

    def __init__(self, group: Any, connect: Callable[[], Any]):
        import torch.distributed as distributed

        self._distributed = distributed
        self._group = group
        self._source = distributed.get_global_rank(group, 0)
        self._client: Optional[Any] = None
        self._end: Optional[Dict[str, Any]] = None
        error: Optional[Exception] = None
        if is_first(group):
            try:
                self._client = connect()
            except Exception as failed:
                error = failed
        self._welcome, failed = self._share([self._client.welcome() if self._client is not None else None, error])
        if failed is not None:
            raise failed

    def next(self) -> Optional[Any]:
        raw: Optional[Any] = None
        news: List[Any] = [None, None, None]  # fields and tensors, end of epoch, error
        if self._client is not None:
            try:
                raw = self._client.next()
                news = [_describe(raw), None, None] if raw is not None else [None, self._client.epoch_end(), None]
            except Exception as error:
                news = [None, None, error]
        from torch.utils.dlpack import to_dlpack

        description, self._end, error = self._share(news)
        if error is not None:
            raise error
        if description is None:
            return None
        fields, specs = description
        tensors = [self._broadcast(raw, i, spec) for i, spec in enumerate(specs)]
        return SimpleNamespace(capsules=lambda: [(name, to_dlpack(tensor)) for name, tensor in tensors],
                               tensors=tensors, **fields)

    def welcome(self) -> Dict[str, Any]:
        return self._welcome

    def epoch_end(self) -> Optional[Dict[str, Any]]:
        return self._end

    def report(self, epoch: int, step: int, microbatch: int, seconds: Sequence[float]) -> None:
        if self._client is not None:
            self._client.report(epoch, step, microbatch, seconds)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def forget(self) -> None:
        if self._client is not None:
            self._client.forget()

    def bytes_copied(self) -> int:
        return self._client.bytes_copied() if self._client is not None else 0

    def bytes_in_use(self) -> int:
        return self._client.bytes_in_use() if self._client is not None else 0

    def _share(self, objects: List[Any]) -> List[Any]:
        self._distributed.broadcast_object_list(objects, src=self._source, group=self._group)
        return objects

    def _broadcast(self, raw: Optional[Any], index: int, spec: Tuple[str, str, List[int]]) -> Tuple[str, Any]:
        import torch
        from torch.utils.dlpack import from_dlpack

        name, dtype, shape = spec
        on_gpu = self._distributed.get_backend(self._group) == "nccl"
        tensor = from_dlpack(raw.tensors[index][1]) if raw is not None else torch.empty(shape,
                                                                                       dtype=getattr(torch, dtype))
        if on_gpu:
            tensor = tensor.cuda()
        self._distributed.broadcast(tensor, src=self._source, group=self._group)
        return name, tensor


def is_first(group: Any) -> bool:
    import torch.distributed

    return torch.distributed.get_rank(group) == 0


def _describe(raw: Any) -> Tuple[Dict[str, Any], List[Tuple[str, str, List[int]]]]:
    fields = {name: getattr(raw, name) for name in _FIELDS}
    return fields, [(name, tensor.dtype, list(tensor.shape)) for name, tensor in raw.tensors]
