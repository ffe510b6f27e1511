"""The chat template of a model directory: the text that it writes, and the assistant turns in it."""

import bisect
import json
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from isocost.tokens.conversation import Conversation, Message, strings
from isocost.tokens.unread_keys import Place, watched

Span = Tuple[int, int]  # first character, and the one after the last

_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
_PROBE = "isocost-probe"
_COMPARED = 32  # characters that are compared before long texts are
_MOST_SHAPES = 10000  # distinct shapes of conversations that are remembered


class TemplateFile(NamedTuple):
    """A chat template and the file that contains it."""

    text: str
    file: str


def find_template(directory: str) -> TemplateFile:
    """Returns the template of a model directory. Raises FileNotFoundError if it has none, and ValueError if a
    file is invalid."""
    file = os.path.join(directory, "chat_template.jinja")
    if os.path.exists(file):
        with open(file, encoding="utf-8") as lines:
            return TemplateFile(lines.read(), file)
    for name in ("chat_template.json", "tokenizer_config.json"):
        file = os.path.join(directory, name)
        given = read_json(file).get("chat_template") if os.path.exists(file) else None
        if isinstance(given, list):  # several templates, with their names
            given = next((entry.get("template") for entry in given
                          if isinstance(entry, dict) and entry.get("name") == "default"), None)
        if isinstance(given, str):
            return TemplateFile(given, file)
    raise FileNotFoundError(f"{directory}: there is no chat template: neither chat_template.jinja, nor 'chat_template' "
                            "in chat_template.json or tokenizer_config.json. A model that was not trained on "
                            "conversations has none: write its format as chat_template.jinja")


def read_json(file: str) -> Dict[str, Any]:
    """Returns the object in a JSON file. Raises OSError if it cannot be read, and ValueError that names the file."""
    with open(file, encoding="utf-8") as lines:
        try:
            document = json.load(lines)
        except ValueError as error:
            raise ValueError(f"{file}: this is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{file}: must hold a JSON object")
    return document


class Rendering(NamedTuple):
    """A conversation as text, the parts of it whose tokens are labelled, and all that the assistant writes; for
    conversations with weights also the number of the assistant's message, from 0, that each of the latter is of."""

    text: str
    spans: List[Span]
    turns: List[Span]
    messages: Sequence[int] = ()


class _Markers(NamedTuple):
    """The texts around the assistant's turns in conversations of one shape."""

    prompt: str  # the generation prompt
    begin: str  # what all turns begin with: the prompt, or a part of it where some turns have no more
    prompted: Tuple[bool, ...]  # whether each turn begins with the whole prompt
    end: str  # the special token that ends a turn
    ends: int  # number of occurrences of `end`

    def spans(self, text: str) -> Optional[List[Span]]:
        """Returns the assistant's turns; None if a text of the conversation contains a marker."""
        if text.count(self.begin) != len(self.prompted) or text.count(self.end) != self.ends:
            return None
        spans: List[Span] = []
        after = 0
        for prompted in self.prompted:
            at = text.index(self.begin, after)
            if text.startswith(self.prompt, at) != prompted:
                return None
            start = at + len(self.prompt if prompted else self.begin)
            end = text.find(self.end, start)
            if end < 0:
                return None
            after = end + len(self.end)
            spans.append((start, after))
        return spans


class _Done(NamedTuple):
    """The first messages of a conversation, and where what the template writes for them ends in the whole text."""

    messages: int
    end: int


