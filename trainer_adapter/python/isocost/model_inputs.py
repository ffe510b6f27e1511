"""Microbatches as the models of transformers take them: the names, shapes and dtypes of their `forward`."""

import bisect
import dataclasses
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

from isocost import _isocost
from isocost.loss import IGNORED_LABEL
from isocost.tensor_names import CU_SEQLENS, INPUT_IDS, LABELS, LENGTHS, LOSS_WEIGHTS, MODULE_LENGTHS, POSITION_IDS

LOSSES = ("model", "token_loss")
_PATCHES, _GRIDS, _MEDIA = "vision_patches", "vision_grids", "vision_media"
_PATCH, _MERGE, _TEMPORAL = 14, 2, 2
_MEL = "audio_mel"
_CLIP_FRAMES, _FRAMES_BEHIND = 3000, 3  # As in decode/internal/audio.h.


class Row(NamedTuple):
    """What the arguments need of a microbatch on the host, before its tensors are elsewhere.

    Attributes:
        position_ids: int64 [1, tokens], or [4, 1, tokens] with M-RoPE, of the packed samples.
        lengths: list of int, of each sample.
        images: list of int, images of each sample.
    """

    position_ids: Any
    lengths: List[int]
    images: List[int]


@dataclasses.dataclass(frozen=True)
class Padded:
    """Samples as rows of equal length, for `batching=`.

    Attributes:
        side: "right" or "left", where padding is.
        multiple: the length of the rows is a multiple of this.
    """

    side: str = "right"
    multiple: int = 1

    def __post_init__(self) -> None:
        if self.side not in ("right", "left"):
            raise ValueError(f"side = {self.side!r}: must be 'right' or 'left'")
        if isinstance(self.multiple, bool) or not isinstance(self.multiple, int) or self.multiple < 1:
            raise ValueError(f"multiple = {self.multiple!r}: must be a whole number of at least 1")


class ModelInputs:
    """Makes of a microbatch's packed tensors the keyword arguments of a model in a directory.

    With batching "packed" the samples are one row: `position_ids` begin anew at each of them, which is what keeps their
    attention apart in transformers, as long as there is neither a cache (`use_cache` is False among the arguments) nor
    an `attention_mask`. Attention kernels for variable lengths take `cu_seq_lens_q` and its companions. With "padded"
    each sample is a row, and there is an `attention_mask`.

    Args:
        directory: of the model, as transformers' from_pretrained takes it.
        batching: "packed", "padded", or a Padded that says how.
        loss: "model": `labels` and `num_items_in_batch` are among the arguments, and the model's own loss is the share
            of the global batch's mean. "token_loss": they are not, and isocost.token_loss takes the logits.

    Attributes:
        padded: the Padded; None where samples are packed.

    Raises: what reading a recipe from a directory raises; ValueError for another batching or loss.
    """

    def __init__(self, directory: str, batching: Union[str, Padded], loss: str):
        if loss not in LOSSES:
            raise ValueError(f"loss = {loss!r}: must be one of {', '.join(map(repr, LOSSES))}")
        if not isinstance(batching, Padded) and batching not in ("packed", "padded"):
            raise ValueError(f"batching = {batching!r}: must be 'packed', 'padded' or an isocost.Padded")
        self.padded: Optional[Padded] = None
        if batching != "packed":
            self.padded = batching if isinstance(batching, Padded) else Padded()
        description = json.loads(_isocost.recipe_description(directory))
        self.directory = directory
        self.fingerprints = frozenset(_isocost.recipe_fingerprints(directory))
        self._loss = loss
        self._family = _FAMILIES[description["family"]](description)
        if loss == "model" and not self._family.takes_counts:
            raise ValueError(f"loss = 'model': the own loss of {description['family']} takes no num_items_in_batch, so "
                             "it is no share of the global batch's mean: give loss='token_loss', and take the loss "
                             "from isocost.token_loss")

    def row(self, tensors: Mapping[str, Any], images: List[int]) -> Row:
        """Of tensors on the CPU, and the number of each sample's images."""
        return Row(self._family.position_ids(tensors), tensors[LENGTHS].tolist(), images)

    def arguments(self, tensors: Mapping[str, Any], row: Row, keys: Sequence[str], weights: Sequence[float],
                  global_label_tokens: int) -> Dict[str, Any]:
        """The arguments, on the device where tensors and row are; waits for none of them. Raises ValueError for weights
        that the model's own loss does not know."""
        arguments = {INPUT_IDS: tensors[INPUT_IDS][None], POSITION_IDS: row.position_ids, **self._family.media(tensors, row),
                     "use_cache": False}
        if self._loss == "model":
            for key, weight in zip(keys, weights):
                if weight not in (0, 1):
                    raise ValueError(f"sample {key} has the weight {weight:g}, which a model's own loss ignores: give "
                                     "loss='token_loss', and take the loss from isocost.token_loss")
            labels = tensors[LABELS].masked_fill(tensors[LOSS_WEIGHTS] == 0, IGNORED_LABEL)
            arguments[LABELS] = labels[None]
            arguments["num_items_in_batch"] = max(1, global_label_tokens)
        if self.padded is None and not self._family.takes_counts:
            return arguments
        if self.padded is None:
            return {**arguments, **_attention(tensors[CU_SEQLENS], max(row.lengths, default=0))}
        return {**arguments, **_padded(arguments, row.lengths, self.padded)}


