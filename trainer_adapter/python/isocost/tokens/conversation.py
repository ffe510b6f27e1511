"""A sample's text as a conversation, in the form that chat templates take.

make-shards reads the media of the same grammar in C++ (loader/dataset/records/internal/conversation_media.h);
tests/conversations.json holds both to it, case by case.
"""

import json as json_module
import re
import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from isocost.base.counted import counted

Message = Dict[str, Any]

MEDIA = ("image", "video", "audio")
LABELS = ("assistant", "all", "last")
DEFAULT_LABELS = "assistant"
MEDIA_MARK = "<media>"  # the placeholder in a caption template
ROLES = ("system", "developer", "user", "assistant", "tool")

# Roles by all names that a turn may have for them, in lower case and with "_" for "-": Hugging Face's, ShareGPT's, and
# those of other data sets. make-shards has the same table (loader/dataset/records/internal/turn_roles.cc).
_SPEAKERS = {**{role: role for role in ROLES}, "human": "user", "gpt": "assistant", "chatgpt": "assistant",
             "bing": "assistant", "bard": "assistant", "model": "assistant", "ai": "assistant", "bot": "assistant",
             "chatbot": "assistant", "function_call": "assistant", "tool_call": "assistant", "observation": "tool",
             "tool_response": "tool", "function": "tool", "function_response": "tool"}
_CALLERS = ("function_call", "tool_call")  # turns whose text may be calls in JSON
_PLACEHOLDER = re.compile("<(image|video|audio)>")
# Types of media parts: the modality, and OpenAI's name of the object that holds the address.
_PART_TYPES = {"image": ("image", ""), "image_url": ("image", "image_url"), "input_image": ("image", "image_url"),
               "video": ("video", ""), "video_url": ("video", "video_url"), "audio": ("audio", ""),
               "audio_url": ("audio", "audio_url"), "input_audio": ("audio", "input_audio")}
_TEXT_TYPES = ("text", "input_text", "output_text")
_UNTYPED = ("image", "video", "audio", "image_url", "text")  # keys that name the type of a part without "type"
# Members of a part that name a medium.
_MEDIA_MEMBERS = (*_PART_TYPES, "path", "url", "data", "bytes", "source")
_THINKING = "thinking"  # the type of a part that holds thoughts
# Hugging Face's names of the assistant's reasoning before an answer; templates read the first or the second.
REASONING = ("reasoning_content", "thinking", "reasoning")
# Keys of a turn that weigh its loss: numbers (OpenAI's and ours, LLaMA-Factory's), and switches (ms-swift's,
# axolotl's).
_WEIGHTS = ("weight", "loss_weight", "loss", "train")
_SWITCHES = ("loss", "train")


class ConversationOptions(NamedTuple):
    """Options for how samples become conversations.

    Attributes:
        labels: "assistant", "all" or "last": the turns that a model learns to write.
        caption_template: the user's turn before a caption; its `<media>` represents the sample's media.
        placeholders: {modality: token} of the model's media placeholders, which no text may contain.
    """

    labels: str = "assistant"
    caption_template: str = MEDIA_MARK
    placeholders: Dict[str, str] = {}


class Conversation(NamedTuple):
    """A conversation in the form that chat templates take.

    Attributes:
        key: str, the sample's key.
        messages: list of {"role", "content", ...}. Content is a string as given, or a list of typed parts, or left out
            beside tool calls. Media parts have the type "image", "video" or "audio"; the n-th image part is the
            sample's n-th image. Adjacent text parts stay apart.
        tools: list of the tools' JSON schemas; None if the sample has none.
        media: {modality: number}, for each of "image", "video" and "audio".
        videos: seconds of the sampled frames of each video, for models whose text depends on them.
        weights: weight in the loss of each of the assistant's messages, as float32 has it; empty if all are 1.
        without_effect: (role, key) of the keys that would have a turn learned which has no labels.
    """

    key: str
    messages: List[Message]
    tools: Optional[List[Any]]
    media: Dict[str, int]
    videos: Sequence[Sequence[float]] = ()
    weights: Sequence[float] = ()
    without_effect: Sequence[Tuple[str, str]] = ()