class ChatTemplate:
    """Renders conversations as transformers' apply_chat_template does.

    The assistant's turns are the texts in the template's `{% generation %}` blocks. Without such blocks a turn begins
    where the generation prompt ends, and ends with the special token that the template puts there, or with all that
    the template writes for the turn if there is none. These turns are found by rendering parts of the conversation;
    how they are surrounded is remembered for conversations of the same shape (roles, kinds of content), and looked up
    in them. A template may leave out the thoughts of a turn that another question follows, as those of reasoning models
    do: such a turn begins where its content does. Not thread-safe.

    Args:
        template: the template and its file.
        variables: what the template may use in addition to the conversation: `bos_token`, `eos_token` and so on.
        special_tokens: the tokenizer's special tokens.

    Attributes:
        file: str, the template's file.
        read: set of (place, key) of the keys of turns and parts that the template has read, as SeenKeys has them.

    Raises: ImportError without jinja2, and ValueError if the text is no template.
    """

    def __init__(self, template: TemplateFile, variables: Mapping[str, Any], special_tokens: Sequence[str]):
        try:
            from isocost.tokens.template_environment import CompiledTemplate
        except ImportError as error:
            raise ImportError(f"chat templates need jinja2 ({error}): pip install tokenizers jinja2 "
                              "(the extra isocost[models])") from None
        self.file = template.file
        self._writes_calls = "tool_calls" in template.text
        self._has_blocks = bool(_GENERATION.search(template.text))
        self._variables = dict(variables)
        self._special_tokens = tuple(sorted(special_tokens, key=len, reverse=True))
        self.read: Set[Place] = set()
        self._forms: Dict[str, Tuple[bool, bool]] = {}
        self._thinking_parts: Optional[bool] = None
        self._markers: Dict[Any, Optional[_Markers]] = {}
        self._prompt: Optional[str] = None
        self._past_prompt: Optional[str] = None
        try:
            self._template = CompiledTemplate(template.text)
        except Exception as error:
            raise self._error(error) from None

    def render(self, conversation: Conversation, add_generation_prompt: bool = False) -> str:
        """Returns the conversation as text. Raises ValueError with what the template objects to."""
        return self._render(self._adapted(conversation.messages), conversation.tools, add_generation_prompt)

    def render_with_spans(self, conversation: Conversation, last: bool = False) -> Rendering:
        """Returns the conversation as text, with the assistant's turns.

        last: whether only the last one counts.
        Raises: ValueError with what the template objects to, and if the assistant's turns cannot be found.
        """
        messages, tools = self._adapted(conversation.messages), conversation.tools
        weighted = bool(conversation.weights)
        if self._has_blocks:
            result = self._render_blocks(messages, tools)
            skipped = self._blocks_before_last(messages, tools, result.spans) if last else 0
            numbers = self._messages_of_blocks(messages, tools, result.spans) if weighted else ()
            return result._replace(spans=result.spans[skipped:], messages=numbers)
        text = self._render(messages, tools, False)
        spans = self._turns(text, messages, tools)
        return Rendering(text, spans[-1:] if last else spans, spans, range(len(spans)) if weighted else ())

    # Text that templates write.

    def _render(self, messages: List[Message], tools: Optional[List[Any]], prompt: bool) -> str:
        try:
            return self._template.render(self._arguments(messages, tools, prompt)).text
        except Exception as error:
            raise self._error(error) from None

    def _render_blocks(self, messages: List[Message], tools: Optional[List[Any]]) -> Rendering:
        try:
            text, generated = self._template.render(self._arguments(messages, tools, False))
        except Exception as error:
            raise self._error(error) from None
        if not all(text.startswith(written, start) for start, written in generated):
            raise ValueError(f"{self.file}: a {{% generation %}} block is within a macro or a set block, where its "
                             "place in the conversation is not known: write the block around what the template prints")
        spans = [(start, start + len(written)) for start, written in generated]
        return Rendering(text, spans, spans)

    def _blocks_before_last(self, messages: List[Message], tools: Optional[List[Any]], spans: List[Span]) -> int:
        """Returns the number of generation blocks before the last assistant turn."""
        index = max((i for i, message in enumerate(messages) if message["role"] == "assistant"), default=0)
        return self._blocks_of_first(index, messages, tools, spans) if index else 0

    def _blocks_of_first(self, count: int, messages: List[Message], tools: Optional[List[Any]],
                         spans: List[Span]) -> int:
        """Returns the number of generation blocks of the first messages."""
        before = self._render_blocks(messages[:count], tools).spans
        if spans[:len(before)] != before:
            raise self._no_prefix(count)
        return len(before)

    def _messages_of_blocks(self, messages: List[Message], tools: Optional[List[Any]],
                            spans: List[Span]) -> List[int]:
        """Returns the assistant's message of each generation block."""
        own = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        if len(own) == len(spans):
            return list(range(len(spans)))
        ends = [self._blocks_of_first(i + 1, messages, tools, spans) for i in own[:-1]]
        return [bisect.bisect_right(ends, block) for block in range(len(spans))]

    def _arguments(self, messages: List[Message], tools: Optional[List[Any]], prompt: bool) -> Dict[str, Any]:
        return {**self._variables, "messages": watched(messages, self.read), "tools": tools, "documents": None,
                "add_generation_prompt": prompt}

    def _error(self, error: Exception) -> ValueError:
        kind = type(error)
        name = "" if kind.__module__.startswith("jinja2") else f"{kind.__name__}: "
        line = getattr(error, "lineno", None)
        return ValueError(f"{self.file}{'' if line is None else f':{line}'}: the template says: {name}{error}")

    # Form of content that a template takes: a string, a list of parts, or both.

    def _adapted(self, messages: List[Message]) -> List[Message]:
        """Returns the messages with contents that the template can read; unchanged if it can read them."""
        return [self._adapted_message(message) for message in messages]

    def _adapted_message(self, message: Message) -> Message:
        content, role = message.get("content"), message["role"]
        if message.get("tool_calls") and not self._writes_calls:
            raise ValueError(f"{self.file}: the template does not write calls of tools (tool_calls), so the model "
                             "would learn an empty turn: add them to the template, or write the call as content")
        if isinstance(content, list) and any(part["type"] == "thinking" for part in content):
            message = self._with_thoughts(message, content)
            content = message.get("content")
        if content is None:
            return message
        if role not in self._forms:
            self._forms[role] = (self._takes(role, _PROBE), self._takes(role, [{"type": "text", "text": _PROBE}]))
        strings_, lists = self._forms[role]
        if isinstance(content, str):
            return message if strings_ or not lists else {**message, "content": [{"type": "text", "text": content}]}
        if lists or not strings_:
            return message
        if any(part["type"] not in ("text", "thinking") for part in content):
            raise ValueError(f"{self.file}: the template takes turns of role '{role}' as text alone, and this one has "
                             "media: it is no template of a model that takes media there")
        return {**message, "content": "".join(part["text"] for part in content)}

    def _with_thoughts(self, message: Message, content: List[Message]) -> Message:
        """Returns a message with its thoughts where the template reads them: in parts, or in a key of their own."""
        if self._thinking_parts is None:
            thought = {"type": "thinking", "thinking": _PROBE}
            self._thinking_parts = self._takes("assistant", [thought, {"type": "text", "text": "x"}])
        if self._thinking_parts:
            self.read.add(("assistant", "thinking"))
            return message
        first = next((i for i, part in enumerate(content) if part["type"] != "thinking"), len(content))
        thoughts, rest = "".join(part["thinking"] for part in content[:first]), content[first:]
        if any(part["type"] == "thinking" for part in rest):
            raise ValueError(f"{self.file}: the template writes thoughts before the content alone, and a turn of the "
                             "sample has some (parts of the type 'thinking') behind other parts: put them first")
        if message.get("reasoning_content", thoughts) != thoughts:
            raise ValueError("a turn has thoughts in parts of the type 'thinking', and others beside its content: keep "
                             "one of them")
        message = {**message, "content": rest or "", "thinking": thoughts, "reasoning_content": thoughts}
        if not rest and message.get("tool_calls"):
            del message["content"]
        return message

    def _takes(self, role: str, content: Any) -> bool:
        """Returns whether the template writes content of this form, as text."""
        turn = {"role": role, "content": content}
        for other in ("x", [{"type": "text", "text": "x"}]):
            user, answer = {"role": "user", "content": other}, {"role": "assistant", "content": other}
            messages = {"user": [turn], "assistant": [user, turn], "tool": [user, answer, turn]}.get(
                role, [turn, user, answer])
            try:
                text = self._render(messages, None, False)
            except ValueError:
                continue
            if _PROBE in text and f"'{_PROBE}'" not in text and f'"{_PROBE}"' not in text:
                return True
        return False

    # Assistant turns, for templates that do not mark them.

    def _turns(self, text: str, messages: List[Message], tools: Optional[List[Any]]) -> List[Span]:
        shape = _shape(messages, tools)
        markers = self._markers.get(shape)
        spans = None if markers is None else markers.spans(text)
        if spans is not None:
            return spans
        spans = self._turns_by_prefixes(text, messages, tools)
        if shape not in self._markers:
            self._remember(shape, text, spans, [messages, tools])
        return spans

    def _turns_by_prefixes(self, text: str, messages: List[Message], tools: Optional[List[Any]]) -> List[Span]:
        spans = []
        done = _Done(0, 0)
        for i, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            whole = text if i + 1 == len(messages) else self._render(messages[:i + 1], tools, False)
            start, end = (self._whole_turn(text, whole, messages[:i], tools) or
                          self._turn_without_thoughts(text, whole, messages[:i], tools, done))
            spans.append((start, self._end(text, start, end)))
            done = _Done(i + 1, end)
        return spans

    def _whole_turn(self, text: str, whole: str, before: List[Message], tools: Optional[List[Any]]) -> Optional[Span]:
        """Returns the turn after these messages, with what the template writes after it; None if the text does not
        begin as the messages up to the turn do alone, which are `whole`."""
        start = self._start(text, before, tools)
        if start is None or len(whole) < start or not text.startswith(whole):
            return None
        return start, len(whole)

    def _turn_without_thoughts(self, text: str, whole: str, before: List[Message], tools: Optional[List[Any]],
                               done: "_Done") -> Span:
        """Returns, as _whole_turn does, a turn whose thoughts the template left out, since another question follows.

        done: the messages before, up to the last turn of the assistant.
        Raises: ValueError if it left out, or changed, something else.
        """
        prefix, prompt = self._render(before, tools, False) if before else "", self._prompt_of_past_turns()
        earlier = self._render(before[:done.messages], tools, False) if done.messages else ""
        start = done.end + len(prefix) - len(earlier)
        if text.startswith(prefix):
            start = len(prefix)
        elif not (prefix.startswith(earlier) and text.startswith(prefix[len(earlier):], done.end)):
            raise self._no_prefix(len(before))
        if not prompt or not text.startswith(prompt, start) or not whole.startswith(prefix + prompt):
            raise self._no_prefix(len(before) + 1)
        start += len(prompt)
        # The thoughts stand before the content, so the longest end of the whole turn is all of its content.
        kept = next((whole[at:] for at in range(len(prefix + prompt), len(whole))
                     if text.startswith(whole[at:at + _COMPARED], start) and text.startswith(whole[at:], start)), "")
        if not kept.rstrip().endswith(self._special_tokens):
            raise self._no_prefix(len(before) + 1)
        return start, start + len(kept)

    def _start(self, text: str, before: List[Message], tools: Optional[List[Any]]) -> Optional[int]:
        """Returns where the generation prompt ends that follows these turns; None if the text does not begin so."""
        if before:
            prefix = self._render(before, tools, True)
            return len(prefix) if text.startswith(prefix) else None
        prompt = self._generation_prompt()  # Many templates cannot render a conversation without turns.
        return text.index(prompt) + len(prompt) if prompt and prompt in text else None

    def _end(self, text: str, start: int, end: int) -> int:
        """Returns where the special token ends with which the turn's text ends."""
        turn = text[start:end].rstrip()
        return start + len(turn) if turn.endswith(self._special_tokens) else end

    def _generation_prompt(self) -> str:
        if self._prompt is None:
            user = self._adapted([{"role": "user", "content": "x"}])
            without = self._render(user, None, False)
            with_prompt = self._render(user, None, True)
            self._prompt = with_prompt[len(without):] if with_prompt.startswith(without) else ""
        return self._prompt

    def _prompt_of_past_turns(self) -> str:
        """Returns what the template writes before the assistant's turn if another question follows it: the
        generation prompt, or a part of it; "" if it cannot be found."""
        if self._past_prompt is None:
            user, answer = self._adapted([{"role": "user", "content": "x"}, {"role": "assistant", "content": _PROBE}])
            before, text = (self._render(messages, None, False) for messages in ([user], [user, answer, user]))
            found = text[len(before):text.index(_PROBE)] if text.startswith(before) and _PROBE in text else ""
            self._past_prompt = found if self._generation_prompt().startswith(found) else ""
        return self._past_prompt

    def _remember(self, shape: Any, text: str, spans: List[Span], texts: Any) -> None:
        """Stores what surrounds the turns, if looking it up finds the same turns."""
        if not spans:
            return
        if len(self._markers) >= _MOST_SHAPES:
            self._markers.clear()
        prompt = self._generation_prompt()
        prompted = tuple(text.endswith(prompt, 0, start) for start, _end in spans)
        begin = prompt if all(prompted) else self._prompt_of_past_turns()
        last = text[:spans[-1][1]]
        end = next((token for token in self._special_tokens if last.endswith(token)), "")
        if not begin or not end:
            self._markers[shape] = None
        elif not any(begin in found or end in found for found in strings(texts)):
            markers = _Markers(prompt, begin, prompted, end, text.count(end))
            self._markers[shape] = markers if markers.spans(text) == spans else None

    def _no_prefix(self, turns: int) -> ValueError:
        return ValueError(f"{self.file}: what the template writes for the first {turns} turns is no prefix of what it "
                          "writes for the whole conversation, so its assistant turns cannot be told: put "
                          "{% generation %} and {% endgeneration %} around what the assistant writes, or label all "
                          "tokens (--labels all)")


def _shape(messages: List[Message], tools: Optional[List[Any]]) -> Any:
    """Returns a value that is equal for conversations that a template writes with the same text around the turns."""
    return (bool(tools), *((message["role"], _form(message.get("content")),
                            None if len(message) == 2 else tuple(name for name in message if message[name]))
                           for message in messages))


def _form(content: Any) -> Any:
    return tuple(part["type"] for part in content) if isinstance(content, list) else bool(content)
