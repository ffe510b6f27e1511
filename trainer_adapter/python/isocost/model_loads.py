"""Random microbatches of given lengths for the modules of a model, as the loader hands them out."""

import itertools
import json
import math
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Protocol, Tuple

from isocost import _isocost
from isocost.model_skeleton import Skeleton

_PATCH, _GROUP = 14, 28  # pixels along a side
_QWEN_VALUES = 1176  # of a patch: 3 colours, 2 times, 14 x 14 pixels
_ASPECT = 4 / 3  # of most pictures
_MOST_UNITS = 1 << 17
_MOST_TOKENS = 1 << 15  # of a sample


class Limits(NamedTuple):
    """Lengths that a module takes.

    Attributes:
        shortest, longest: units of a sequence.
        multiple: every length is a multiple of this.
        first: units of a small microbatch.
        most: units of the largest microbatch that makes sense.
    """

    shortest: int
    longest: int
    multiple: int
    first: int
    most: int


class Loads(Protocol):
    """Makes a module's inputs, and runs it on them."""

    limits: Limits

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        """Makes the inputs of sequences of these lengths. Returns what runs the module on them, and returns the tensor
        that is differentiated."""


class Tokens:
    """Packed samples for the language model with its output head and its loss: one row of random ids, positions that
    begin anew at each sample, and what attention kernels of variable lengths take.

    Args:
        position_rows: 1, or the rows of M-RoPE with that of the positions within samples.
        vocabulary: ids are below this.
        longest: positions that the model knows.
    """

    def __init__(self, position_rows: int, vocabulary: int, longest: int):
        self._position_rows = position_rows
        self._vocabulary = vocabulary
        longest = min(longest, _MOST_TOKENS)
        self.limits = Limits(min(32, longest), longest, 1, min(256, longest), _MOST_UNITS)

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        arguments = self.arguments(lengths, device)
        return lambda: model(**arguments).loss

    def arguments(self, lengths: List[int], device: Any) -> Dict[str, Any]:
        """Of the model's forward, as model_inputs.py makes them of a microbatch without media."""
        import torch

        ids = torch.randint(self._vocabulary, (1, sum(lengths)), device=device)
        positions = torch.cat([torch.arange(length) for length in lengths])[None].to(device)
        if self._position_rows > 1:
            positions = positions.expand(self._position_rows, 1, -1)
        ends = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=device)
        return {"input_ids": ids, "labels": ids, "position_ids": positions, "use_cache": False,
                "num_items_in_batch": sum(lengths), "cu_seq_lens_q": ends, "cu_seq_lens_k": ends,
                "max_length_q": max(lengths), "max_length_k": max(lengths)}


class Patches:
    """Pictures of any size for Qwen's encoders: patches, and the grid that they are from.

    Args:
        least, most: pixels of a picture.
    """

    _MULTIPLE = 48  # 12 groups of 2 x 2 patches: their grid is no strip

    def __init__(self, least: int, most: int):
        shortest = max(1, -(-least // (_PATCH**2 * self._MULTIPLE))) * self._MULTIPLE
        longest = max(shortest, most // (_PATCH**2 * self._MULTIPLE) * self._MULTIPLE)
        self.limits = Limits(shortest, longest, self._MULTIPLE, min(longest, max(shortest, 10 * self._MULTIPLE)),
                             _MOST_UNITS)

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        grids = [patch_grid(length) for length in lengths]
        # Pictures lie and stand in turn.
        return self.forward_of_grids(model, [grid[::-1] if i % 2 else grid for i, grid in enumerate(grids)], device)

    def forward_of_grids(self, model: Any, grids: List[Tuple[int, int]], device: Any) -> Callable[[], Any]:
        """As forward, of the rows and columns of patches of each picture."""
        import torch

        patches = sum(rows * columns for rows, columns in grids)
        pixels = torch.randn(patches, _QWEN_VALUES, device=device)
        grid_thw = torch.tensor([(1, *grid) for grid in grids], device=device)
        return lambda: _vectors(model.model.get_image_features(pixels, image_grid_thw=grid_thw))


class Pictures:
    """Pictures of one size, such as LLaVA's, or tiles.

    Args:
        width, height: pixels.
    """

    def __init__(self, width: int, height: int):
        self._shape = (3, height, width)
        patches = 4 * (-(-width // _GROUP)) * (-(-height // _GROUP))  # as the recipe counts them
        self.limits = Limits(patches, patches, patches, patches, max(patches, _MOST_UNITS))

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        import torch

        pixels = torch.randn(len(lengths), *self._shape, device=device)
        return lambda: _vectors(model.model.get_image_features(pixels))


def patch_grid(patches: int) -> Tuple[int, int]:
    """Even numbers of rows and columns whose product is the number of patches, a multiple of 4: of the factors those
    that are nearest to a usual picture's aspect."""
    groups = patches // 4
    divisors = [rows for rows in range(1, math.isqrt(groups) + 1) if groups % rows == 0]
    rows = min(divisors, key=lambda rows: abs(math.log(groups / rows / rows / _ASPECT)))
    return 2 * rows, 2 * (groups // rows)


def _vectors(outputs: Any) -> Any:
    """Those of pictures that the language model takes: since transformers 5 one of several outputs."""
    return getattr(outputs, "pooler_output", outputs)


def check_family(directory: str) -> None:
    """Raises what reading a recipe from a directory raises, and ValueError for a model whose modules nothing here
    runs."""
    description = json.loads(_isocost.recipe_description(directory))
    if description["family"] not in _FAMILIES or description.get("has_timestamps"):
        raise ValueError(f"{directory}: modules of this model are not measured yet, only those of Qwen2-VL, "
                         "Qwen2.5-VL, LLaVA-1.5 and InternVL; isocost.profile_model measures modules that you build")


def module_loads(skeleton: Skeleton) -> Dict[str, Loads]:
    """Loads for each module of the model, which check_family has let pass."""
    family = _FAMILIES[skeleton.description["family"]]
    text = skeleton.config.text_config
    tokens = Tokens(family.position_rows, text.vocab_size, text.max_position_embeddings)
    return {"vision": family.vision(skeleton.description), "llm": tokens}


class _Family(NamedTuple):
    vision: Callable[[Mapping[str, Any]], Loads]
    position_rows: int


def _pictures(description: Mapping[str, Any]) -> Loads:
    return Pictures(description["width"], description["height"])


def _patches(description: Mapping[str, Any]) -> Loads:
    return Patches(description["images"]["min_pixels"], description["images"]["max_pixels"])


_FAMILIES: Dict[str, _Family] = {
    "internvl": _Family(_pictures, 1),
    "llava": _Family(_pictures, 1),
    "qwen2_vl": _Family(_patches, 4),
}
