"""Runs the user's functions between the client and the training loop, in background threads."""

import json
import queue
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from isocost import _isocost
from isocost.base.counted import counted
from isocost.base.modules import MODULES
from isocost.base.tensor_names import (
    DERIVED,
    IGNORED_LABEL,
    INPUT_IDS,
    LABELS,
    LENGTHS,
    LOSS_WEIGHTS,
    MODULE_CU_SEQLENS,
    MODULE_LENGTHS,
    POSITION_IDS,
    RECIPE,
)
from isocost.microbatches.microbatch import torch_tensors
from isocost.microbatches.transform_threads import Result, Workers


class Part(NamedTuple):
    """One medium of a sample.

    Attributes:
        modality: "image", "video", "audio" or "text".
        grid: rows and columns of patches of an image, or of each frame of a video; None for other modalities.
        timestamps: list of float, the seconds in the video at which its frames were taken; empty for other modalities.
    """

    modality: str
    grid: Optional[Tuple[int, int]]
    timestamps: List[float]


class RawSample(NamedTuple):
    """A sample as the extension module describes it: `samples` of its Microbatch."""

    id: int
    weight: float
    label_tokens: int
    key: str
    json: bytes
    parts: List[Tuple[str, int, int, List[float]]]


class Sample:
    """A sample, as `transform=` receives it.

    Attributes:
        id: int, the sample's number in the data set.
        key: str, "SHARD/KEY": the shard's file name, and the name that the sample's members share in it.
        weight: float, the sample's weight in the loss; 0 for a repeat.
        parts: list of Part, the sample's media in the order in which the model sees them.
        tensors: {name: torch tensor}, this sample's rows of the microbatch's tensors; not to be written into.
    """

    __slots__ = ("_json", "id", "key", "parts", "tensors", "weight")

    def __init__(self, raw: RawSample, tensors: Dict[str, Any]):
        self.id = raw.id
        self.key = raw.key
        self.weight = raw.weight
        self.parts = [Part(modality, (rows, columns) if rows else None, timestamps)
                      for modality, rows, columns, timestamps in raw.parts]
        self.tensors = tensors
        self._json = raw.json

    @property
    def json(self) -> Optional[Dict[str, Any]]:
        """The sample's JSON part, parsed again each time. None if it has none or one of more than 64 KiB, and
        on a stage of a layout that neither embeds tokens nor predicts labels."""
        return dict(json.loads(self._json)) if self._json else None

    @property
    def text(self) -> str:
        """The sample's text parts, joined. A character that the recipe's limit cut is left out. Raises ValueError on a
        stage that receives no text; with a layout of several stages the LLM's first one does."""
        tokens = self.tensors.get(INPUT_IDS)
        if tokens is None:
            raise ValueError("this stage has no text: the LLM's first one receives input_ids")
        return bytes(tokens[tokens < 256].tolist()).decode(errors="ignore")

    def __repr__(self) -> str:
        return f"<isocost.Sample {self.id}: {self.key!r}, {', '.join(self.tensors)}>"


Transform = Callable[[Sample], Optional[Mapping[str, Any]]]


def cut(raw: Any, tensors: Dict[str, Any]) -> List[Tuple[Sample, int]]:
    """Returns the samples of a microbatch, as views of its tensors, and the label tokens that the plan counts in
    each."""
    names = [_isocost.argument_name(name) for name, _tensor in raw.tensors[:raw.announced]]
    first = dict.fromkeys(names, 0)
    samples = []
    rows = iter(raw.rows)
    for entry in raw.samples:
        described = RawSample(*entry)
        parts = {}
        for name in names:
            count = next(rows)
            if count:
                parts[name] = tensors[name][first[name]:first[name] + count]
            first[name] += count
        samples.append((Sample(described, parts), described.label_tokens))
    return samples


