"""Random microbatches of given lengths for the modules of a model, as the loader hands them out."""

import math
from typing import Any, Callable, Dict, List, NamedTuple, Protocol, Tuple

from isocost.base.tensor_names import IGNORED_LABEL
from isocost.microbatches.loss import weighted_cross_entropy, weighted_sum
from isocost.profiling.skeleton import Skeleton

_GROUP = 28  # pixels along a side
_QWEN_VALUES = 6  # values of a pixel in a patch: 3 colours, 2 times
_POSITIONS, _MEL_FRAMES = 1500, 3000  # for 30 s of sound
_ASPECT = 4 / 3  # usual for pictures
_MOST_UNITS = 1 << 17
_MOST_TOKENS = 1 << 15  # in one sample


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
        """Makes the inputs of sequences of these lengths. Returns a function that runs the module on them and returns
        the tensor to differentiate."""


class Tokens:
    """Packed samples for the language model with its output head and its loss: one row of random ids, positions that
    restart at each sample, and the arguments of attention kernels for variable lengths.

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
        """Returns the arguments of the model's forward that model_inputs.py makes from a microbatch without media."""
        import torch

        ids = torch.randint(self._vocabulary, (1, sum(lengths)), device=device)
        positions = torch.cat([torch.arange(length) for length in lengths])[None].to(device)
        if self._position_rows > 1:
            positions = positions.expand(self._position_rows, 1, -1)
        return {"input_ids": ids, "labels": ids, "position_ids": positions, "use_cache": False,
                "num_items_in_batch": sum(lengths)}


class RowsOfTokens(Tokens):
    """Samples for a language model with linear attention: each is a row, padded to the longest, as a loader hands them
    out unless it is asked to pack."""

    def arguments(self, lengths: List[int], device: Any) -> Dict[str, Any]:
        import torch

        shape = len(lengths), max(lengths)
        ids = torch.randint(self._vocabulary, shape, device=device)
        mask = torch.arange(shape[1], device=device) < torch.tensor(lengths, device=device)[:, None]
        positions = torch.arange(shape[1], device=device).expand(self._position_rows, *shape)
        return {"input_ids": ids, "labels": ids.masked_fill(~mask, IGNORED_LABEL), "attention_mask": mask.long(),
                "position_ids": positions, "use_cache": False, "num_items_in_batch": sum(lengths)}


class TokensWithoutLoss(Tokens):
    """Tokens for models whose loss takes no num_items_in_batch: the loss is that of isocost.token_loss."""

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        import torch

        arguments = self.arguments(lengths, device)
        labels = arguments["labels"].reshape(-1)
        weights = torch.ones(len(labels), device=device)
        given = {name: arguments[name] for name in ("input_ids", "position_ids", "use_cache")}
        return lambda: weighted_sum(model(**given).logits, labels, weights) / len(labels)


