"""Keys of turns and of their parts that no model sees: neither this package nor the chat template reads them."""

import collections
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

from isocost.base.counted import counted
from isocost.tokens.conversation import REASONING, Conversation, Message

Place = Tuple[str, str]  # where a key stands, the role of a turn or "TYPE part", and the key

_MOST = 1000  # distinct keys that are counted
_SHOWN = 20
_LONGEST = 100  # characters of a key
# Keys that conversation() reads, or that it puts there itself.
_OF_TURNS = frozenset(("role", "content", "tool_calls", *REASONING))
_OF_PARTS = frozenset(("type", "text", "thinking", "image", "image_url", "input_image", "video", "video_url", "audio",
                       "audio_url", "input_audio", "path", "url", "data", "bytes", "source", "format", "media_type",
                       "mime_type", "mimeType", "index"))
_THOUGHTS = REASONING[0]  # the name that represents all of them


class _Watched(Dict[str, Any]):
    """A dict that notes which of its keys are read. Whatever goes over all of them reads each."""

    def __init__(self, given: Mapping[str, Any], place: str, read: Set[Place]):
        super().__init__(given)
        self._place = place
        self._read = read

    def __getitem__(self, key: str) -> Any:
        self._read.add((self._place, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._read.add((self._place, key))
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._read.add((self._place, str(key)))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._read_all()
        return super().__iter__()

    def keys(self) -> Any:
        self._read_all()
        return super().keys()

    def values(self) -> Any:
        self._read_all()
        return super().values()

    def items(self) -> Any:
        self._read_all()
        return super().items()

    def __repr__(self) -> str:
        self._read_all()
        return super().__repr__()

    def _read_all(self) -> None:
        self._read.update((self._place, key) for key in super().keys())


def watched(messages: List[Message], read: Set[Place]) -> List[Message]:
    """Returns messages for a template, whose reading of keys is noted in `read`; the messages themselves if they
    have no keys that could stay unread."""
    return [_watched_message(message, read) for message in messages]


def _watched_message(message: Message, read: Set[Place]) -> Message:
    if not any(True for _place in _places(message)):
        return message
    content = message.get("content")
    if isinstance(content, list):
        message = {**message, "content": [_Watched(part, f"{part['type']} part", read) for part in content]}
    return _Watched(message, message["role"], read)


def _places(message: Message) -> Iterator[Place]:
    """Yields the keys of a message that a template must read, or no model sees them."""
    role = message["role"]
    for key, value in message.items():
        if key not in _OF_TURNS and value not in ("", [], {}):
            yield role, key
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    if any(message.get(key) for key in REASONING) or any(part["type"] == "thinking" for part in parts):
        yield role, _THOUGHTS
    for part in parts:
        for key in part:
            if key not in _OF_PARTS:
                yield f"{part['type']} part", key


class SeenKeys(NamedTuple):
    """Keys of conversations.

    Attributes:
        samples: number of conversations with each key that a template must read.
        read: the keys that the template has read.
    """

    samples: Mapping[Place, int] = {}
    read: FrozenSet[Place] = frozenset()

    def plus(self, other: "SeenKeys") -> "SeenKeys":
        samples = collections.Counter(self.samples)
        for place, count in other.samples.items():
            if place in samples or len(samples) < _MOST:
                samples[place] += count
        return SeenKeys(dict(samples), self.read | other.read)

    def unread(self) -> Dict[Place, int]:
        """Returns the keys that were not read, with the number of conversations that have them."""
        return {place: count for place, count in sorted(self.samples.items()) if not self._is_read(*place)}

    def _is_read(self, place: str, key: str) -> bool:
        names: Sequence[str] = REASONING if key == _THOUGHTS else (key,)
        return any((place, name) in self.read for name in names)

    def __str__(self) -> str:
        """A sentence on the keys that were not read; "" if all were."""
        unread = [f"{_named(key)} in {_where(place)} of {counted(count, 'sample')}"
                  for (place, key), count in self.unread().items()]
        more = f", and {len(unread) - _SHOWN} more" if len(unread) > _SHOWN else ""
        if not unread:
            return ""
        return f"no model sees {', '.join(unread[:_SHOWN])}{more}; docs/models/tokens.md says what is read"


def _named(key: str) -> str:
    return "thoughts (parts of type 'thinking', or 'reasoning_content')" if key == _THOUGHTS else repr(key[:_LONGEST])


def _where(place: str) -> str:
    return f"{place}s" if place.endswith(" part") else f"turns of the {place}"


def keys_of(conversation: Conversation) -> Set[Place]:
    """Returns the keys of a conversation that only a template can show to the model."""
    found = {place for message in conversation.messages for place in _places(message)}
    return found | set(conversation.without_effect)