def apply(transform: Transform, sample: Sample, label_tokens: int, whole: bool) -> Dict[str, Any]:
    """Returns the sample's tensors after the transform. Raises TypeError or ValueError that names the sample where the
    transform returned something else, or where its lengths contradict each other, the plan, or the tensors of other
    stages."""
    if sample.id == _isocost.dummy_sample:
        return dict(sample.tensors)
    try:
        changes = transform(sample)
    except Exception as error:
        raise RuntimeError(f"transform= failed for sample {sample.id} ({sample.key}): {type(error).__name__}: "
                           f"{error}") from error
    _check(sample, changes)
    tensors = dict(sample.tensors, **(changes or {}))
    if not whole:
        _check_part(sample, changes or {})
    elif changes and INPUT_IDS in changes:
        _complete_text(sample, tensors, changes)
    labels = int((tensors[LABELS] != IGNORED_LABEL).sum()) if LABELS in tensors else label_tokens
    if labels != label_tokens:
        raise ValueError(f"transform= gives sample {sample.id} {counted(labels, 'label token')} where the plan "
                         f"counts {label_tokens}: announce the count by count_tokens=, since the loss is divided "
                         "by that of the whole global batch")
    return tensors


def _check(sample: Sample, changes: Any) -> None:
    import torch

    said = f"transform= gives sample {sample.id}"
    if changes is not None and not isinstance(changes, Mapping):
        raise TypeError(f"{said} a {type(changes).__name__}: return None or a dict of tensors")
    for name, tensor in (changes or {}).items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
            raise TypeError(f"{said} {name!r} as {type(tensor).__name__}: return tensors by name, rows along the first "
                            "dimension")
        if name in DERIVED:
            raise ValueError(f"{said} {name!r}, which follows from the samples' weights and lengths: leave it out")
        if name in (INPUT_IDS, LABELS, POSITION_IDS) and tensor.dim() != 1:
            raise ValueError(f"{said} {name!r} of shape {list(tensor.shape)}: it has one dimension")
        if name == LABELS and bool((tensor[:1] != IGNORED_LABEL).any()):
            raise ValueError(f"{said} labels that begin with {tensor[0].item()}: labels are not shifted, and the first "
                             f"token has none before it that could predict it, so its label is {IGNORED_LABEL}")


def _check_part(sample: Sample, changes: Mapping[str, Any]) -> None:
    for name, tensor in changes.items():
        said = f"transform= gives sample {sample.id} {name!r}"
        own = sample.tensors.get(name)
        if name in MODULE_LENGTHS.values():
            raise ValueError(f"{said}, which other stages of the layout have, too: leave it out")
        if own is None and name in RECIPE:
            raise ValueError(f"{said}, which it does not have at this stage: change what is in `tensors`, or add other "
                             "names")
        if own is not None and len(tensor) != len(own):
            raise ValueError(f"{said} of {counted(len(tensor), 'row')} where it has {len(own)}: other stages of the "
                             "layout count on them, so they must stay as many")


def _complete_text(sample: Sample, tensors: Dict[str, Any], changes: Mapping[str, Any]) -> None:
    import torch

    tokens = len(tensors[INPUT_IDS])
    if LABELS not in changes:
        tensors[LABELS] = tensors[INPUT_IDS].clone()
        tensors[LABELS][:1] = IGNORED_LABEL
    if POSITION_IDS not in changes:
        tensors[POSITION_IDS] = torch.arange(tokens)
    tensors[LENGTHS] = torch.tensor([tokens], dtype=torch.int32)
    for name in (LABELS, POSITION_IDS):
        if len(tensors[name]) != tokens:
            raise ValueError(f"transform= gives sample {sample.id} {tokens} input_ids and {len(tensors[name])} {name}: "
                             "they must be as many")


def pack(samples: List[Tuple[Sample, Dict[str, Any]]], announced: List[str]) -> Dict[str, Any]:
    """Returns the tensors of several samples, concatenated, and those that follow from them. Raises ValueError if a
    transform adds a tensor to only some of the samples: it would be unknown whose rows they are."""
    import torch

    columns: Dict[str, List[Any]] = {}
    for _sample, tensors in samples:
        for name, tensor in tensors.items():
            columns.setdefault(name, []).append(tensor)
    for name in set(columns) - set(announced):
        for sample, tensors in samples:
            if name not in tensors and sample.id != _isocost.dummy_sample:
                raise ValueError(f"transform= gives sample {sample.id} no '{name}', which it gives others: return it "
                                 "for every sample, without rows where there are none")
    packed = {name: _joined(name, column) for name, column in columns.items()}
    for module in MODULES:
        lengths = packed.get(MODULE_LENGTHS[module])
        if lengths is not None:
            sums = torch.cat([lengths.new_zeros(1), lengths.cumsum(0, dtype=torch.int32)])
            packed[MODULE_CU_SEQLENS[module]] = sums
    if LOSS_WEIGHTS in announced:
        packed[LOSS_WEIGHTS] = torch.cat([torch.full((len(tensors[LABELS]),), sample.weight)
                                          for sample, tensors in samples])
    return packed


