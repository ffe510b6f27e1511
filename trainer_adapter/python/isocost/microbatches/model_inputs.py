"""Microbatches in the form that models of transformers take: the names, shapes and dtypes of their `forward`."""

import dataclasses
import importlib.metadata
import json
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

from isocost import _isocost
from isocost.base.counted import counted
from isocost.base.tensor_names import (
    CU_SEQLENS,
    IGNORED_LABEL,
    INPUT_IDS,
    LABELS,
    LENGTHS,
    LOSS_WEIGHTS,
    MODULE_LENGTHS,
    POSITION_IDS,
    ROPE_POSITIONS,
)
from isocost.microbatches import packed_states
from isocost.microbatches.decoder_rows import decoder_rows

LOSSES = ("model", "token_loss")
_PATCHES, _GRIDS, _MEDIA = "vision_patches", "vision_grids", "vision_media"
_PATCH, _MERGE, _TEMPORAL = 14, 2, 2
_MEL = "audio_mel"
_ALWAYS = (0, 0)  # of Family.counts_since


class Medium(NamedTuple):
    """An image or a video.

    Attributes:
        is_video: bool.
        pictures: number of its rows of vision_grids.
        rows, columns: of patches of each.
    """

    is_video: bool
    pictures: int
    rows: int
    columns: int


