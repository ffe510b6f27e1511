"""Ranks that need the same microbatch, such as those of one tensor- or context-parallel group: one of them loads, and
the others receive from it."""

import pickle
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from isocost.rendezvous import rendezvous


class Replicas:
    """Takes the place of a client: the group's first member has a client, and passes its microbatches on. Uses the
    group from the calling thread, as the training loop does.

    Attributes:
        client: the first member's; None at the others.
    """

    def __init__(self, group: Any, connect: Callable[[], Any]):
        import torch.distributed as distributed

        self._distributed = distributed
        self._group = group
        self._source = distributed.get_global_rank(group, 0)
        self.client: Optional[Any] = None
        error: Optional[Exception] = None
        if rendezvous.is_first(group):
            try:
                self.client = connect()
            except Exception as failure:
                error = failure
        welcome = self.client.welcome() if self.client is not None else None
        shared: List[Any] = self._share([welcome, _picklable(error)])
        if shared[1] is not None:
            raise shared[1]
        self._welcome: Dict[str, Any] = shared[0]

    def next(self, produce: Callable[[], Tuple[Optional[Any], Dict[str, Any]]]) -> Tuple[Optional[Any], Dict[str, Any]]:
        """Returns the result of `produce`, which the first member calls: a raw microbatch and its torch tensors, or
        None and the end of an epoch. Blocks until all members have called it."""
        tensors: Dict[str, Any] = {}
        news: List[Any] = [None, None, None]  # description and specs, end of epoch, error
        if self.client is not None:
            try:
                raw, result = produce()
                news = [None, result, None] if raw is None else [_describe(raw, result), None, None]
                tensors = result
            except Exception as error:
                news = [None, None, _picklable(error)]
        described, end, failure = self._share(news)
        if failure is not None:
            raise failure
        if described is None:
            return None, end
        description, specs = described
        received = {name: self._broadcast(tensors.get(name), dtype, shape) for name, dtype, shape in specs}
        # No pin is needed: for tensors in a shared block, PyTorch's pinned memory serves as well.
        return SimpleNamespace(pin=None, description=description), received

    def welcome(self) -> Dict[str, Any]:
        """Returns the node's welcome message, as the client's `welcome` does."""
        return self._welcome

    def acknowledge(self) -> None:
        if self.client is not None:
            self.client.acknowledge()

    def use(self, epoch: int, step: int, microbatch: int, waited_s: float) -> None:
        if self.client is not None:
            self.client.use(epoch, step, microbatch, waited_s)

    def trained(self, epoch: int, step: int, microbatch: int) -> None:
        if self.client is not None:
            self.client.trained(epoch, step, microbatch)

    def report(self, epoch: int, step: int, microbatch: int, seconds: Sequence[float], forward: float,
               measuring: float) -> None:
        if self.client is not None:
            self.client.report(epoch, step, microbatch, seconds, forward, measuring)

    def send_profile(self, profile: str, took_s: float, failure: str) -> None:
        if self.client is not None:
            self.client.send_profile(profile, took_s, failure)

    def gather(self, value: Any) -> List[Any]:
        """Returns the value of each member. Blocks until all members have called it."""
        values: List[Any] = [None] * self._distributed.get_world_size(self._group)
        self._distributed.all_gather_object(values, value, group=self._group)
        return values

    def close(self) -> None:
        if self.client is not None:
            self.client.close()

    def forget(self) -> None:
        if self.client is not None:
            self.client.forget()

    def bytes_copied(self) -> int:
        return int(self.client.bytes_copied()) if self.client is not None else 0

    def bytes_in_use(self) -> int:
        return int(self.client.bytes_in_use()) if self.client is not None else 0

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


def _describe(raw: Any, tensors: Dict[str, Any]) -> Tuple[Tuple[Any, ...], List[Tuple[str, str, List[int]]]]:
    return raw.description, [(name, str(tensor.dtype).partition(".")[2], list(tensor.shape))
                             for name, tensor in tensors.items()]


def _picklable(error: Optional[Exception]) -> Optional[Exception]:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
