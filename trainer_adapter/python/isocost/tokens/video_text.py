"""The form of videos in models' text: each sampled frame, or pair of frames, with its time or number."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from isocost.base.counted import counted
from isocost.tokens.chat_template import Rendering, Span

_PAIR = 2  # Frames that a patch spans.


class VideoText(NamedTuple):
    """The form of videos in a model's text.

    Attributes:
        mark: what its chat template writes for a video, in which `{}` represents the video's placeholder.
        write: the text in its place, of the placeholder and the seconds of the sampled frames.
        token: name in tokenizer_config.json of the placeholder, where config.json names none.
    """

    mark: str
    write: Callable[[str, Sequence[float]], str]
    token: Optional[str] = None


def find_video_text(config: Mapping[str, Any]) -> Optional[VideoText]:
    """Returns the form for a model, by its config.json; None if a video has one placeholder and no text of its
    own."""
    return _TYPES.get(config.get("model_type", ""))


def with_frames(rendering: Rendering, text: VideoText, placeholder: str,
                videos: Sequence[Sequence[float]]) -> Rendering:
    """Returns the rendering with each video's frames in its place, and the assistant's turns at their new positions.

    videos: seconds of the sampled frames of each.
    Raises: ValueError if the template did not write each video once.
    """
    mark = text.mark.format(placeholder)
    found = rendering.text.count(mark)
    if found != len(videos) or rendering.text.count(placeholder) != found:
        raise ValueError(f"the text has {counted(found, 'video')} {mark} as the template wrote it, and the sample has "
                         f"{counted(len(videos), 'video part')}")
    pieces = rendering.text.split(mark)
    written = pieces[0]
    shifts = []  # End of each video in the old text, and how much longer the text is from there on.
    end = len(pieces[0])
    for seconds, piece in zip(videos, pieces[1:]):
        written += text.write(placeholder, seconds)
        end += len(mark)
        shifts.append((end, len(written) - end))
        written += piece
        end += len(piece)

    def moved(at: int) -> int:
        return at + next((more for place, more in reversed(shifts) if place <= at), 0)

    def all_moved(spans: Sequence[Span]) -> List[Span]:
        return [(moved(first), moved(last)) for first, last in spans]

    return rendering._replace(text=written, spans=all_moved(rendering.spans), turns=all_moved(rendering.turns))


def _with_times(placeholder: str, seconds: Sequence[float]) -> str:
    """Writes the form of Qwen3-VL and Qwen3.5: the middle of each pair; an incomplete pair has its last frame twice."""
    padded = list(seconds) + list(seconds[-1:]) * (-len(seconds) % _PAIR)
    pairs = zip(padded[::_PAIR], padded[1::_PAIR])
    return "".join(f"<{(first + last) / 2:.1f} seconds><|vision_start|>{placeholder}<|vision_end|>"
                   for first, last in pairs)


def _with_numbers(placeholder: str, seconds: Sequence[float]) -> str:
    """Writes InternVL's form."""
    return "\n".join(f"Frame{i + 1}: {placeholder}" for i in range(len(seconds)))


_TIMED = VideoText("<|vision_start|>{}<|vision_end|>", _with_times)
_TYPES: Dict[str, VideoText] = {
    "internvl": VideoText("{}", _with_numbers, token="video_token"),
    "qwen3_vl": _TIMED,
    "qwen3_vl_moe": _TIMED,
    "qwen3_5": _TIMED,
    "qwen3_5_moe": _TIMED,
}