def _padded(arguments: Mapping[str, Any], lengths: Sequence[int], how: Padded) -> Dict[str, Any]:
    """The arguments that have a value for each token as rows of equal length, and the mask of these values."""
    import torch

    longest = -(-max(lengths, default=0) // how.multiple) * how.multiple
    ids = arguments[INPUT_IDS]
    at = torch.arange(longest, device=ids.device)
    own = torch.tensor(lengths, device=ids.device)[:, None]
    mask = at < own if how.side == "right" else at >= longest - own

    def rows(packed: Any, value: int) -> Any:
        """[..., 1, tokens] to [..., samples, longest]."""
        padded = packed.new_full((*packed.shape[:-2], *mask.shape), value)
        padded[..., mask] = packed[..., 0, :]
        return padded

    result = {INPUT_IDS: rows(ids, 0), "attention_mask": mask.long()}
    # The first row counts within samples, which the mask keeps apart already.
    result[POSITION_IDS] = rows(_without_text_row(arguments[POSITION_IDS]), 0)
    if LABELS in arguments:
        result[LABELS] = rows(arguments[LABELS], IGNORED_LABEL)
    return result


def _without_text_row(positions: Any) -> Any:
    return positions[1:] if positions.dim() == 3 else positions


def _attention(cu_seqlens: Any, longest: int) -> Dict[str, Any]:
    return {"cu_seq_lens_q": cu_seqlens, "cu_seq_lens_k": cu_seqlens, "max_length_q": longest, "max_length_k": longest}


class Family(Protocol):
    """What models of one family take beside tokens.

    Attributes:
        takes_counts: whether the model's own loss heeds num_items_in_batch, and its `forward` takes the lengths that
            attention kernels want. Where it is False, these find them in `position_ids`.
    """

    takes_counts: bool

    def position_ids(self, tensors: Mapping[str, Any]) -> Any:
        """Positions as Row has them, of tensors on the CPU."""

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        """The arguments for media, on the device of the tensors."""


class _QwenVl:
    """Qwen2-VL and Qwen2.5-VL:

        input_ids, labels                int64 [1, tokens]
        position_ids                     int64 [4, 1, tokens]: within the sample, then time, row and column of M-RoPE
        pixel_values                     float32 [patches, 1176], RGB, 2 times, 14 x 14 pixels
        image_grid_thw                   int64 [images, 3]
    """

    takes_counts = True

    def __init__(self, description: Mapping[str, Any]):
        self._image_token: int = description["image_token_id"]
        self._pixels = _normalised(description)

    def position_ids(self, tensors: Mapping[str, Any]) -> Any:
        import torch

        grids = tensors[_GRIDS].tolist() if _GRIDS in tensors else []
        merged = [(rows // _MERGE, columns // _MERGE) for rows, columns in grids]
        rope = mrope_positions(tensors[INPUT_IDS], tensors[CU_SEQLENS].tolist(), merged, self._image_token)
        return torch.cat([tensors[POSITION_IDS][None], rope])[:, None]

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        import torch

        if _PATCHES not in tensors:
            return {}
        return {"pixel_values": self._pixels(tensors[_PATCHES], _TEMPORAL),
                "image_grid_thw": torch.nn.functional.pad(tensors[_GRIDS].long(), (1, 0), value=1)}


class _OneSize:
    """Models whose encoder sees pictures of one size, LLaVA-1.5 and its like or InternVL with its tiles:

        input_ids, labels                int64 [1, tokens]
        position_ids                     int64 [1, tokens], within the sample
        pixel_values                     float32 [pictures, 3, height, width], RGB
    """

    takes_counts = True

    def __init__(self, description: Mapping[str, Any]):
        self._height: int = description["height"]
        self._width: int = description["width"]
        self._pixels = _normalised(description)

    def position_ids(self, tensors: Mapping[str, Any]) -> Any:
        return tensors[POSITION_IDS][None]

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        if _PATCHES not in tensors:
            return {}
        shown = pictures(tensors[_PATCHES], self._height, self._width)
        values = self._pixels(shown.reshape(len(shown), -1), 1)
        return {"pixel_values": values.view(-1, 3, self._height, self._width)}


class _LlavaOneVision(_OneSize):
    """LLaVA-OneVision: as _OneSize, and

        pixel_values                     as above: of an image alone in its sample the whole, then its tiles; of several
                                         one each, where the processor fills up with black to as many of each
        image_sizes                      int64 [images, 2], height and width as displayed
        batch_num_images                 int64 [samples with images]
    """

    def __init__(self, description: Mapping[str, Any]):
        super().__init__({**description, "height": description["side"], "width": description["side"]})

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        import torch

        arguments = super().media(tensors, row)
        if arguments:
            arguments["image_sizes"] = tensors[_MEDIA][:, 2:].long()
            arguments["batch_num_images"] = torch.tensor([count for count in row.images if count])
        return arguments


class _Qwen2Audio:
    """Qwen2-Audio:

        input_ids                        int64 [1, tokens]
        position_ids                     int64 [1, tokens], within the sample
        input_features                   float32 [clips, 80 or 128, 3000], log-mel frames of 10 ms
        feature_attention_mask           int32 [clips, 3000]: 1 for frames in which the sound begins
    """

    takes_counts = False

    def __init__(self, _description: Mapping[str, Any]):
        pass

    def position_ids(self, tensors: Mapping[str, Any]) -> Any:
        return tensors[POSITION_IDS][None]

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        if _MEL not in tensors:
            return {}
        features, mask = filled_clips(tensors[_MEL], tensors[MODULE_LENGTHS["audio"]])
        return {"input_features": features, "feature_attention_mask": mask}


def filled_clips(mel: Any, lengths: Any) -> Tuple[Any, Any]:
    """Clips filled up with silence: float32 [clips, bins, 3000], and int32 [clips, 3000], 1 for their own frames.

    Args:
        mel: float32 [frames, bins], as Isocost delivers them: of each clip its own frames and 3 more, the last of which
            is silence's. The others are what its last samples reach of the silence behind it.
        lengths: int32 [clips], frames of each.
    """
    import torch

    at = torch.arange(_CLIP_FRAMES, device=mel.device)
    own = lengths[:, None]
    begins = (lengths.cumsum(0) - lengths)[:, None]
    features = mel[begins + torch.minimum(at, own - 1)]
    return features.transpose(1, 2).contiguous(), (at < own - _FRAMES_BEHIND).int()


def pictures(patches: Any, height: int, width: int) -> Any:
    """Pictures of one size: uint8 [pictures, height, width, 3].

    Args:
        patches: uint8 [patches, 588], as Isocost delivers them: 14 x 14 x 3 values, in groups of 2 x 2. Where the sides
            are no multiples of a group's, the last groups reach beyond the picture.
        height, width: of each.
    """
    side = _PATCH * _MERGE
    rows, columns = -(-height // side), -(-width // side)
    groups = patches.view(-1, rows, columns, _MERGE, _MERGE, _PATCH, _PATCH, 3)
    whole = groups.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, rows * side, columns * side, 3)
    return whole[:, :height, :width]


def _normalised(description: Mapping[str, Any]) -> Callable[[Any, int], Any]:
    """The function that makes of rows of packed RGB pixels, uint8 [rows, pixels x 3], the values that a model takes,
    float32 [rows, 3 x copies x pixels], on their device: those of the image processor's own arithmetic, bit by bit,
    looked up."""
    import torch
    from torch.utils.dlpack import from_dlpack, to_dlpack

    scaled = (torch.arange(256, dtype=torch.float64) * description["rescale_factor"]).float()
    mean, std = (torch.tensor(description[name], dtype=torch.float32)[:, None] for name in ("image_mean", "image_std"))
    table = ((scaled - mean) / std).reshape(-1)  # 256 values of each channel.
    values = table.tolist()
    first = torch.arange(3)[:, None] * 256

    def look_up(rows: Any, copies: int) -> Any:
        if rows.device.type == "cpu":
            return from_dlpack(_isocost.normalised_pixels(to_dlpack(rows.contiguous()), values, copies))
        pixels = rows.view(len(rows), -1, 3).transpose(1, 2)
        normalised = table.to(rows.device)[pixels.long() + first.to(rows.device)]
        return normalised[:, :, None].expand(-1, -1, copies, -1).reshape(len(rows), -1)

    return look_up


def mrope_positions(ids: Any, cu_seqlens: Sequence[int], grids: Sequence[Tuple[int, int]], image_token: int) -> Any:
    """Positions of M-RoPE (Qwen2-VL, section 2.1): int64 [3, tokens], time, row and column.

    Text counts on in all three. The tokens of an image share a time, and have the row and column of their 2 x 2
    patches; what follows counts on from the largest.

    Args:
        ids: int64 [tokens] of packed samples, on the CPU.
        cu_seqlens: where samples begin, and the end of the last one.
        grids: rows and columns of tokens of each image, in order.
        image_token: its id.
    """
    import torch

    positions = torch.empty((3, len(ids)), dtype=torch.int64)
    image_tokens = (ids == image_token).nonzero().flatten().tolist()
    images = iter(grids)
    for begin, end in zip(cu_seqlens, cu_seqlens[1:]):
        at, position = begin, 0
        while at < end:
            following = bisect.bisect_left(image_tokens, at)
            start = min(end, image_tokens[following]) if following < len(image_tokens) else end
            positions[:, at:start] = torch.arange(position, position + start - at)
            position += start - at
            at = start
            if start < end:
                rows, columns = next(images)
                at = start + rows * columns
                positions[0, start:at] = position
                positions[1, start:at] = position + torch.arange(rows).repeat_interleave(columns)
                positions[2, start:at] = position + torch.arange(columns).repeat(rows)
                position += max(rows, columns)
    return positions


_FAMILIES: Dict[str, Callable[[Mapping[str, Any]], Family]] = {
    "internvl": _OneSize, "llava": _OneSize, "llava_onevision": _LlavaOneVision, "qwen2_audio": _Qwen2Audio,
    "qwen2_vl": _QwenVl}
