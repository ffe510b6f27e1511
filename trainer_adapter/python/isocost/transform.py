"""Python code of the user between the client and the training loop, in background threads."""

import concurrent.futures
import os
import queue
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from isocost.loss import IGNORED_LABEL
from isocost.microbatch import MODULES, Microbatch, argument_name, torch_tensors


class Sample:
    """What `transform=` is called with.

    Attributes:
        id: number of the sample in the data set.
        weight: in the loss; 0 for a repeat.
        text: the sample's text parts, joined.
        tensors: {name: torch tensor}, this sample's rows of the microbatch's tensors; not to be
            written into.
    """

    __slots__ = ("id", "weight", "tensors")

    def __init__(self, sample_id: int, weight: float, tensors: Dict[str, Any]):
        self.id = sample_id
        self.weight = weight
        self.tensors = tensors

    @property
    def text(self) -> str:
        tokens = self.tensors["input_ids"]
        return bytes(tokens[tokens < 256].tolist()).decode()


Transform = Callable[[Sample], Optional[Mapping[str, Any]]]


def cut(raw: Any, tensors: Dict[str, Any]) -> List[Sample]:
    """The samples of a microbatch, views of its tensors."""
    names = [argument_name(name) for name, _tensor in raw.tensors[:raw.announced]]
    first = dict.fromkeys(names, 0)
    samples = []
    rows = iter(raw.rows)
    for sample_id, weight, _labels in raw.samples:
        parts = {}
        for name in names:
            count = next(rows)
            if count:
                parts[name] = tensors[name][first[name]:first[name] + count]
            first[name] += count
        samples.append(Sample(sample_id, weight, parts))
    return samples


def apply(transform: Transform, sample: Sample, label_tokens: int) -> Dict[str, Any]:
    """The sample's tensors after the transform. Raises ValueError that names the sample where its
    lengths contradict each other or the plan."""
    try:
        changes = transform(sample)
    except Exception as error:
        raise RuntimeError(f"transform= failed for sample {sample.id}: {type(error).__name__}: {error}") from error
    tensors = dict(sample.tensors, **(changes or {}))
    if changes and "input_ids" in changes:
        _complete_text(sample, tensors, changes)
    labels = int((tensors["labels"] != IGNORED_LABEL).sum())
    if labels != label_tokens:
        raise ValueError(f"transform= gives sample {sample.id} {labels} label tokens where the plan counts {label_tokens}: "
                         "announce the count by lengths=, since the loss is divided by that of the whole global batch")
    return tensors


def _complete_text(sample: Sample, tensors: Dict[str, Any], changes: Mapping[str, Any]) -> None:
    import torch

    tokens = len(tensors["input_ids"])
    if "labels" not in changes:
        ids = tensors["input_ids"]
        tensors["labels"] = torch.cat([ids[1:], ids.new_full((min(1, tokens),), IGNORED_LABEL)])
    if "position_ids" not in changes:
        tensors["position_ids"] = torch.arange(tokens)
    tensors["lengths"] = torch.tensor([tokens], dtype=torch.int32)
    for name in ("labels", "position_ids"):
        if len(tensors[name]) != tokens:
            raise ValueError(f"transform= gives sample {sample.id} {tokens} input_ids and {len(tensors[name])} {name}: "
                             "they must be as many")


def pack(samples: List[Tuple[Sample, Dict[str, Any]]]) -> Dict[str, Any]:
    """The tensors of several samples, one after the other, and what follows from them."""
    import torch

    columns: Dict[str, List[Any]] = {}
    for _sample, tensors in samples:
        for name, tensor in tensors.items():
            columns.setdefault(name, []).append(tensor)
    packed = {name: torch.cat(column) for name, column in columns.items()}
    for module in MODULES:
        lengths = packed.get(argument_name(f"{module}.lengths"))
        if lengths is not None:
            sums = torch.cat([lengths.new_zeros(1), lengths.cumsum(0, dtype=torch.int32)])
            packed[argument_name(f"{module}.cu_seqlens")] = sums
    packed["loss_weights"] = torch.cat([torch.full((len(tensors["input_ids"]),), sample.weight)
                                        for sample, tensors in samples])
    return packed


class Pipeline:
    """Takes microbatches ahead of the loop and runs the user's functions on them; gives the results
    in order. `close` ends its threads, after the client was closed."""

    def __init__(self, client: Any, transform: Optional[Transform], collate: Optional[Callable[[Microbatch], Any]],
                 pin: bool, ahead: int):
        self._client = client
        self._transform = transform
        self._collate = collate
        self._pin = pin
        self._pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="isocost-transform")
        self._ready: "queue.Queue[Any]" = queue.Queue(ahead)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._pull, name="isocost-pipeline", daemon=True)
        self._thread.start()

    def next(self) -> Tuple[Optional[Microbatch], Any]:
        """A microbatch and what `collate` made of it; at the end of an epoch None, and that end."""
        item = self._ready.get()
        if isinstance(item, BaseException):
            self._ready.put(item)  # again for who asks again
            raise item
        raw, parts = item
        if raw is None:
            return None, parts
        tensors = parts if isinstance(parts, dict) else pack([(sample, part.result()) for sample, part in parts])
        if self._pin:
            tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
        microbatch = Microbatch(raw, tensors)
        return microbatch, microbatch if self._collate is None else self._collated(microbatch)

    def close(self) -> None:
        self._closing.set()
        while self._thread.is_alive():
            for _ in self._drained():
                pass
            self._thread.join(0.01)
        self._pool.shutdown(cancel_futures=True)

    def _collated(self, microbatch: Microbatch) -> Any:
        assert self._collate is not None
        try:
            return self._pool.submit(self._collate, microbatch).result()
        except Exception as error:
            raise RuntimeError(f"collate= failed for {microbatch!r}: {type(error).__name__}: {error}") from error

    def _drained(self) -> Iterator[Any]:
        try:
            while True:
                yield self._ready.get_nowait()
        except queue.Empty:
            return

    def _pull(self) -> None:
        try:
            while not self._closing.is_set():
                raw = self._client.next()
                if raw is not None:
                    self._put((raw, self._parts(raw)))
                    continue
                end = self._client.epoch_end()
                self._put((None, end))
                if end["last_epoch"]:
                    return
        except BaseException as error:  # handed to the loop
            self._put(error)

    def _parts(self, raw: Any) -> Union[Dict[str, Any], List[Tuple[Sample, "concurrent.futures.Future[Any]"]]]:
        """The samples, each with what becomes of it; without a transform the tensors as they are."""
        tensors = torch_tensors(raw, False)
        if self._transform is None:
            return tensors
        return [(sample, self._pool.submit(apply, self._transform, sample, entry[2]))
                for sample, entry in zip(cut(raw, tensors), raw.samples)]

    def _put(self, item: Any) -> None:
        while not self._closing.is_set():
            try:
                return self._ready.put(item, timeout=0.1)
            except queue.Full:
                continue
