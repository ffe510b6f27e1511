"""What the loader hands out."""

import functools
from typing import Any, Dict, List, NamedTuple

MODULES = ("vision", "audio", "llm")


@functools.lru_cache(maxsize=None)
def argument_name(tensor: str) -> str:
    """A tensor's name as a Python argument: the language model's stand alone, others carry their
    module: "llm.input_ids" -> "input_ids", "vision.patches" -> "vision_patches"."""
    module, _, name = tensor.partition(".")
    return name if module == "llm" else f"{module}_{name}"


class Route(NamedTuple):
    """A sample's encoder output on its way between an encoder microbatch and the LLM microbatch that it
    enters; its gradient comes back the same way. Units are patches ("vision") and 20 ms positions
    ("audio") along the packed sequences of all of a microbatch's samples: an encoder that merges k of
    them into one output divides by k.

    Attributes:
        module: "vision" or "audio".
        sample: index into sample_ids.
        first_unit, units: of the sample, in this microbatch.
        replica, microbatch: on the other side: of the LLM for an encoder, of the encoder for the LLM.
        peer_first_unit: where the sample's units begin there.
    """

    module: str
    sample: int
    first_unit: int
    units: int
    replica: int
    microbatch: int
    peer_first_unit: int


class Microbatch:
    """One rank's share of one part of a step.

    Attributes:
        tensors: dict of torch tensors, packed without padding, to be passed as `model(**tensors)`.
            Of the recipe native28 (a modality that no sample has is left out):
                input_ids, labels, position_ids   int64 [tokens]; labels are shifted already
                loss_weights                      float32 [tokens]
                lengths, cu_seqlens               int32 [samples], [samples + 1]
                vision_patches                    uint8 [patches, 588], 14 x 14 pixels RGB
                vision_grids                      int32 [images, 2], rows and columns of patches
                vision_lengths, vision_cu_seqlens int32 [images], [images + 1]
                audio_mel                         float32 [frames, 128]
                audio_lengths, audio_cu_seqlens   int32 [windows], [windows + 1]
            On the CPU they share the memory that the client received into: no copy, so do not write
            into them. A tensor that is kept stays valid after the microbatch, and gives its memory
            back when dropped. With a layout a stage has those that it consumes: media where they are
            embedded, input_ids and position_ids likewise, labels and loss_weights on the last stage,
            lengths and cu_seqlens on every stage of their module.
        cu_seqlens: {module: cumulative sequence lengths, int32 [sequences + 1]}.
        sample_ids: list of int, in the order of the rows.
        sample_weights: list of float; 0 for a repeat that keeps a rank busy and counts for nothing.
        epoch, step, index: where it stands; index counts the microbatches of this rank in the step.
        last_of_step: True where the optimizer is to step after it.
        predicted: {module: seconds} that the cost model expects, forward and backward.
        tokens: rows of the LLM's sequences, padding none; 0 on a stage without LLM layers.
        label_tokens: label tokens of this microbatch.
        global_label_tokens: label tokens of the whole global batch, over all ranks.
        waited_s: seconds that the loop waited for it.
        plan_hash: hash of the step's plan, equal on all ranks.
        routes: list of Route, where a layout's encoder has ranks of its own.
        profile_wanted: the node asks for the model's profile, measured anew (see DataLoader's reprofile).
        cost_model_state: bytes, what the cost model has learnt, which state_dict() keeps; empty: nothing new.
    """

    __slots__ = ("tensors", "sample_ids", "sample_weights", "epoch", "step", "index", "last_of_step", "predicted",
                 "tokens", "label_tokens", "global_label_tokens", "waited_s", "plan_hash", "profile_wanted", "cost_model_state",
                 "routes", "__weakref__")

    def __init__(self, raw: Any, tensors: Dict[str, Any]):
        self.tensors = tensors
        samples = raw.samples
        self.sample_ids: List[int] = [sample[0] for sample in samples]
        self.sample_weights: List[float] = [sample[1] for sample in samples]
        self.epoch, self.step, self.index = raw.position
        self.last_of_step: bool = raw.last_of_step
        self.predicted: Dict[str, float] = raw.predicted
        self.tokens: int = _tokens(tensors)
        self.label_tokens: int = raw.label_tokens
        self.global_label_tokens: int = raw.global_label_tokens
        self.waited_s: float = raw.waited_s
        self.plan_hash: int = raw.plan_hash
        self.profile_wanted: bool = raw.profile_wanted
        self.cost_model_state: bytes = raw.cost_model_state
        self.routes: List[Route] = [Route(*route) for route in raw.routes]

    @property
    def cu_seqlens(self) -> Dict[str, Any]:
        sums = {module: self.tensors.get(argument_name(f"{module}.cu_seqlens")) for module in MODULES}
        return {module: tensor for module, tensor in sums.items() if tensor is not None}

    def to(self, device: Any, non_blocking: bool = True) -> "Microbatch":
        """Moves the tensors, in place, and returns the microbatch. To a CUDA device through pinned
        memory, so that the copy overlaps with the computation."""
        self.tensors = {name: _move(tensor, device, non_blocking) for name, tensor in self.tensors.items()}
        return self

    def __repr__(self) -> str:
        return (f"Microbatch(epoch={self.epoch}, step={self.step}, index={self.index}, "
                f"samples={len(self.sample_ids)}, label_tokens={self.label_tokens}, "
                f"last_of_step={self.last_of_step})")


def _tokens(tensors: Dict[str, Any]) -> int:
    for name in ("input_ids", "labels"):
        if name in tensors:
            return len(tensors[name])
    return int(tensors["cu_seqlens"][-1]) if "cu_seqlens" in tensors else 0


def _move(tensor: Any, device: Any, non_blocking: bool) -> Any:
    import torch

    target = torch.device(device)
    if target.type == "cuda" and tensor.device.type == "cpu" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(target, non_blocking=non_blocking)


def moved(item: Any, device: Any) -> Any:
    """A microbatch, tensor, or dict, list or tuple of such, on the device; anything else as it is."""
    import torch

    if isinstance(item, Microbatch):
        return item.to(device)
    if isinstance(item, torch.Tensor):
        return _move(item, device, True)
    if isinstance(item, dict):
        return {name: moved(value, device) for name, value in item.items()}
    if type(item) in (list, tuple):
        return type(item)(moved(value, device) for value in item)
    return item


def torch_tensors(raw: Any) -> Dict[str, Any]:
    """The raw microbatch's tensors as torch tensors over the same memory."""
    from torch.utils.dlpack import from_dlpack

    return {argument_name(name): from_dlpack(capsule) for name, capsule in raw.capsules()}


