"""A sample's text as a conversation, in the form that chat templates take."""

import json as json_module
import re
import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from isocost.counted import counted

Message = Dict[str, Any]

MEDIA = ("image", "video", "audio")
LABELS = ("assistant", "all", "last")
DEFAULT_LABELS = "assistant"
MEDIA_MARK = "<media>"  # in a caption template
ROLES = ("system", "developer", "user", "assistant", "tool")

_SPEAKERS = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
_PLACEHOLDER = re.compile("<(image|video|audio)>")
# Types of media parts: the modality, and OpenAI's name of the object that holds the address.
_PART_TYPES = {"image": ("image", ""), "image_url": ("image", "image_url"), "video": ("video", ""),
               "video_url": ("video", "video_url"), "audio": ("audio", ""), "audio_url": ("audio", "audio_url"),
               "input_audio": ("audio", "input_audio")}
# Hugging Face's names of what an assistant thought before it answered; templates read the first or the second.
_REASONING = ("reasoning_content", "thinking", "reasoning")


class ConversationOptions(NamedTuple):
    """How samples become conversations.

    Attributes:
        labels: "assistant", "all" or "last": the turns that a model learns to write.
        caption_template: the user's turn before a caption; its `<media>` stands for the sample's media.
        placeholders: {modality: token} of the model's media placeholders, which no text may contain.
    """

    labels: str = "assistant"
    caption_template: str = MEDIA_MARK
    placeholders: Dict[str, str] = {}


class Conversation(NamedTuple):
    """A conversation as chat templates take it.

    Attributes:
        key: str, the sample's key.
        messages: list of {"role", "content", ...}. Content is a string as given, or a list of typed parts, or left out
            beside tool calls. Media parts have the type "image", "video" or "audio"; the n-th image part is the
            sample's n-th image. Adjacent text parts stay apart.
        tools: list of the tools' JSON schemas; None where the sample has none.
        media: {modality: number}, for each of "image", "video" and "audio".
        videos: seconds of the sampled frames of each video, for models whose text depends on them.
        weights: weight in the loss of each of the assistant's messages, as float32 has it; empty where all are 1.
    """

    key: str
    messages: List[Message]
    tools: Optional[List[Any]]
    media: Dict[str, int]
    videos: Sequence[Sequence[float]] = ()
    weights: Sequence[float] = ()


def check_options(options: ConversationOptions) -> None:
    """Raises ValueError for labels and caption templates that mean nothing."""
    if options.labels not in LABELS:
        raise ValueError(f"labels = {options.labels!r}: must be one of {', '.join(LABELS)}")
    count = options.caption_template.count(MEDIA_MARK)
    if count != 1:
        raise ValueError(f"caption template {options.caption_template!r} has {MEDIA_MARK} {counted(count, 'time')}: "
                         f"write {MEDIA_MARK} once, where the media go, as in '{MEDIA_MARK}Describe this.'")


def conversation(key: str, json: Optional[bytes], texts: Sequence[str], media: Sequence[str],
                 options: ConversationOptions, videos: Sequence[Sequence[float]] = ()) -> Conversation:
    """Returns the conversation of a sample.

    JSON with `messages` or `conversations` goes before texts. A sample with neither is a caption: a user turn that
    holds the media, and an assistant turn that holds the texts. In `conversations`, and in `messages` without typed
    media parts, `<image>`, `<video>` and `<audio>` in texts stand for the sample's media; nothing around them is
    removed, so a line break after `<image>` stays. `weight` in a message of the assistant, a number of at least 0,
    scales its loss; templates do not see it.

    Args:
        key: the sample's key.
        json: the sample's JSON part; None where it has none.
        texts: the sample's text parts.
        media: modality of each of the sample's media, in the sample's order.
        options: how to read it.
        videos: as Conversation has them.

    Raises: ValueError that says what is wrong with the sample.
    """
    document = {} if json is None else read_document(json)
    weights: List[float] = []
    if "messages" in document:
        messages = _openai_messages(document["messages"], any(modality in MEDIA for modality in media))
        weights = _weights(document["messages"], messages, options.labels)
    elif "conversations" in document:
        messages = _llava_messages(document["conversations"])
        weights = _weights(document["conversations"], messages, options.labels)
    elif texts:
        messages = _caption_messages(texts, media, options.caption_template)
    elif json is None:
        raise ValueError("the sample has neither a JSON part nor a text")
    else:
        raise ValueError("the JSON part has neither 'messages' nor 'conversations', and the sample has no text")
    result = Conversation(key, messages, _tools(document.get("tools")),
                          {modality: media.count(modality) for modality in MEDIA}, videos, weights)
    _check_media(result)
    _check_placeholders(result, options.placeholders)
    if options.labels != "all" and not any(message["role"] == "assistant" for message in messages):
        raise ValueError("the conversation has no assistant turn, so it has no labels")
    return result


