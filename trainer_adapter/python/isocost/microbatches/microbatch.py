"""The microbatches that the loader hands out."""

from collections.abc import MutableMapping
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple, Union

from isocost.base.counted import counted
from isocost.base.tensor_names import CU_SEQLENS, INPUT_IDS, LABELS, LENGTHS, MODULE_CU_SEQLENS
from isocost.microbatches.device_copies import moved_tensors
from isocost.microbatches.model_inputs import ModelInputs, Row


class Route(NamedTuple):
    """A sample's encoder output on its way between an encoder microbatch and the LLM microbatch that it enters; its
    gradient comes back the same way. Units are patches ("vision") and 20 ms positions ("audio") along the packed
    sequences of all samples of a microbatch. An encoder that merges k units into one output divides by k.

    Attributes:
        module: "vision" or "audio".
        sample: index into sample_ids.
        first_unit, units: where the sample's units begin in this microbatch, and how many there are.
        replica, microbatch: data index and microbatch on the other side: the LLM's for an encoder, the encoder's for
            the LLM.
        peer_first_unit: where the sample's units begin there.
    """

    module: str
    sample: int
    first_unit: int
    units: int
    replica: int
    microbatch: int
    peer_first_unit: int


class Description(NamedTuple):
    """The extension module's description of its Microbatch, from one call: the attributes of Microbatch that follow
    from no tensor, and the number of each sample's images, dummies included. Picklable."""

    position: Tuple[int, int, int]
    sample_ids: List[int]
    sample_keys: List[str]
    sample_weights: List[float]
    weighted: bool  # Whether some token may have a weight in the loss other than 1.
    sample_images: List[int]
    last_of_step: bool
    last_of_epoch: bool
    predicted: Dict[str, float]
    label_tokens: int
    global_label_tokens: int
    plan_hash: int
    profile_budget_s: float
    seconds_wanted: bool
    cost_model_state: bytes
    routes: List[Tuple[str, int, int, int, int, int, int]]