def check_options(options: ConversationOptions) -> None:
    """Raises ValueError for invalid labels and caption templates."""
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
    holds the media, and an assistant turn that holds the texts. A turn has a role (`role` or `from`) and a content
    (`content` or `value`), in either list. If no content has a typed media part, `<image>`, `<video>` and `<audio>`
    in texts represent the sample's media, but not in `messages` of a sample without media; nothing around them is
    removed, so a line break after `<image>` stays. Beside typed media parts they are text. `weight` or `loss_weight` in
    a message of the assistant, a number of at least 0, scales its loss, and `loss` or `train`, true or false, is a
    weight of 1 or 0; templates do not see these. Parts of the type `thinking` are the assistant's thoughts.

    Roles of other data sets are read too, with capitals or without: a `model` is the assistant, and so is a
    `function_call`, with `tool_calls` if its text is one call or a list of calls in JSON; an `observation` is a turn of
    the tool. Arguments of a call that are a JSON object in a string become that object. `system` beside the list is the
    text of a system's turn before all others, and `tools` may be a list, or a string that holds one in JSON.

    Args:
        key: the sample's key.
        json: the sample's JSON part; None if it has none.
        texts: the sample's text parts.
        media: modality of each of the sample's media, in the sample's order.
        options: how to read it.
        videos: as Conversation has them.

    Raises: ValueError that says what is wrong with the sample.
    """
    document = {} if json is None else read_document(json)
    weights: List[float] = []
    without_effect: List[Tuple[str, str]] = []
    system = None
    # In a table with records of both forms, the other column is null.
    name = next((name for name in ("messages", "conversations") if document.get(name) is not None), None)
    if name is not None:
        try:
            messages = _messages(document[name], name, any(modality in MEDIA for modality in media))
        except RecursionError:
            raise ValueError("the JSON part is nested too deeply") from None
        weights, without_effect = _weights(document[name], messages, options.labels)
        system = _system(document.get("system"), messages)
    elif "" in texts:
        raise ValueError("a text of the sample is empty: there is nothing to learn from it")
    elif texts:
        messages = _caption_messages(texts, media, options.caption_template)
    elif json is None:
        raise ValueError("the sample has neither a JSON part nor a text")
    else:
        raise ValueError("the JSON part has neither 'messages' nor 'conversations', and the sample has no text")
    tools = _tools(document.get("tools"))
    _check_media(messages, media)
    _check_placeholders(messages, {"tools": tools, "system": system}, options.placeholders)
    if options.labels != "all" and not any(message["role"] == "assistant" for message in messages):
        raise ValueError("the conversation has no assistant turn, so it has no labels")
    if system is not None:
        messages = [{"role": "system", "content": system}, *messages]
    return Conversation(key, messages, tools, {modality: media.count(modality) for modality in MEDIA}, videos, weights,
                        without_effect)


def read_document(json: bytes) -> Dict[str, Any]:
    """Returns the object in a sample's JSON part. Raises ValueError if it is none."""
    try:
        document = json_module.loads(json.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("the JSON part is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the JSON part cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"the JSON part is {_kind(document)}, and no object with 'messages' or 'conversations'")
    return document


def _messages(given: Any, name: str, has_media: bool) -> List[Message]:
    """Returns the turns in the list `name`, in Hugging Face's form of messages."""
    messages = [_message(entry, turn) for turn, entry in _turns(given, name)]
    typed = any(part["type"] in MEDIA for message in messages for part in _parts(message))
    # Text of `messages` may contain such tags as plain text; that of `conversations` can name media in no other way.
    if not typed and (has_media or name == "conversations"):
        for turn, message in enumerate(messages, 1):
            if "content" in message:
                message["content"] = _split_content(message["content"])
            if message["role"] == "assistant" and any(part["type"] in MEDIA for part in _parts(message)):
                raise ValueError(f"turn {turn}: the assistant's text names a medium by its placeholder, but a model "
                                 "reads media and writes text: put it into a user's turn")
    return messages


def _message(entry: Message, turn: int) -> Message:
    entry = {name: value for name, value in entry.items() if value is not None and name not in _WEIGHTS}
    given, content = _either(entry, "from", "role"), _either(entry, "value", "content")
    speaker = given.lower().replace("-", "_") if isinstance(given, str) else None
    if speaker not in _SPEAKERS:
        raise ValueError(f"turn {turn}: role {given!r} is none of {', '.join(_SPEAKERS)}")
    message: Message = {"role": _SPEAKERS[speaker]}
    calls = _calls(content) if speaker in _CALLERS else None
    if calls is not None:
        message["tool_calls"] = calls
    elif content is not None:
        message["content"] = _content(content, message["role"], turn)
    elif not entry.get("tool_calls"):
        raise ValueError(f"turn {turn} has no content")
    _check_calls(entry.get("tool_calls"), turn)
    message = {**message, **entry}
    if message.get("tool_calls"):
        message["tool_calls"] = [_with_read_arguments(call) for call in message["tool_calls"]]
    return _with_reasoning(message)


def _either(entry: Message, name: str, other: str) -> Any:
    """Removes a member of a turn that may have either name, and returns its value. If both exist, the first counts."""
    second = entry.pop(other, None)
    return entry.pop(name, second)


def _calls(text: Any) -> Optional[List[Message]]:
    """Returns the tool calls that a text holds, in OpenAI's form; None if it holds anything else."""
    try:
        given = json_module.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    calls = given if isinstance(given, list) else [given]
    if not calls or not all(isinstance(call, dict) and isinstance(call.get("name"), str) and "arguments" in call
                            for call in calls):
        return None
    return [{"type": "function", "function": call} for call in calls]


def _check_calls(calls: Any, turn: int) -> None:
    """Raises ValueError if a call names no function: templates write nothing for its name."""
    if not calls:
        return
    if not isinstance(calls, list):
        raise ValueError(f"turn {turn}: 'tool_calls' is {_kind(calls)}, and no list")
    for number, call in enumerate(calls, 1):
        function = (call.get("function") or call) if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ValueError(f"turn {turn}: call {number} of 'tool_calls' names no function")


def _with_read_arguments(call: Message) -> Message:
    """Returns a call without members that are null, whose arguments are an object where they are one in JSON.

    Templates write arguments as JSON, so a string would become JSON within JSON. A table's column of arguments has
    those of all functions, with null for those that a function lacks."""
    call = _without_nulls(call)
    holder = call.get("function") or call
    arguments = holder.get("arguments")
    if isinstance(arguments, str):
        try:
            read = json_module.loads(arguments) if arguments else {}
        except (ValueError, RecursionError):
            return call
        if isinstance(read, dict):
            holder["arguments"] = read
    return call


def _without_nulls(value: Any) -> Any:
    """Returns a copy of a JSON value in which no object has a member that is null."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _system(given: Any, messages: List[Message]) -> Optional[str]:
    """Returns the text of the turn before all others; None if there is none."""
    if given is None or given == "":
        return None
    if not isinstance(given, str):
        raise ValueError(f"'system' is {_kind(given)}, and no string")
    if messages[0]["role"] != "system":
        return given
    if messages[0].get("content") != given:
        raise ValueError("the sample has a 'system' beside its conversation, and turn 1 is another one of the system: "
                         "keep one of them")
    return None


def _weights(given: List[Message], messages: List[Message], labels: str) -> Tuple[List[float], List[Tuple[str, str]]]:
    """Returns the weights of the assistant's messages, none if all are 1; and the keys that have no effect, as
    Conversation.without_effect has them."""
    weights = []
    without_effect = []
    for turn, (entry, message) in enumerate(zip(given, messages), 1):
        key, weight = _weight(entry, turn)
        if message["role"] == "assistant":
            weights.append(weight)
        elif labels == "all" and weight != 1:
            raise ValueError(f"turn {turn}: {key!r} is {_written(entry[key])} in a turn of the {message['role']}, and "
                             "with --labels all only turns of the assistant can have another weight than 1")
        elif labels != "all" and key in _SWITCHES and weight:
            without_effect.append((message["role"], key))
    return weights if any(weight != 1 for weight in weights) else [], without_effect


def _weight(entry: Message, turn: int) -> Tuple[str, float]:
    """Returns the weight of a turn as float32 has it, and the key that gives it; 1 if none does."""
    found = [(key, _switch(key, entry[key], turn) if key in _SWITCHES else _number(key, entry[key], turn))
             for key in _WEIGHTS if entry.get(key) is not None]
    for key, weight in found[1:]:
        if weight != found[0][1]:
            raise ValueError(f"turn {turn}: {found[0][0]!r} is {_written(entry[found[0][0]])} and {key!r} is "
                             f"{_written(entry[key])}, which are two weights: keep one of them")
    return found[0] if found else ("", 1.0)


def _number(key: str, given: Any, turn: int) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise ValueError(f"turn {turn}: {key!r} is {_kind(given)}, and no number")
    try:
        weight = float(struct.unpack("<f", struct.pack("<f", given))[0])
    except (OverflowError, struct.error):
        weight = float("inf")
    if not 0 <= weight < float("inf"):
        raise ValueError(f"turn {turn}: {key!r} is {given}: it must be a finite number of at least 0")
    return weight


def _switch(key: str, given: Any, turn: int) -> float:
    # A number may be a loss that somebody measured.
    if not isinstance(given, (bool, int, float)) or given not in (0, 1):
        raise ValueError(f"turn {turn}: {key!r} is {_kind(given)}, and neither true nor false")
    return float(given)


def _written(value: Any) -> str:
    return json_module.dumps(value)


def _caption_messages(texts: Sequence[str], media: Sequence[str], template: str) -> List[Message]:
    before, _mark, after = template.partition(MEDIA_MARK)
    user = [_text(before)] if before else []
    user += [{"type": modality} for modality in media if modality in MEDIA]
    user += [_text(after)] if after else []
    caption: Union[str, List[Message]] = texts[0] if len(texts) == 1 else [_text(text) for text in texts]
    # Templates that want users and assistants to alternate need the user's turn even if it is empty.
    return [{"role": "user", "content": user or ""}, {"role": "assistant", "content": caption}]


def _turns(given: Any, name: str) -> List[Tuple[int, Message]]:
    """Yields the turns, with their numbers from 1."""
    if not isinstance(given, list):
        raise ValueError(f"'{name}' is {_kind(given)}, and no list")
    if not given:
        raise ValueError(f"the conversation is empty: '{name}' has no turn")
    for turn, message in enumerate(given, 1):
        if not isinstance(message, dict):
            raise ValueError(f"turn {turn} is {_kind(message)}, and no object")
    return list(enumerate(given, 1))


def _content(given: Any, role: str, turn: int) -> Union[str, List[Message]]:
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise ValueError(f"turn {turn}: content is {_kind(given)}, and neither a string nor a list of parts")
    return [_part(part, role, turn, number) for number, part in enumerate(given, 1) if part is not None]


def _names_no_medium(value: Any) -> bool:
    """Returns whether a value that could name a medium names none, like a column of a table that another row needs."""
    if isinstance(value, (list, dict)):
        return all(map(_names_no_medium, value.values() if isinstance(value, dict) else value))
    return value is None or value == ""


def _part(given: Any, role: str, turn: int, number: int) -> Message:
    """Returns the part in Hugging Face's form."""
    if isinstance(given, str):
        return _text(given)
    if not isinstance(given, dict):
        raise ValueError(f"turn {turn}, part {number} is {_kind(given)}, and no object with a 'type'")
    # Templates ask whether a part has a key, and do not look at its value.
    part: Message = {name: value for name, value in given.items()
                     if value is not None and not (name in _MEDIA_MEMBERS and _names_no_medium(value))}
    if "type" not in part:  # In {"image": "a.jpg"} and {"text": "..."}, the key is the type.
        part["type"] = next((name for name in _UNTYPED if name in part), None)
    kind = part.get("type")
    if kind in _TEXT_TYPES:
        if not isinstance(part.get("text"), str):
            raise ValueError(f"turn {turn}, part {number}: 'text' is {_kind(part.get('text'))}, and no string")
        return {**part, "type": "text"}
    if kind == _THINKING:
        return _thinking_part(part, role, turn, number)
    if not isinstance(kind, str) or kind not in _PART_TYPES:
        raise ValueError(f"turn {turn}, part {number}: type {kind!r} is none of text, {', '.join(_PART_TYPES)}, "
                         f"{_THINKING}")
    modality, holder = _PART_TYPES[kind]
    if not holder:
        return part
    held = part.get(holder)
    others = {name: value for name, value in part.items() if name not in _MEDIA_MEMBERS}
    return {**others, "type": modality, "url": held.get("url", "") if isinstance(held, dict) else held}


def _thinking_part(part: Message, role: str, turn: int, number: int) -> Message:
    """Returns a part that holds thoughts, with their text as "thinking"."""
    if role != "assistant":
        raise ValueError(f"turn {turn}, part {number}: type 'thinking' in a turn that is not the assistant's: only the "
                         "assistant's thoughts are read")
    name = next((name for name in (_THINKING, "text") if name in part), _THINKING)
    text = part.pop(name, None)
    if isinstance(text, list) and all(isinstance(each, dict) and isinstance(each.get("text"), str) for each in text):
        text = "".join(each["text"] for each in text)  # Mistral's form
    if not isinstance(text, str):
        raise ValueError(f"turn {turn}, part {number}: {name!r} is {_kind(text)}, and neither a string nor a list of "
                         "text parts")
    return {**part, _THINKING: text}


def _with_reasoning(message: Message) -> Message:
    """Returns the message with its reasoning under both names that templates read, as transformers 5 does."""
    reasoning = next((message[name] for name in REASONING if name in message), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _split_content(content: Union[str, List[Message]]) -> Union[str, List[Message]]:
    """Returns a content with media parts in place of its placeholders; the content itself if it has none."""
    if isinstance(content, str):
        return _split(content) if _PLACEHOLDER.search(content) else content
    if not any(part["type"] == "text" and _PLACEHOLDER.search(part["text"]) for part in content):
        return content
    return [piece for part in content for piece in (_split(part["text"]) if part["type"] == "text" else [part])]


def _split(text: str) -> List[Message]:
    """Returns the text and media parts of a text with placeholders."""
    pieces = _PLACEHOLDER.split(text)
    parts = [{"type": piece} if i % 2 else _text(piece) for i, piece in enumerate(pieces)]
    return [part for part in parts if part.get("text") != ""]


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _tools(given: Any) -> Optional[List[Any]]:
    """Returns the tools as a list. A string in JSON, ShareGPT's form, may leave out the object that OpenAI's form has
    around each tool."""
    if given is None or given == "":
        return None
    tools = given
    if isinstance(given, str):
        try:
            tools = json_module.loads(given)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"'tools' is a string that is no JSON: {error}") from None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError(f"'tools' is {_kind(tools)}, and no list of objects")
    if tools is given:
        return tools
    return [tool if "function" in tool or "type" in tool else {"type": "function", "function": tool} for tool in tools]


def _parts(message: Message) -> List[Message]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _check_media(messages: List[Message], media: Sequence[str]) -> None:
    kinds = [part["type"] for message in messages for part in _parts(message)]
    # A file's content is not what its record says if there are as many media of other kinds.
    differ = sum(kind in MEDIA for kind in kinds) == len(media)
    for modality in MEDIA:
        found, expected = kinds.count(modality), media.count(modality)
        if found != expected:
            contents = f"; by their content its media are {', '.join(media)}" if differ else ""
            raise ValueError(f"the conversation has {counted(found, f'{modality} placeholder')}, and the sample has "
                             f"{counted(expected, f'{modality} part')}{contents}")


def _check_placeholders(messages: List[Message], beside: Dict[str, Any], placeholders: Dict[str, str]) -> None:
    """Raises ValueError if a text spells a media placeholder, which the model would take for a medium. `beside`:
    texts beside the turns, by name."""
    everything = "\0".join(strings([messages, *beside.values()]))
    for modality, token in placeholders.items():
        if token not in everything:
            continue
        places = {**{f"turn {turn}": message for turn, message in enumerate(messages, 1)},
                  **{f"'{name}'": value for name, value in beside.items()}}
        where = next(place for place, value in places.items() if any(token in text for text in strings(value)))
        raise ValueError(f"{where}: a text contains {token}, the model's placeholder for {modality} parts: write a "
                         "media part there, or remove it from the text")


def strings(value: Any) -> Iterator[str]:
    """Yields the strings in a JSON value, at any depth, in no order."""
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
    """Returns JSON's name of the kind of a value, with its article."""
    if value is None:
        return "nothing"
    kinds = {bool: "a boolean", dict: "an object", list: "a list", str: "a string"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "a number")