def read_document(json: bytes) -> Dict[str, Any]:
    """Returns the object in a sample's JSON part. Raises ValueError where it is none."""
    try:
        document = json_module.loads(json.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("the JSON part is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the JSON part cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"the JSON part is {_kind(document)}, and no object with 'messages' or 'conversations'")
    return document


def _openai_messages(given: Any, has_media: bool) -> List[Message]:
    """Messages with "role" and "content", as OpenAI and Hugging Face write them."""
    messages = []
    for turn, message in _turns(given, "messages"):
        message = {name: value for name, value in message.items() if value is not None and name != "weight"}
        role = message.get("role")
        if role not in ROLES:
            raise ValueError(f"turn {turn}: role {role!r} is none of {', '.join(ROLES)}")
        if "content" in message:
            message["content"] = _content(message["content"], turn)
        elif not message.get("tool_calls"):
            raise ValueError(f"turn {turn} has no content")
        messages.append(_with_reasoning(message))
    typed = any(part["type"] in MEDIA for message in messages for part in _parts(message))
    if has_media and not typed:
        for message in messages:
            if isinstance(message.get("content"), str):
                message["content"] = _split(message["content"])
    return messages


def _llava_messages(given: Any) -> List[Message]:
    """Turns with "from" and "value", as LLaVA writes them."""
    messages = []
    for turn, entry in _turns(given, "conversations"):
        speaker, value = entry.get("from"), entry.get("value")
        if not isinstance(speaker, str) or speaker not in _SPEAKERS:
            raise ValueError(f"turn {turn}: 'from' is {speaker!r}, and none of {', '.join(_SPEAKERS)}")
        if not isinstance(value, str):
            raise ValueError(f"turn {turn}: 'value' is {_kind(value)}, and no string")
        messages.append({"role": _SPEAKERS[speaker], "content": _split(value)})
    return messages


def _weights(given: List[Message], messages: List[Message], labels: str) -> List[float]:
    """Returns the weights of the assistant's messages; none where all are 1."""
    weights = []
    for turn, (entry, message) in enumerate(zip(given, messages), 1):
        weight = _weight(entry.get("weight"), turn)
        if message["role"] == "assistant":
            weights.append(weight)
        elif labels == "all" and weight != 1:
            raise ValueError(f"turn {turn}: 'weight' is {weight:g} in a turn of the {message['role']}, and with "
                             "--labels all only turns of the assistant can have another than 1")
    return weights if any(weight != 1 for weight in weights) else []


def _weight(given: Any, turn: int) -> float:
    """The weight as float32 has it; 1 where none is given."""
    if given is None:
        return 1.0
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise ValueError(f"turn {turn}: 'weight' is {_kind(given)}, and no number")
    try:
        weight = float(struct.unpack("<f", struct.pack("<f", given))[0])
    except (OverflowError, struct.error):
        weight = float("inf")
    if not 0 <= weight < float("inf"):
        raise ValueError(f"turn {turn}: 'weight' is {given}: it must be a finite number of at least 0")
    return weight


def _caption_messages(texts: Sequence[str], media: Sequence[str], template: str) -> List[Message]:
    before, _mark, after = template.partition(MEDIA_MARK)
    user = [_text(before)] if before else []
    user += [{"type": modality} for modality in media if modality in MEDIA]
    user += [_text(after)] if after else []
    caption: Union[str, List[Message]] = texts[0] if len(texts) == 1 else [_text(text) for text in texts]
    # Templates that want users and assistants to alternate need the user's turn even where it says nothing.
    return [{"role": "user", "content": user or ""}, {"role": "assistant", "content": caption}]


def _turns(given: Any, name: str) -> List[Tuple[int, Message]]:
    """The turns, with their numbers from 1."""
    if not isinstance(given, list):
        raise ValueError(f"'{name}' is {_kind(given)}, and no list")
    if not given:
        raise ValueError(f"the conversation is empty: '{name}' has no turn")
    for turn, message in enumerate(given, 1):
        if not isinstance(message, dict):
            raise ValueError(f"turn {turn} is {_kind(message)}, and no object")
    return list(enumerate(given, 1))


def _content(given: Any, turn: int) -> Union[str, List[Message]]:
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise ValueError(f"turn {turn}: content is {_kind(given)}, and neither a string nor a list of parts")
    return [_part(part, turn, number) for number, part in enumerate(given, 1)]


def _part(given: Any, turn: int, number: int) -> Message:
    """Returns the part as Hugging Face writes it."""
    if not isinstance(given, dict):
        raise ValueError(f"turn {turn}, part {number} is {_kind(given)}, and no object with a 'type'")
    kind = given.get("type")
    if kind == "text":
        if not isinstance(given.get("text"), str):
            raise ValueError(f"turn {turn}, part {number}: 'text' is {_kind(given.get('text'))}, and no string")
        return given
    if not isinstance(kind, str) or kind not in _PART_TYPES:
        raise ValueError(f"turn {turn}, part {number}: type {kind!r} is none of text, {', '.join(_PART_TYPES)}")
    modality, holder = _PART_TYPES[kind]
    if not holder:
        return given
    held = given.get(holder)
    return {"type": modality, "url": held.get("url", "") if isinstance(held, dict) else held}


def _with_reasoning(message: Message) -> Message:
    """Returns the message with its reasoning under both names that templates read, as transformers 5 does."""
    reasoning = next((message[name] for name in _REASONING if name in message), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _split(text: str) -> Union[str, List[Message]]:
    """Returns text and media parts of a text with placeholders; the text itself where it has none."""
    pieces = _PLACEHOLDER.split(text)
    if len(pieces) == 1:
        return text
    parts = [{"type": piece} if i % 2 else _text(piece) for i, piece in enumerate(pieces)]
    return [part for part in parts if part.get("text") != ""]


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _tools(given: Any) -> Optional[List[Any]]:
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(tool, dict) for tool in given):
        raise ValueError(f"'tools' is {_kind(given)}, and no list of objects")
    return given


def _parts(message: Message) -> List[Message]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _check_media(result: Conversation) -> None:
    kinds = [part["type"] for message in result.messages for part in _parts(message)]
    for modality in MEDIA:
        found, expected = kinds.count(modality), result.media[modality]
        if found != expected:
            raise ValueError(f"the conversation has {counted(found, f'{modality} placeholder')}, and the sample has "
                             f"{counted(expected, f'{modality} part')}")


def _check_placeholders(result: Conversation, placeholders: Dict[str, str]) -> None:
    """Raises ValueError where a text spells a media placeholder, which the model would take for a medium."""
    everything = "\0".join(strings([result.messages, result.tools]))
    for modality, token in placeholders.items():
        if token not in everything:
            continue
        where = next((f"turn {turn}" for turn, message in enumerate(result.messages, 1)
                      if any(token in text for text in strings(message))), "'tools'")
        raise ValueError(f"{where}: a text contains {token}, the model's placeholder for {modality} parts: write a "
                         "media part there, or remove it from the text")


def strings(value: Any) -> Iterator[str]:
    """The strings in a JSON value, at any depth, in no order."""
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack += value
            stack += value.values()
        elif isinstance(value, list):
            stack += value


def _kind(value: Any) -> str:
    """What JSON calls a value, with its article."""
    if value is None:
        return "nothing"
    kinds = {bool: "a boolean", dict: "an object", list: "a list", str: "a string"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "a number")