def _joined(name: str, column: List[Any]) -> Any:
    import torch

    try:
        return torch.cat(column)
    except RuntimeError as error:
        raise ValueError(f"transform= gives '{name}' in shapes that do not join: "
                         f"{sorted({tuple(tensor.shape[1:]) for tensor in column})}") from error


Finish = Callable[[Any, Dict[str, Any]], Tuple[Any, Any]]


class TransformQueue:
    """Takes raw microbatches ahead of the loop, transforms their samples, and calls `finish` with the raw microbatch
    and its tensors to make the item to hand out. All of this runs in background threads, in order, from the first
    `next` on."""

    def __init__(self, client: Any, transform: Optional[Transform], whole: bool, finish: Finish, ahead: int):
        self._client = client
        self._transform = transform
        self._whole = whole  # Whether samples are here as a whole, not only the part of one stage.
        self._finish = finish
        self._workers = Workers("isocost-transform")
        self._started = False
        self._running = threading.Lock()  # Held by the one thread that pulls.
        self._thread: Optional[threading.Thread] = None
        self._closing = False
        # One entry for each microbatch that may be taken ahead.
        self._room: "queue.SimpleQueue[None]" = queue.SimpleQueue()
        for _ in range(ahead):
            self._room.put(None)
        # A chain from which nothing is ever removed, so that an interrupted wait finds it unchanged. Each link holds an
        # item to hand out, as a Result, and the next link.
        self._link = self._last = Result()

    def next(self) -> Tuple[Any, Any]:
        """Returns a microbatch and the item to hand out for it; at the end of an epoch None, and that end. Blocks until
        it is there. An interrupt loses nothing, and what failed fails again at the next call."""
        self._start()
        handed_out, link = self._link.get()
        result: Tuple[Any, Any] = handed_out.get()
        self._room.put(None)
        self._link = link
        return result

    def close(self) -> None:
        """Ends the threads, once the client is closed. Blocks until calls of the user's functions that have begun
        return."""
        self._closing = True
        self._room.put(None)
        if self._thread is not None:
            self._thread.join()
        self._workers.close()

    def _start(self) -> None:
        if not self._started:
            threading.Thread(target=self._run, name="isocost-pipeline", daemon=True).start()
            self._started = True  # Not reached if an interrupt hit the line above.

    def _run(self) -> None:
        if not self._running.acquire(blocking=False):
            return  # An interrupt had caused a second start.
        self._thread = threading.current_thread()
        if not self._closing:
            self._workers.start()  # Started on this thread, since only the main thread is interrupted.
            self._pull()

    def _pull(self) -> None:
        try:
            while True:
                self._room.get()
                if self._closing:
                    return
                raw = self._client.next()
                if raw is not None:
                    self._append(self._submit(raw))
                    continue
                end = self._client.epoch_end()
                self._append(_set((None, end)))
                if end["last_epoch"]:
                    return
        except BaseException as error:  # The loop receives it.
            self._append(_failed(error))

    def _submit(self, raw: Any) -> Result:
        tensors = torch_tensors(raw)
        if self._transform is None:
            return self._workers.submit(self._finish, raw, tensors)
        # These tasks begin before `finish`, which waits for them.
        parts = [(sample, self._workers.submit(apply, self._transform, sample, label_tokens, self._whole))
                 for sample, label_tokens in cut(raw, tensors)]

        def finish() -> Tuple[Any, Any]:
            return self._finish(raw, pack([(sample, part.get()) for sample, part in parts], list(tensors)))

        return self._workers.submit(finish)

    def _append(self, handed_out: Result) -> None:
        link, self._last = self._last, Result()
        link.set((handed_out, self._last))


def _set(value: Any) -> Result:
    result = Result()
    result.set(value)
    return result


def _failed(error: BaseException) -> Result:
    result = Result()
    result.fail(error)
    return result