class TokensWithPictures(Tokens):
    """Tokens for models, such as Qwen3-VL, whose first layers add vectors of the encoder's inner layers to the tokens
    of pictures. Half of the tokens are a picture's.

    Args:
        added: number of these layers.
    """

    def __init__(self, position_rows: int, vocabulary: int, longest: int, added: int):
        super().__init__(position_rows, vocabulary, longest)
        self._added = added

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        import torch

        arguments = self.arguments(lengths, device)
        ids, labels = arguments.pop("input_ids"), arguments.pop("labels")
        count = arguments.pop("num_items_in_batch")
        mask = torch.cat([torch.arange(length) < length // 2 for length in lengths])[None].to(device)
        weight = model.get_output_embeddings().weight
        vectors = [torch.randn(int(mask.sum()), weight.shape[-1], device=device, dtype=weight.dtype, requires_grad=True)
                   for _layer in range(self._added)]

        def run() -> Any:
            hidden = model.model.language_model(
                inputs_embeds=model.get_input_embeddings()(ids), visual_pos_masks=mask, deepstack_visual_embeds=vectors,
                **arguments).last_hidden_state
            return model.loss_function(logits=model.get_output_embeddings()(hidden), labels=labels,
                                       vocab_size=weight.shape[0], num_items_in_batch=count)

        return run


class Transcripts:
    """Transcripts for a decoder that attends to 30 s of sound in each of them, such as Whisper's: rows of the ids that
    it writes. A sequence has one token more, which the decoder reads first.

    Args:
        width: of the encoder's vectors.
        vocabulary: ids are below this.
        positions: that the decoder knows.
    """

    def __init__(self, width: int, vocabulary: int, positions: int):
        self._width = width
        self._vocabulary = vocabulary
        longest = positions + 1
        self.limits = Limits(min(16, longest), longest, 1, min(64, longest), _MOST_UNITS)

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        import torch

        read = torch.tensor(lengths, device=device)[:, None] - 1
        labels = torch.randint(self._vocabulary, (len(lengths), max(lengths) - 1), device=device)
        labels = labels.masked_fill(torch.arange(labels.shape[1], device=device) >= read, IGNORED_LABEL)
        heard = torch.randn(len(lengths), _POSITIONS, self._width, device=device, dtype=model.dtype,
                            requires_grad=True)
        weights = torch.ones(labels.numel(), device=device)

        def run() -> Any:
            # The model also computes its own loss, as it does with the loader.
            logits = model(encoder_outputs=(heard,), labels=labels, use_cache=False).logits
            return weighted_cross_entropy(logits.flatten(0, 1), labels.reshape(-1), weights) / sum(lengths)

        return run


class Patches:
    """Pictures of any size for Qwen's encoders: patches, and the grid that they come from.

    Args:
        least, most: pixels of a picture.
        side: pixels along a patch.
    """

    _MULTIPLE = 48  # 12 groups of 2 x 2 patches: the grid of so many patches is no strip

    def __init__(self, least: int, most: int, side: int):
        self._values = _QWEN_VALUES * side**2
        shortest = max(1, -(-least // (side**2 * self._MULTIPLE))) * self._MULTIPLE
        longest = max(shortest, most // (side**2 * self._MULTIPLE) * self._MULTIPLE)
        self.limits = Limits(shortest, longest, self._MULTIPLE, min(longest, max(shortest, 10 * self._MULTIPLE)),
                             _MOST_UNITS)

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        grids = [patch_grid(length) for length in lengths]
        # Pictures alternate between landscape and portrait.
        return self.forward_of_grids(model, [grid[::-1] if i % 2 else grid for i, grid in enumerate(grids)], device)

    def forward_of_grids(self, model: Any, grids: List[Tuple[int, int]], device: Any) -> Callable[[], Any]:
        """Makes the inputs of pictures, given the rows and columns of patches of each, as `forward` does."""
        import torch

        patches = sum(rows * columns for rows, columns in grids)
        pixels = torch.randn(patches, self._values, device=device)
        grid_thw = torch.tensor([(1, *grid) for grid in grids], device=device)
        return lambda: _vectors(model.model.get_image_features(pixels, image_grid_thw=grid_thw))


class Pictures:
    """Pictures of one size, such as LLaVA's, or tiles.

    Args:
        width, height: pixels.
    """

    def __init__(self, width: int, height: int):
        self._shape = (3, height, width)
        patches = 4 * (-(-width // _GROUP)) * (-(-height // _GROUP))  # counted as in the recipe
        self.limits = Limits(patches, patches, patches, patches, max(patches, _MOST_UNITS))

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        import torch

        pixels = torch.randn(len(lengths), *self._shape, device=device)
        return lambda: _vectors(model.model.get_image_features(pixels))


class Tiles(Pictures):
    """Pictures of LLaVA-OneVision. Most are a scaled-down picture and its tiles; the others are the scaled-down picture
    alone, as for pictures that share a sample.

    Args:
        side: pixels along a tile.
        canvases: height and width in pixels of the canvases that are cut in tiles.
    """

    _TILES = 4  # of a usual picture

    def __init__(self, side: int, canvases: List[List[int]]):
        super().__init__(side, side)

        def tiles(canvas: List[int]) -> int:
            return canvas[0] * canvas[1] // side**2

        self._canvas = min(canvases, key=lambda canvas: abs(tiles(canvas) - self._TILES))
        self._of_picture = 1 + tiles(self._canvas)

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        import torch

        pixels = torch.randn(len(lengths), *self._shape, device=device)
        pictures, others = divmod(len(lengths), self._of_picture)
        if others == 1 and pictures:
            pictures, others = pictures - 1, others + self._of_picture
        sizes = torch.tensor([self._canvas] * pictures + [list(self._shape[1:])] * others, device=device)
        # A picture that is alone in its sample would be cut in tiles, so the sample of a single one counts two.
        samples = torch.tensor([1] * pictures + [max(2, others)] * min(1, others), device=device)
        return lambda: _vectors(model.model.get_image_features(pixels, image_sizes=sizes, batch_num_images=samples))


class Sounds:
    """Sounds for Whisper's encoder, or a similar one, which sees 30 s of each.

    Args:
        bins: values of a mel frame.
        masked: whether the encoder receives a mask of where sounds end, here in the middle.
    """

    def __init__(self, bins: int, masked: bool):
        self._bins = bins
        self._masked = masked
        self.limits = Limits(_POSITIONS, _POSITIONS, _POSITIONS, _POSITIONS, max(_POSITIONS, _MOST_UNITS))

    def forward(self, model: Any, lengths: List[int], device: Any) -> Callable[[], Any]:
        import torch

        mel = torch.randn(len(lengths), self._bins, _MEL_FRAMES, device=device, dtype=model.dtype)
        if not self._masked:
            return lambda: model.model.encoder(mel).last_hidden_state
        tower, projector = model.model.audio_tower, model.model.multi_modal_projector
        heard = (torch.arange(_POSITIONS, device=device) < _POSITIONS // 2).long().expand(len(lengths), -1)
        return lambda: projector(tower(mel, attention_mask=_mask_of(tower, mel, heard)).last_hidden_state)


def _mask_of(tower: Any, mel: Any, heard: Any) -> Any:
    """Returns the mask that Qwen2AudioModel makes."""
    from transformers.masking_utils import create_bidirectional_mask

    return create_bidirectional_mask(config=tower.config, inputs_embeds=mel.new_zeros(*heard.shape, 1),
                                     attention_mask=heard)


def patch_grid(patches: int) -> Tuple[int, int]:
    """Returns the rows and columns of a picture with this number of patches, a multiple of 4. Both are even, and of all
    such factors they are nearest to a usual picture's aspect."""
    groups = patches // 4
    divisors = [rows for rows in range(1, math.isqrt(groups) + 1) if groups % rows == 0]
    rows = min(divisors, key=lambda rows: abs(math.log(groups / rows / rows / _ASPECT)))
    return 2 * rows, 2 * (groups // rows)


def _vectors(outputs: Any) -> Any:
    """Returns the picture vectors that the language model takes: since transformers 5, the encoder has several
    outputs."""
    if not hasattr(outputs, "pooler_output"):
        return outputs
    inner = getattr(outputs, "deepstack_features", None)
    return outputs.pooler_output if inner is None else [outputs.pooler_output, inner]


def module_loads(skeleton: Skeleton) -> Dict[str, Loads]:
    """Returns the loads for each module of the model: "vision" or "audio", and "llm"."""
    return _FAMILIES[skeleton.description["family"]](skeleton)


def _tokens(skeleton: Skeleton, position_rows: int = 1) -> Tuple[int, int, int]:
    """Returns the arguments of Tokens."""
    text = skeleton.text_config
    return position_rows, text.vocab_size, text.max_position_embeddings


def _pictures(skeleton: Skeleton) -> Dict[str, Loads]:
    its = skeleton.description
    return {"vision": Pictures(its["width"], its["height"]), "llm": Tokens(*_tokens(skeleton))}


def _tiles(skeleton: Skeleton) -> Dict[str, Loads]:
    its = skeleton.description
    return {"vision": Tiles(its["side"], its["canvases"]), "llm": Tokens(*_tokens(skeleton))}


def _patches(skeleton: Skeleton) -> Dict[str, Loads]:
    its, added = skeleton.description, getattr(skeleton.config.vision_config, "deepstack_visual_indexes", None)
    tokens = _tokens(skeleton, 4)
    kind = RowsOfTokens if its.get("linear_attention") else Tokens
    return {"vision": Patches(its["images"]["min_pixels"], its["images"]["max_pixels"], its["patch_size"]),
            "llm": TokensWithPictures(*tokens, len(added)) if added else kind(*tokens)}


def _sounds_in_text(skeleton: Skeleton) -> Dict[str, Loads]:
    return {"audio": Sounds(skeleton.description["mel_bins"], True), "llm": TokensWithoutLoss(*_tokens(skeleton))}


def _sounds_and_transcripts(skeleton: Skeleton) -> Dict[str, Loads]:
    config = skeleton.config
    return {"audio": Sounds(skeleton.description["mel_bins"], False),
            "llm": Transcripts(config.d_model, config.vocab_size, config.max_target_positions)}


_FAMILIES: Dict[str, Callable[[Skeleton], Dict[str, Loads]]] = {
    "internvl": _pictures,
    "llava": _pictures,
    "llava_onevision": _tiles,
    "qwen2_audio": _sounds_in_text,
    "qwen2_vl": _patches,
    "whisper": _sounds_and_transcripts,
}