class Microbatch(MutableMapping[str, Any]):
    """One rank's share of one part of a step: a mapping of names to torch tensors, with attributes that describe it.

    The tensors are packed without padding, and their names are a model's keyword arguments: `model(**microbatch)`.
    Those of the recipe native28, where a modality that no sample has is left out:

        input_ids, labels, position_ids    int64 [tokens]; labels as transformers takes them, not shifted
        loss_weights                       float32 [tokens]
        lengths, cu_seqlens                int32 [samples], [samples + 1]
        vision_patches                     uint8 [patches, 588], 14 x 14 pixels of RGB
        vision_grids                       int32 [images, 2], rows and columns of patches
        vision_lengths, vision_cu_seqlens  int32 [images], [images + 1]
        audio_mel                          float32 [frames, 128]
        audio_lengths, audio_cu_seqlens    int32 [windows], [windows + 1]

    On the CPU they share the memory that the client received into, without a copy: do not write into them. A tensor
    that is kept stays valid after the microbatch, and gives its memory back when it is dropped; in a process that is
    forked meanwhile it stays valid as long as in this one. With a layout, a stage has the tensors that it consumes:
    media, input_ids and position_ids where they are embedded, labels and loss_weights on the last stage, lengths and
    cu_seqlens on every stage of their module.

    The mapping can be changed as a dict (`pop`, assignment, `update`, `copy.copy`); attributes, `packed` and what
    isocost.token_loss computes stay those of the microbatch that the loader handed out. `Microbatch(mapping)`
    makes one of a mapping, as libraries do with `type(batch)({...})`: of a microbatch a copy, of any other mapping one
    that has tensors and no attributes. Two microbatches are equal only if they are the same object.

    Attributes:
        sample_ids: list of int, the samples' numbers in the data set, in the order of their rows.
        sample_keys: list of str, "SHARD/KEY" of each sample: the shard's file name, and the name that the sample's
            members share in it.
        sample_weights: list of float; 0 for a repeat that keeps a rank busy and does not count in the loss.
        dummies: int, dummy samples after the others (`dummy_media=`): placeholders of a small medium each, without
            labels and of weight 0. `lengths` and the other tensors have them, and the three lists above do not.
        cu_seqlens: {module: cumulative sequence lengths, int32 [sequences + 1]}.
        epoch, step, index: int. The step counts from 0 in each epoch, the index counts this rank's microbatches from 0
            in each step.
        last_of_step: bool; True where the optimizer is to step after this microbatch.
        last_of_epoch: bool; True for this rank's last microbatch of the epoch, with which an iteration ends.
        predicted: {module: seconds} that the cost model expects, forward and backward.
        tokens: int, rows of the LLM's sequences without padding and dummies; 0 on a stage without LLM layers.
        label_tokens: int, label tokens of this microbatch, without those of repeats.
        global_label_tokens: int, label tokens of the whole global batch: the sum over all microbatches and ranks.
        waited_s: float, seconds that the loop was blocked for this microbatch.
        plan_hash: int, the hash of the step's plan, equal on all ranks.
        routes: list of Route, where a layout's encoder has ranks of its own.
        profile_budget_s: float; above 0 where the node asks for a new model profile, which may take so many seconds
            (see DataLoader's reprofile).
        seconds_wanted: bool; False in a step whose seconds the node does not ask for, the same on all ranks:
            `loader.timed` then measures nothing.
        cost_model_state: bytes that state_dict() keeps; empty if they are those of an earlier microbatch.
    """

    __slots__ = ("__weakref__", "_model", "_packed", "_pin", "_row", "_shown", "cost_model_state", "dummies", "epoch",
                 "global_label_tokens", "index", "label_tokens", "last_of_epoch", "last_of_step", "plan_hash",
                 "predicted", "profile_budget_s", "routes", "sample_ids", "sample_keys", "sample_weights",
                 "seconds_wanted", "step", "tokens", "waited_s")

    def __init__(self, mapping: Union[Mapping[str, Any], Iterable[Tuple[str, Any]]] = ()):
        if isinstance(mapping, Microbatch):
            self._take_over(mapping)
        else:
            self._packed = dict(mapping)
            self._pin: Optional[Callable[[], bool]] = None
            self._model: Optional[ModelInputs] = None
            self._row: Optional[Row] = None
            self._shown: Optional[Dict[str, Any]] = None  # The tensors that the mapping shows, if not those packed.

    @classmethod
    def received(cls, raw: Any, tensors: Dict[str, Any], model: Optional[ModelInputs] = None) -> "Microbatch":
        """Returns the microbatch of one that the extension module received, and of its tensors."""
        made = cls(tensors)
        made._describe(raw, model)
        return made

    def _describe(self, raw: Any, model: Optional[ModelInputs]) -> None:
        self._pin = raw.pin
        self._model = model
        self.tokens = _tokens(self._packed)
        self.waited_s = 0.0  # Set when the microbatch is handed out.
        described = Description._make(raw.description)
        self.dummies = len(described.sample_images) - len(described.sample_ids)
        if self.dummies and LENGTHS in self._packed:
            self.tokens -= int(self._packed[LENGTHS][-self.dummies:].sum())
        self._row = None if model is None else model.row(self._packed, described.sample_images, described.weighted,
                                                         self.dummies)
        self.sample_ids = described.sample_ids
        self.sample_keys = described.sample_keys
        self.sample_weights = described.sample_weights
        self.epoch, self.step, self.index = described.position
        self.last_of_step = described.last_of_step
        self.last_of_epoch = described.last_of_epoch
        self.predicted = described.predicted
        self.label_tokens = described.label_tokens
        self.global_label_tokens = described.global_label_tokens
        self.plan_hash = described.plan_hash
        self.profile_budget_s = described.profile_budget_s
        self.seconds_wanted = described.seconds_wanted
        self.cost_model_state = described.cost_model_state
        self.routes = list(map(Route._make, described.routes))

    def _take_over(self, other: "Microbatch") -> None:
        """Makes this a copy of the other one; the tensors are shared, and what the mapping shows is not."""
        for name in _slots(type(self)) & _slots(type(other)):
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))
        if hasattr(self, "__dict__"):  # A subclass without slots.
            self.__dict__.update(getattr(other, "__dict__", {}))
        if self._shown is not None:
            self._shown = dict(self._shown)

    def __copy__(self) -> "Microbatch":
        made = type(self).__new__(type(self))
        Microbatch.__init__(made, self)
        return made

    def __getattr__(self, name: str) -> Any:
        # Python calls it for an attribute that is missing.
        if not name.startswith("_") and name in _slots(type(self)):
            raise AttributeError(f"{name}: this microbatch was made of a mapping, which has tensors and no attributes; "
                                 "the one that the loader handed out and its copy.copy have them")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getitem__(self, name: str) -> Any:
        try:
            return self.tensors[name]
        except KeyError:
            raise KeyError(f"{name}: this microbatch has no such tensor; it has {', '.join(self.tensors)}") from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._own()[name] = value

    def __delitem__(self, name: str) -> None:
        del self._own()[name]

    def _own(self) -> Dict[str, Any]:
        """Returns the dict that the mapping shows, which is from now on another one than that of what is packed."""
        if self._shown is None:
            self._shown = dict(self.tensors)
        return self._shown

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    # A mapping's equality would compare tensors, which has no single answer.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def position(self) -> Tuple[int, int, int]:
        """Epoch, step and index."""
        return self.epoch, self.step, self.index

    @property
    def cu_seqlens(self) -> Dict[str, Any]:
        sums = {module: self.packed.get(name) for module, name in MODULE_CU_SEQLENS.items()}
        return {module: tensor for module, tensor in sums.items() if tensor is not None}

    @property
    def tensors(self) -> Dict[str, Any]:
        """The dict that this mapping shows: the tensors by the names above. With `model=` the arguments of that model's
        `forward`. Some are not tensors. Arguments are made on the device to which the microbatch was moved, so that
        pixels go there as bytes."""
        if self._shown is not None:
            return self._shown
        if self._model is None or self._row is None:
            return self._packed
        self._shown = self._model.arguments(self._packed, self._row, self.global_label_tokens)
        return self._shown

    @property
    def packed(self) -> Dict[str, Any]:
        """The tensors by the names above: those of `tensors`, or with `model=` the tensors from which the arguments are
        made."""
        return self._packed

    @property
    def has_decoder(self) -> bool:
        """Whether `labels` are those of a decoder, [samples, longest], each beside its own logits; elsewhere the logits
        of a position are those of the next position's label."""
        return self._model is not None and self._model.has_decoder

    def to(self, device: Any, non_blocking: bool = True) -> "Microbatch":
        """Moves the tensors to a torch device, in place, and returns the microbatch.

        To a CUDA device they are copied on a stream of its own, so that the copy overlaps with the computation:
        directly from shared memory, which is registered with the CUDA runtime for that, and otherwise through pinned
        memory. The current stream waits for the copy. Tensors that were taken from the microbatch before stay where
        they are; code that copies one of them with `non_blocking=True` must keep it until the copy is done.
        """
        packed = _all_moved(self._packed, device, non_blocking, self._pin)
        copies = {id(tensor): packed[name] for name, tensor in self._packed.items()}
        if self._shown is not None:
            others = {name: tensor for name, tensor in self._shown.items() if id(tensor) not in copies}
            others = _all_moved(others, device, non_blocking)
            self._shown = {name: others[name] if name in others else copies[id(tensor)]
                           for name, tensor in self._shown.items()}
        self._packed = packed
        self._pin = None  # The pin keeps the memory mapped.
        if self._row is not None and self._row.position_ids is not None:
            [position_ids] = moved_tensors([self._row.position_ids], device, non_blocking)
            self._row = self._row._replace(position_ids=position_ids)
        return self

    def __getstate__(self) -> Tuple[Optional[Dict[str, Any]], Dict[str, Any]]:
        """Returns the state for pickling and copying, of a subclass too, without the pin, which belongs to this
        process's memory."""
        slots = {name: getattr(self, name) for name in _slots(type(self)) if hasattr(self, name)}
        return getattr(self, "__dict__", None), {**slots, "_pin": None}

    def __repr__(self) -> str:
        if not hasattr(self, "epoch"):
            return f"<isocost.Microbatch made of a mapping: {', '.join(self)}>"
        return (f"<isocost.Microbatch: epoch {self.epoch}, step {self.step}, index {self.index}"
                f"{' (the last of the step)' if self.last_of_step else ''}, "
                f"{counted(len(self.sample_ids), 'sample')}, {counted(self.tokens, 'token')}, "
                f"{counted(self.label_tokens, 'label token')}>")