class Row(NamedTuple):
    """Values on the host from which the arguments are made, before the tensors move elsewhere.

    Attributes:
        position_ids: int64 [1, tokens], or [4, 1, tokens] with M-RoPE, of the packed samples; None on a rank without
            layers of the LLM.
        lengths: list of int, of each sample; empty there.
        media: list of Medium, in their order.
        images: list of int, images of each sample.
        weighted: bool; whether some token may have another weight in the loss than 1.
        dummies: int, the last of the samples that are dummies.
    """

    position_ids: Any
    lengths: List[int]
    media: List[Medium]
    images: List[int]
    weighted: bool
    dummies: int = 0

    def padded_lengths(self) -> List[int]:
        """Returns the tokens of each row where samples are padded: dummies are at the end of the last sample's, whose
        tokens do not see them."""
        own = self.lengths[:len(self.lengths) - self.dummies]
        if self.dummies == 0 or not own:
            return self.lengths
        return [*own[:-1], own[-1] + sum(self.lengths[len(own):])]


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
    """Makes the keyword arguments of a model in a directory from a microbatch's packed tensors.

    With batching "packed" the samples are one row. `position_ids` restart at each sample, which separates their
    attention in transformers, as long as there is neither a cache (`use_cache` is False among the arguments) nor
    an `attention_mask`. Attention kernels for variable lengths find the samples in them, too. `cu_seq_lens_q` and its
    companions would say it faster and are left out: before transformers 5.19 models hand them on to their encoders of
    pictures, whose sequences are others. With "padded" each sample is a row, and there is an `attention_mask`.

    For a model with a decoder of its own (Whisper) each sample is a row in any case: its decoder attends to one sound.
    The arguments are media and `labels`, from which transformers makes the decoder's input.

    A model with linear attention (Qwen3.5) carries a state along the row, past the samples' ends. So each sample is a
    row, unless "packed" is asked for: then the row has `cu_seq_lens_q` and `seq_idx`, with which the kernels of a GPU
    end the states.

    Args:
        directory: of the model, as transformers' from_pretrained takes it.
        batching: "packed", "padded", or a Padded that says how; None for "packed", or "padded" of a model that takes
            no packed samples: with a decoder of its own, or with linear attention, which takes them only on a GPU.
        loss: "model": `labels` and `num_items_in_batch` are among the arguments, and the model's own loss is the share
            of the global batch's mean. "token_loss": they are not, and isocost.token_loss takes the logits. Those of
            a decoder are there in any case, since it reads them.
        device: torch.device of the microbatches; None: the CPU.
        image_size: sizes of pictures in place of the directory's, as text.

    Attributes:
        padded: the Padded; None if samples are packed.
        has_decoder: whether the model has a decoder of its own, whose logits are those of the labels beside them.
        linear_attention: whether layers of the model have linear attention.

    Raises: what reading a recipe from a directory raises; ValueError for another batching or loss.
    """

    def __init__(self, directory: str, batching: Union[str, Padded, None], loss: str, device: Optional[Any] = None,
                 image_size: str = ""):
        if loss not in LOSSES:
            raise ValueError(f"loss = {loss!r}: must be one of {', '.join(map(repr, LOSSES))}")
        if not isinstance(batching, Padded) and batching not in ("packed", "padded", None):
            raise ValueError(f"batching = {batching!r}: must be 'packed', 'padded' or an isocost.Padded")
        description = json.loads(_isocost.recipe_description(directory, image_size))
        self._most_positions: Optional[int] = description.get("max_target_positions")
        self.has_decoder = self._most_positions is not None
        self.linear_attention = bool(description.get("linear_attention", False))
        if batching is None:
            batching = "padded" if self.has_decoder or self.linear_attention else "packed"
        self.padded: Optional[Padded] = None
        if batching != "packed":
            self.padded = batching if isinstance(batching, Padded) else Padded()
        if self.has_decoder and (self.padded is None or self.padded.side != "right"):
            raise ValueError(f"batching = {batching!r}: the decoder of {description['family']} attends to one sound "
                             "in each row, and its labels are padded on the right: leave it out, or give 'padded'")
        if self.linear_attention and self.padded is None and (obstacle := packed_states.obstacle(device)):
            raise ValueError(f"batching = {batching!r}: {directory} is a model with linear attention, which carries a "
                             f"state along the row, past the samples' ends; {obstacle}, or give 'padded'")
        self.directory = directory
        self.image_size = image_size
        self.fingerprints = frozenset(_isocost.recipe_fingerprints(directory, image_size))
        self._loss = loss
        self._family = _FAMILIES[description["family"]](description)
        if loss == "model":
            _check_own_loss(self._family.counts_since, description["family"])

    def check_weights(self, welcome: Mapping[str, Any]) -> None:
        """Raises ValueError if the node's data set has weights that the model's own loss ignores."""
        count, first, weight = (welcome[name] for name in ("weighted_samples", "first_weighted", "first_weight"))
        if self._loss != "model" or count == 0:
            return
        have = "has" if count == 1 else "have"
        whose = "its turns have weights" if weight == 1 else f"it has {weight:g}"
        advice = "" if weight == 1 else (" If their JSON holds something else there, name the key of weights with "
                                         "weight_key, or none with weight_key=''")
        raise ValueError(f"loss = 'model': a model's own loss ignores weights other than 0 and 1, and "
                         f"{counted(count, 'sample')} of the data set {have} one (the first is {first}: {whose}). "
                         f"Give loss='token_loss', and take the loss from isocost.token_loss.{advice}")

    def check_batching(self, welcome: Mapping[str, Any]) -> None:
        """Raises ValueError if this loader packs or pads otherwise than the node's plans assume, or pads to another
        multiple. Limits and costs would then be those of other microbatches."""
        here = 0 if self.padded is None else self.padded.multiple
        there: int = welcome["padded_multiple"]
        if here == there:
            return
        batching = "'packed'" if here == 0 else f"'padded' (to a multiple of {here})"
        plans = "packed rows" if there == 0 else f"rows that are padded to a multiple of {there}"
        remedy = ("start it without `--padded llm`" if here == 0 else
                  f"start it as `isocost serve --padded llm --padded-multiple {here}`")
        raise ValueError(f"batching = {batching}: the node plans {plans}: give all ranks the batching that the node "
                         f"has, or {remedy} (in Python the options padded and padded_multiple)")

    def row(self, tensors: Mapping[str, Any], images: List[int], weighted: bool, dummies: int = 0) -> Row:
        """Returns the row of tensors on the CPU. `images`: the number of each sample's images; `weighted`: whether
        there are weights other than 1; `dummies`: how many of the samples are dummies."""
        media = _media(tensors)
        if LENGTHS not in tensors:
            return Row(None, [], media, images, weighted)
        lengths = tensors[LENGTHS].tolist()
        return Row(self._family.position_ids(tensors), lengths, media, images, weighted, dummies)

    def arguments(self, tensors: Mapping[str, Any], row: Row, global_label_tokens: int) -> Dict[str, Any]:
        """Returns the arguments, on the device where tensors and row are, without waiting for them. A stage of a layout
        has those that it consumes: media and ids where they are embedded, labels on the last stage, positions and
        lengths on every stage of the LLM."""
        arguments = self._family.media(tensors, row)
        if row.position_ids is None:
            return arguments
        if self.has_decoder:
            return {**arguments, LABELS: self._written(tensors, row.lengths), "use_cache": False}
        if INPUT_IDS in tensors:
            arguments[INPUT_IDS] = tensors[INPUT_IDS][None]
        arguments.update({POSITION_IDS: row.position_ids, "use_cache": False})
        if self._loss == "model" and LABELS in tensors:
            labels = tensors[LABELS]
            if row.weighted:
                labels = labels.masked_fill(tensors[LOSS_WEIGHTS] == 0, IGNORED_LABEL)
            arguments[LABELS] = labels[None]
            arguments["num_items_in_batch"] = max(1, global_label_tokens)
        if self.padded is not None:
            return {**arguments, **_padded(arguments, row.padded_lengths(), self.padded)}
        if self.linear_attention:
            arguments.update(packed_states.ends(tensors[LENGTHS], sum(row.lengths)))
        return arguments

    def _written(self, tensors: Mapping[str, Any], lengths: Sequence[int]) -> Any:
        """Returns a decoder's labels [samples, longest]: the token that it writes at each position. Tokens of weight 0
        stay, since the decoder also reads them."""
        multiple = 1 if self.padded is None else self.padded.multiple
        longest = -(-max(0, max(lengths, default=0) - 1) // multiple) * multiple
        width = longest if self._most_positions is None else min(longest, self._most_positions)
        return decoder_rows(tensors[LABELS], tensors[LENGTHS], width, IGNORED_LABEL)


def _check_own_loss(since: Optional[Tuple[int, int]], family: str) -> None:
    """Raises ValueError if the own loss of a family, by Family.counts_since, is no share of the global batch's mean.
    If transformers is not installed, the model is somebody else's, and nothing is known of its loss."""
    try:
        installed = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        installed = ""
    numbers = tuple(int(number) for number in installed.split(".")[:2] if number.isdigit())
    if since is not None and (not numbers or numbers >= since):
        return
    which = "" if since is None else f" in transformers {installed}"
    advice = "" if since is None else f", or upgrade transformers to {since[0]}.{since[1]} or later"
    raise ValueError(f"loss = 'model': the own loss of {family}{which} takes no num_items_in_batch, so it is no share "
                     "of the global batch's mean: give loss='token_loss', and take the loss from "
                     f"isocost.token_loss{advice}")


def _padded(arguments: Mapping[str, Any], lengths: Sequence[int], how: Padded) -> Dict[str, Any]:
    """Returns the arguments that have a value for each token as rows of equal length, with the mask of these values."""
    longest = -(-max(lengths, default=0) // how.multiple) * how.multiple
    # The first row of M-RoPE counts within samples, which the mask separates already.
    positions = _without_text_row(arguments[POSITION_IDS])

    def rows(packed: Any, value: int) -> Any:
        """Turns [..., 1, tokens] into [..., samples, longest]. Sample by sample: an operation on all of them would wake
        torch's threads beside those that decode, and one by a mask would wait for the device."""
        padded = packed.new_empty((*packed.shape[:-2], len(lengths), longest))
        begin = 0
        for i, length in enumerate(lengths):
            filled = 0 if how.side == "right" else longest - length
            padded[..., i, :filled] = value
            padded[..., i, filled:filled + length] = packed[..., 0, begin:begin + length]
            padded[..., i, filled + length:] = value
            begin += length
        return padded

    tokens = sum(lengths)
    result = {POSITION_IDS: rows(positions, 0), "attention_mask": rows(positions.new_ones((1, tokens)), 0)}
    for name, filling in ((INPUT_IDS, 0), (LABELS, IGNORED_LABEL)):
        if name in arguments:
            result[name] = rows(arguments[name], filling)
    return result


def _without_text_row(positions: Any) -> Any:
    return positions[1:] if positions.dim() == 3 else positions


class Family(Protocol):
    """Arguments of the models of one family, other than tokens.

    Attributes:
        counts_since: the first version of transformers in which the model's own loss heeds num_items_in_batch; None
            if it does in none.
    """

    counts_since: Optional[Tuple[int, int]]

    def position_ids(self, tensors: Mapping[str, Any]) -> Any:
        """Returns Row.position_ids of tensors on the CPU."""

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        """Returns the arguments for media, on the device of the tensors."""


class _QwenVl:
    """Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5, the latter two also with mixtures of experts:

        input_ids, labels                int64 [1, tokens]
        position_ids                     int64 [4, 1, tokens]: within the sample, then time, row and column of M-RoPE
        pixel_values                     float32 [patches, 1176], RGB, 2 times, 14 x 14 pixels; 1536 of 16 x 16
        image_grid_thw                   int64 [images, 3]
        pixel_values_videos              float32 [patches, 1176], RGB, 2 frames, 14 x 14 pixels; likewise
        video_grid_thw                   int64 [videos, 3]
    """

    def __init__(self, description: Mapping[str, Any]):
        self.counts_since: Optional[Tuple[int, int]] = (5, 17) if description["has_timestamps"] else _ALWAYS
        self._images = Normalised(description["images"])
        self._videos = Normalised(description["videos"])

    def position_ids(self, tensors: Mapping[str, Any]) -> Any:
        import torch

        return torch.cat([_within_samples(tensors)[None], tensors[ROPE_POSITIONS].T])[:, None]

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        import torch

        if _PATCHES not in tensors:
            return {}
        patches = tensors[_PATCHES]
        if not any(medium.is_video for medium in row.media):
            return {"pixel_values": self._images.rows(patches, 1, _TEMPORAL),
                    "image_grid_thw": torch.nn.functional.pad(tensors[_GRIDS].long(), (1, 0), value=1)}
        sizes = [medium.pictures * medium.rows * medium.columns * (_TEMPORAL if medium.is_video else 1)
                 for medium in row.media]
        pieces = list(zip(row.media, patches.split(sizes)))
        arguments = {}
        for is_video, values, grids in ((False, "pixel_values", "image_grid_thw"),
                                        (True, "pixel_values_videos", "video_grid_thw")):
            own = [rows for medium, rows in pieces if medium.is_video == is_video]
            if not own:
                continue
            rows = own[0] if len(own) == 1 else torch.cat(own)
            arguments[values] = (self._videos.rows(rows, _TEMPORAL, 1) if is_video else
                                 self._images.rows(rows, 1, _TEMPORAL))
            arguments[grids] = torch.tensor([[medium.pictures, medium.rows, medium.columns] for medium in row.media
                                             if medium.is_video == is_video], device=patches.device)
        return arguments


class _PictureSize(NamedTuple):
    """Sizes of pictures of one size, in pixels."""

    normalised: "Normalised"
    height: int
    width: int


class _OneSize:
    """Models whose encoder sees pictures of one size, LLaVA-1.5 and its like or InternVL with its tiles and frames:

        input_ids, labels                int64 [1, tokens]
        position_ids                     int64 [1, tokens], within the sample
        pixel_values                     float32 [pictures, 3, height, width], RGB
    """

    counts_since: Optional[Tuple[int, int]] = _ALWAYS

    def __init__(self, description: Mapping[str, Any]):
        videos = description.get("videos", description)
        self._images, self._frames = (_PictureSize(Normalised(each), int(each["height"]), int(each["width"]))
                                      for each in (description, videos))

    def position_ids(self, tensors: Mapping[str, Any]) -> Any:
        return _within_samples(tensors)[None]

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        import torch

        if _PATCHES not in tensors:
            return {}
        patches = tensors[_PATCHES]
        if not any(medium.is_video for medium in row.media):
            return {"pixel_values": self._values(patches, self._images)}
        sizes = [medium.pictures * medium.rows * medium.columns for medium in row.media]
        values = [self._values(rows, self._frames if medium.is_video else self._images)
                  for medium, rows in zip(row.media, patches.split(sizes))]
        if any(each.shape[1:] != values[0].shape[1:] for each in values):
            raise ValueError(f"pictures of {self._images.width}x{self._images.height} and frames of "
                             f"{self._frames.width}x{self._frames.height} are no one tensor: the model's image "
                             "processor and video processor must have the same size")
        return {"pixel_values": torch.cat(values)}

    @staticmethod
    def _values(patches: Any, size: _PictureSize) -> Any:
        return size.normalised.pictures(patches, size.height, size.width)


class _LlavaOneVision(_OneSize):
    """LLaVA-OneVision: as _OneSize, and

        pixel_values                     as above: of an image alone in its sample the whole, then its tiles; of several
                                         one each, where the processor fills up with black to as many of each
        image_sizes                      int64 [images, 2], height and width as displayed
        batch_num_images                 int64 [samples with images]
        pixel_values_videos              float32 [videos, frames, 3, height, width], RGB
    """

    def __init__(self, description: Mapping[str, Any]):
        size = {"height": description["side"], "width": description["side"]}
        super().__init__({**description, **size, "videos": {**description["videos"], **size}})

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        import torch

        if _PATCHES not in tensors:
            return {}
        media = tensors[_MEDIA]
        images, videos = ([i for i, medium in enumerate(row.media) if medium.is_video == is_video]
                          for is_video in (False, True))
        arguments: Dict[str, Any] = {}
        if images:
            sizes = media[torch.tensor(images, device=media.device), 2:] if videos else media[:, 2:]
            arguments.update(pixel_values=self._values(self._patches_of(images, tensors, row), self._images),
                             image_sizes=sizes.long(),
                             batch_num_images=torch.tensor([count for count in row.images if count],
                                                           device=media.device))
        if videos:
            frames = self._values(self._patches_of(videos, tensors, row), self._frames)
            arguments["pixel_values_videos"] = frames.view(len(videos), -1, *frames.shape[1:])
        return arguments

    @staticmethod
    def _patches_of(chosen: List[int], tensors: Mapping[str, Any], row: Row) -> Any:
        """Returns the patches of the media with these numbers, copied only if there are other media."""
        import torch

        if len(chosen) == len(row.media):
            return tensors[_PATCHES]
        pieces = tensors[_PATCHES].split([medium.pictures * medium.rows * medium.columns for medium in row.media])
        return torch.cat([pieces[i] for i in chosen])


class _Qwen2Audio:
    """Qwen2-Audio:

        input_ids                        int64 [1, tokens]
        position_ids                     int64 [1, tokens], within the sample
        input_features                   float32 [clips, 80 or 128, 3000], log-mel frames of 10 ms
        feature_attention_mask           int32 [clips, 3000]: 1 for frames in which the sound begins
    """

    counts_since: Optional[Tuple[int, int]] = None

    def __init__(self, _description: Mapping[str, Any]):
        pass

    def position_ids(self, tensors: Mapping[str, Any]) -> Any:
        return _within_samples(tensors)[None]

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        if _MEL not in tensors:
            return {}
        features, mask = filled_clips(tensors[_MEL], tensors[MODULE_LENGTHS["audio"]])
        return {"input_features": features, "feature_attention_mask": mask}


class _Whisper(_Qwen2Audio):
    """Whisper, of whose samples each has one clip:

        input_features                   float32 [samples, 80 or 128, 3000], log-mel frames of 10 ms
        labels                           int64 [samples, longest], not to be shifted: what the decoder writes
    """

    def media(self, tensors: Mapping[str, Any], row: Row) -> Dict[str, Any]:
        arguments = super().media(tensors, row)
        arguments.pop("feature_attention_mask", None)
        return arguments


def filled_clips(mel: Any, lengths: Any) -> Tuple[Any, Any]:
    """Returns clips filled up with silence, float32 [clips, bins, 3000], and int32 [clips, 3000], 1 for the clips' own
    frames.

    Args:
        mel: float32 [frames, bins], as Isocost delivers them: of each clip its own frames and 3 more, the last of which
            is silence's. The others are what its last samples reach of the silence after it.
        lengths: int32 [clips], frames of each.
    """
    import torch

    at = torch.arange(_isocost.clip_frames, device=mel.device)
    own = lengths[:, None]
    begins = (lengths.cumsum(0) - lengths)[:, None]
    features = mel[begins + torch.minimum(at, own - 1)]
    return features.transpose(1, 2).contiguous(), (at < own - _isocost.frames_behind_clip).int()


def _within_samples(tensors: Mapping[str, Any]) -> Any:
    """Returns positions within the samples, int64 [tokens]; computes them where a later stage of a pipeline did not
    receive them."""
    if POSITION_IDS in tensors:
        return tensors[POSITION_IDS]
    import torch

    sums = tensors[CU_SEQLENS].long()
    return torch.arange(int(sums[-1])) - sums[:-1].repeat_interleave(sums.diff())


def _media(tensors: Mapping[str, Any]) -> List[Medium]:
    """Returns the media of tensors on the CPU."""
    if _MEDIA not in tensors:
        return []
    grids = tensors[_GRIDS].tolist()
    media, first = [], 0
    for kind, pictures, _height, _width in tensors[_MEDIA].tolist():
        media.append(Medium(kind == 1, pictures, *grids[first]))
        first += pictures
    return media


class Normalised:
    """Makes a model's float32 values from bytes of pixels, on the device of the bytes. They are bit-identical to those
    of the processor's own arithmetic. On the CPU they are made in one pass, in memory that is reused once its tensor is
    dropped; elsewhere by torch.

    Args:
        description: of what a recipe does to pixels: rescale_factor, image_mean and image_std.
    """

    def __init__(self, description: Mapping[str, Any]):
        import torch

        scaled = (torch.arange(256, dtype=torch.float64) * description["rescale_factor"]).float()
        mean, std = (torch.tensor(description[name], dtype=torch.float32)[:, None]
                     for name in ("image_mean", "image_std"))
        self.table = (scaled - mean) / std  # [3, 256]
        self._on_cpu = _isocost.PixelNormaliser(self.table.reshape(-1).tolist(), description["rescale_factor"],
                                                mean.reshape(-1).tolist(), std.reshape(-1).tolist())

    def rows(self, rows: Any, frames: int, copies: int) -> Any:
        """Returns float32 [patches, 3 x frames x copies x pixels] of packed RGB pixels, uint8 [patches x frames, pixels
        x 3]. A picture that represents several frames has copies."""
        if rows.device.type == "cpu":
            return _taken_over(self._on_cpu.rows(_lent(rows), frames, copies))
        return rows_by_torch(self.table, rows, frames, copies)

    def pictures(self, patches: Any, height: int, width: int) -> Any:
        """Returns pictures of one size, float32 [pictures, 3, height, width].

        Args:
            patches: uint8 [patches, 588], as Isocost delivers them: 14 x 14 x 3 values, in groups of 2 x 2. If the
                sides are no multiples of a group's, the last groups reach beyond the picture.
            height, width: of each.
        """
        if patches.device.type == "cpu":
            return _taken_over(self._on_cpu.pictures(_lent(patches), height, width))
        return pictures_by_torch(self.table, patches, height, width)


def rows_by_torch(table: Any, rows: Any, frames: int, copies: int) -> Any:
    """Computes Normalised.rows on any device."""
    patches = len(rows) // frames
    values = _looked_up(table, rows.view(patches, frames, -1, 3).permute(0, 3, 1, 2))
    return values[:, :, :, None].expand(-1, -1, -1, copies, -1).reshape(patches, -1)


def pictures_by_torch(table: Any, patches: Any, height: int, width: int) -> Any:
    """Computes Normalised.pictures on any device."""
    side = _PATCH * _MERGE
    rows, columns = -(-height // side), -(-width // side)
    groups = patches.view(-1, rows, columns, _MERGE, _MERGE, _PATCH, _PATCH, 3)
    whole = groups.permute(0, 7, 1, 3, 5, 2, 4, 6).reshape(-1, 3, rows * side, columns * side)
    return _looked_up(table, whole[:, :, :height, :width])


def _looked_up(table: Any, values: Any) -> Any:
    """Returns the table's values for bytes [n, 3, ., .], by channel."""
    import torch

    channels = torch.arange(3, device=values.device)[:, None, None]
    return table.to(values.device)[channels, values.long()]


def _lent(pixels: Any) -> Any:
    from torch.utils.dlpack import to_dlpack

    return to_dlpack(pixels.contiguous())


def _taken_over(capsule: Any) -> Any:
    from torch.utils.dlpack import from_dlpack

    return from_dlpack(capsule)


_FAMILIES: Dict[str, Callable[[Mapping[str, Any]], Family]] = {
    "internvl": _OneSize, "llava": _OneSize, "llava_onevision": _LlavaOneVision, "qwen2_audio": _Qwen2Audio,
    "qwen2_vl": _QwenVl, "whisper": _Whisper}
