"""Which `processing_class` a Trainer may have: one that prepares samples as the loader's model directory does. The
Trainer saves it beside the weights, and whoever loads both prepares samples by it."""

import json
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Tuple

import transformers

# Keys of a processor that do not decide what a sample becomes: names of classes, and what a caller gets back.
_NOT_COMPARED = ("processor_class", "padding_side", "padding_value", "device", "data_format", "input_data_format")
_SHOWN = 40  # characters of a text that a message shows


class Difference(NamedTuple):
    """One difference.

    Attributes:
        of: the name of what differs.
        theirs: what the given object has.
        ours: what the directory has.
    """

    of: str
    theirs: str
    ours: str


def check_processing_class(given: Any, directory: str, image_size: Mapping[str, int]) -> None:
    """Raises ValueError where a tokenizer, processor or media processor differs from the one that its class loads from
    the loader's model directory: in its vocabulary, its template, or a number by which it prepares media.

    image_size: sizes of pictures that the loader has in place of the directory's."""
    name = type(given).__name__
    remedy = (f"load it from that directory ({name}.from_pretrained({directory!r})), or give the loader a directory to "
              "which this one was saved (save_pretrained), with the model's config.json")
    if image_size:
        sizes = ", ".join(f"{key}={size}" for key, size in image_size.items())
        remedy = (f"load it from that directory, and its image processor with the loader's image_size "
                  f"(from_pretrained({directory!r}, {sizes})), or leave image_size= of the loader out")
    try:
        own = _with_size(type(given).from_pretrained(directory), directory, image_size)
    except (OSError, ValueError, TypeError) as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise ValueError(f"processing_class: {directory}, by which the loader prepares samples, has nothing that "
                         f"{name} loads ({first}), so the saved model would have another one: {remedy}") from None
    for found in _differences(given, own):
        raise ValueError(f"processing_class: {found.of} of this {name} is {found.theirs}, and the loader prepares "
                         f"samples by {directory}, where it is {found.ours}: the Trainer would save another one than "
                         f"it trains with: {remedy}")


def _with_size(own: Any, directory: str, image_size: Mapping[str, int]) -> Any:
    """Returns a processor of the directory whose image processor has the sizes of `image_size`."""
    if not image_size:
        return own
    if isinstance(own, transformers.ProcessorMixin):
        own.image_processor = type(own.image_processor).from_pretrained(directory, **image_size)
        return own
    is_tokenizer = isinstance(own, transformers.PreTrainedTokenizerBase)
    return own if is_tokenizer else type(own).from_pretrained(directory, **image_size)


def _differences(given: Any, own: Any) -> Iterator[Difference]:
    if isinstance(given, transformers.ProcessorMixin):
        yield from _of_templates("chat_template", given.chat_template, own.chat_template)
        parts = given.get_attributes()
        yield from _of_settings(_settings(given, parts), _settings(own, parts))
        for name in parts:
            for found in _of_part(getattr(given, name, None), getattr(own, name, None)):
                yield found._replace(of=f"{name}.{found.of}")
        return
    yield from _of_part(given, own)


def _of_part(given: Any, own: Any) -> Iterator[Difference]:
    if given is None or own is None:  # A processor may lack one, e.g. that of videos.
        return
    if isinstance(given, transformers.PreTrainedTokenizerBase):
        yield from _of_tokenizers(given, own)
        yield from _of_templates("chat_template", given.chat_template, own.chat_template)
    else:
        yield from _of_settings(_settings(given), _settings(own))


def _of_tokenizers(given: Any, own: Any) -> Iterator[Difference]:
    theirs, ours = given.get_vocab(), own.get_vocab()
    if len(theirs) != len(ours):
        yield Difference("the vocabulary", f"one of {len(theirs)} tokens", f"one of {len(ours)} tokens")
    for token in sorted(theirs, key=theirs.__getitem__):
        if theirs[token] != ours.get(token):
            yield Difference(f"the id of {token!r}", str(theirs[token]), str(ours.get(token, "none")))
    # Two of one vocabulary may cut text otherwise. Truncation and padding are a caller's.
    whole, ours_whole = _pipeline(given), _pipeline(own)
    for part, value in whole.items():
        if part not in ("truncation", "padding") and part in ours_whole and value != ours_whole[part]:
            yield Difference(part, _short(value), _short(ours_whole[part]))


def _pipeline(tokenizer: Any) -> Dict[str, Any]:
    """Returns the parts of a tokenizer's file; none for one that has no such file."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    parts: Dict[str, Any] = json.loads(backend.to_str()) if backend is not None else {}
    return parts


def _of_templates(name: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    if theirs == ours:
        return
    if not (isinstance(theirs, str) and isinstance(ours, str)):
        yield Difference(name, _short(theirs), _short(ours))
        return
    shared = min(len(theirs), len(ours))
    at = next((i for i in range(shared) if theirs[i] != ours[i]), shared)
    yield Difference(f"{name} from character {at}", _short(theirs[at:]), _short(ours[at:]))


def _of_settings(theirs: Dict[str, Any], ours: Dict[str, Any]) -> Iterator[Difference]:
    for key, value in theirs.items():
        if key in ours and value != ours[key]:
            yield Difference(key, _short(value), _short(ours[key]))


def _settings(processor: Any, parts: Tuple[str, ...] = ()) -> Dict[str, Any]:
    """Returns the numbers by which it prepares media, as they are written to a file."""
    settings = json.loads(json.dumps(processor.to_dict(), default=str))
    return {key: value for key, value in settings.items()
            if not (key in _NOT_COMPARED or key in parts or key.endswith("_type") or key.startswith("return_"))}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 2 * _SHOWN else f"{text[:_SHOWN]}..."