def _slots(kind: type) -> Set[str]:
    """Returns the names of a class's slots."""
    return {name for each in kind.__mro__ for name in getattr(each, "__slots__", ())} - {"__weakref__"}


def _tokens(tensors: Dict[str, Any]) -> int:
    for name in (INPUT_IDS, LABELS):
        if name in tensors:
            return int(tensors[name].numel())
    return int(tensors[CU_SEQLENS][-1]) if CU_SEQLENS in tensors else 0


def _all_moved(tensors: Dict[str, Any], device: Any, non_blocking: bool,
               pin: Optional[Callable[[], bool]] = None) -> Dict[str, Any]:
    names = [name for name, tensor in tensors.items() if hasattr(tensor, "to")]
    copies = moved_tensors([tensors[name] for name in names], device, non_blocking, pin)
    return {**tensors, **dict(zip(names, copies))}


def moved(item: Any, device: Any) -> Any:
    """Returns a microbatch, a tensor, or a dict, list or tuple of such on the device; anything else as it is."""
    import torch

    if isinstance(item, Microbatch):
        return item.to(device)
    if isinstance(item, torch.Tensor):
        return moved_tensors([item], device)[0]
    if isinstance(item, dict):
        return {name: moved(value, device) for name, value in item.items()}
    if type(item) in (list, tuple):
        return type(item)(moved(value, device) for value in item)
    return item


def torch_tensors(raw: Any) -> Dict[str, Any]:
    """Returns the raw microbatch's tensors as torch tensors over the same memory. Raises ImportError for a torch that
    does not take them by DLPack."""
    import torch

    try:
        # The public function first looks for a protocol that capsules do not have, which takes a third of its time.
        take = getattr(torch._C, "_from_dlpack", None) or torch.utils.dlpack.from_dlpack  # noqa: SLF001
        tensors: Dict[str, Any] = raw.convert(take)
    except (AttributeError, BufferError, RuntimeError) as error:
        if isinstance(error, AttributeError) or "capsule" in str(error):
            raise ImportError(f"torch {torch.__version__} does not take a microbatch's tensors by DLPack ({error}): "
                              "isocost is tested with torch 1.13 and 2.15: install one between these") from error
        raise
    return tensors
