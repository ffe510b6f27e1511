"""A model directory's tokenizer and chat template: conversations in, token ids and labels out."""

import bisect
import hashlib
import itertools
import json
import os
from array import array
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from isocost import _isocost
from isocost.base.counted import counted
from isocost.base.hub_names import download_command
from isocost.tokens.chat_template import ChatTemplate, Rendering, Span, TemplateFile, find_template, read_json
from isocost.tokens.conversation import (
    MEDIA,
    MEDIA_MARK,
    Conversation,
    ConversationOptions,
    check_options,
    conversation,
)
from isocost.tokens.special_tokens import HOW_TO_SAVE, check_written_tokens, special_variables
from isocost.tokens.unread_keys import SeenKeys, keys_of
from isocost.tokens.video_text import find_video_text, with_frames

_COUNTED = ("image", "audio", "video")  # in the order of Tokens.turns
# Tokens around a sound's placeholder in Qwen2-Audio's template.
_AROUND_AUDIO = {"audio_bos_token": "<|audio_bos|>", "audio_eos_token": "<|audio_eos|>"}


class Tokens(NamedTuple):
    """A conversation in the model's tokens, with one placeholder for each medium.

    Attributes:
        ids: array of unsigned 32-bit token ids.
        labels: a byte for each id; 1 where the model learns to predict it from the ids before it. The first one is 0.
        turns: array of unsigned 32-bit numbers, five for each end of an assistant's turn: the ids up to there, how many
            of these are placeholders, and the images, audio parts and videos that these represent. Empty where the
            template does not mark them.
        weights: list of (first, end, weight): ids of turns whose weight in the loss is neither 0 nor 1. In their order.
    """

    ids: "array[int]"
    labels: bytes
    turns: "array[int]"
    weights: Sequence[Tuple[int, int, float]] = ()


class Placeholder(NamedTuple):
    """The token that represents a medium in a model's text."""

    id: int
    token: str


class ModelTokenizer:
    """Turns conversations into token ids with the tokenizer and the chat template of a model directory.

    The ids are those of transformers' apply_chat_template, before it repeats placeholders for each medium's length. A
    token is labelled if it lies within an assistant turn; ChatTemplate says where turns begin and end. The first token
    and placeholders never are. Not thread-safe; `encode` uses the threads of the package tokenizers, unless
    TOKENIZERS_PARALLELISM is false.

    Args:
        directory: what transformers' save_pretrained writes. It needs tokenizer.json, config.json and a chat template.
        labels: "assistant" for all of its turns, "last" for only the last one, "all" for every token.
        caption_template: the user's turn before a caption; its `<media>` represents the sample's media.

    Attributes:
        directory: str, as given.
        options: ConversationOptions for this model.
        placeholders: {modality: Placeholder} of the modalities that config.json names one for.
        template: ChatTemplate.
        fingerprint: 64-bit int, equal for tokenizers that give equal ids and labels. Dates in a template do not count.
        about: str, a line for people.

    Raises: FileNotFoundError or another OSError where a file is missing or cannot be read, ValueError if files
        contradict each other or an argument is invalid, ImportError without the packages tokenizers and jinja2.
    """

    def __init__(self, directory: Union[str, "os.PathLike[str]"], labels: str = "assistant",
                 caption_template: str = MEDIA_MARK):
        self.directory = os.fspath(directory)
        check_options(ConversationOptions(labels, caption_template))
        self._tokenizer, content = read_tokenizer(self.directory)
        self._largest_id = largest_id(self._tokenizer)
        config = read_json(os.path.join(self.directory, "config.json"))
        template = find_template(self.directory)
        variables = special_variables(self.directory, self._tokenizer)
        self._video_text = find_video_text(config)
        self.placeholders = self._checked_config(config, variables)
        _check_named_tokens(self.directory, self.placeholders)
        self.options = ConversationOptions(labels, caption_template,
                                           {name: found.token for name, found in self.placeholders.items()})
        added = self._tokenizer.get_added_tokens_decoder().values()
        self._seen = SeenKeys()
        self.template = ChatTemplate(template, variables, [token.content for token in added if token.special])
        check_written_tokens(self.template, self.placeholders, self._tokenizer)
        self.fingerprint = _fingerprint(content, template, variables, self.options, self.placeholders)
        self.about = (f"{os.path.basename(os.path.abspath(self.directory))}: "
                      f"{counted(self._tokenizer.get_vocab_size(), 'token')}, labels {labels}")

    def conversation(self, key: str, json: Optional[bytes], texts: Sequence[str], media: Sequence[str],
                     videos: Sequence[Sequence[float]] = ()) -> Conversation:
        """Returns a sample's conversation, as tokens.conversation.conversation does with this model's options."""
        return conversation(key, json, texts, media, self.options, videos)

    def take_seen_keys(self) -> SeenKeys:
        """Returns the keys of the conversations that were encoded since the last call."""
        seen, self._seen = self._seen, SeenKeys()
        return seen._replace(read=frozenset(self.template.read))

    def encode(self, conversations: Sequence[Conversation]) -> List[Tokens]:
        """Returns the tokens of each conversation. Raises ValueError that names the key of the first bad one."""
        results = []
        for given, tokens in zip(conversations, self.encode_each(conversations)):
            if isinstance(tokens, ValueError):
                raise ValueError(f"{given.key}: {tokens}")
            results.append(tokens)
        return results

    def encode_each(self, conversations: Sequence[Conversation]) -> List[Union[Tokens, ValueError]]:
        """Returns the tokens of each conversation, or the error that says why it has none."""
        results: Dict[int, Union[Tokens, ValueError]] = {}
        rendered: Dict[int, Rendering] = {}
        for i, given in enumerate(conversations):
            try:
                rendered[i] = self._render(given)
            except ValueError as error:
                results[i] = error
        encodings = self._tokenizer.encode_batch([rendering.text for rendering in rendered.values()],
                                                 add_special_tokens=False)
        for (i, rendering), encoding in zip(rendered.items(), encodings):
            try:
                results[i] = self._tokens(conversations[i], rendering, encoding)
            except ValueError as error:
                results[i] = error
        return [results[i] for i in range(len(conversations))]

    def _render(self, given: Conversation) -> Rendering:
        if self.options.labels == "all":
            result = self._render_all(given)
        else:
            result = self.template.render_with_spans(given, self.options.labels == "last")
        keys = keys_of(given)
        if keys:
            self._seen = self._seen.plus(SeenKeys(dict.fromkeys(keys, 1)))
        if not result.text:
            raise ValueError(f"{self.template.file}: the template writes nothing for this conversation")
        if self._video_text is not None and given.media.get("video") and "video" in self.placeholders:
            result = with_frames(result, self._video_text, self.placeholders["video"].token, given.videos)
        try:
            result.text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the text has half a surrogate pair ({error.object[error.start]!r}), which is no "
                             "character") from None
        return result

    def _render_all(self, given: Conversation) -> Rendering:
        """Renders a conversation whose every token is labelled."""
        try:
            result = self.template.render_with_spans(given)
        except ValueError:  # The ends of turns cannot be found, or the template objects to the conversation itself.
            if given.weights:
                raise
            text = self.template.render(given)
            return Rendering(text, [(0, len(text))], [])
        return result._replace(spans=[(0, len(result.text))])

    def _turns(self, given: Conversation, turns: Sequence[Span], ids: List[int], encoding: Any) -> "array[int]":
        """Returns the ends of the assistant's turns, in the form of Tokens.turns."""
        of_videos = list(itertools.accumulate(self._placeholders_of_videos(given)))
        known = [self.placeholders.get(modality) for modality in _COUNTED]
        counts = [0] * len(known)
        ends: List[int] = []
        begin = 0
        for end in sorted({_tokens_within(span, encoding, len(ids))[1] for span in turns} - {0}):
            piece = ids[begin:end]
            begin = end
            counts = [count + (0 if each is None else piece.count(each.id)) for count, each in zip(counts, known)]
            images, audio, videos = counts
            ends += (end, sum(counts), images, audio, bisect.bisect_right(of_videos, videos))
        return array("I", ends)

    def _placeholders_of_videos(self, given: Conversation) -> List[int]:
        """Returns the number of placeholders that each video has in the text."""
        if self._video_text is None or "video" not in self.placeholders:
            return [1] * given.media.get("video", 0)
        token = self.placeholders["video"].token
        return [self._video_text.write(token, seconds).count(token) for seconds in given.videos]

    def _tokens(self, given: Conversation, rendering: Rendering, encoding: Any) -> Tokens:
        ids: List[int] = encoding.ids
        labels = bytearray(len(ids))
        for span in rendering.spans:
            first, end = _tokens_within(span, encoding, len(ids))
            labels[first:end] = b"\1" * (end - first)
        labels[:1] = b"\0" * len(labels[:1])
        for modality, count in given.media.items():
            if modality == "video":
                count = sum(self._placeholders_of_videos(given))
            self._clear_placeholders(modality, count, ids, labels, rendering.text)
        weights = _weigh(given, rendering, encoding, labels)
        if not any(labels):
            raise ValueError("no token is labelled: the assistant's turns are empty, or have the weight 0")
        return Tokens(array("I", ids), bytes(labels), self._turns(given, rendering.turns, ids, encoding), weights)

    def _clear_placeholders(self, modality: str, count: int, ids: List[int], labels: bytearray, text: str) -> None:
        """Clears the labels of a modality's placeholders. Raises ValueError if there is not one for each medium."""
        placeholder = self.placeholders.get(modality)
        if placeholder is None:
            if count:
                raise ValueError(f"the sample has {counted(count, f'{modality} part')}, and "
                                 f"{os.path.join(self.directory, 'config.json')} has neither {modality}_token_id nor "
                                 f"{modality}_token_index: the model takes no {modality}")
            return
        if not count and placeholder.token not in text:
            return
        found = ids.count(placeholder.id)
        if found != count:
            raise ValueError(f"the text has {counted(found, f'{modality} placeholder')} {placeholder.token} as the "
                             f"template wrote it, and the sample has {counted(count, f'{modality} part')}")
        at = -1
        for _medium in range(count):
            at = ids.index(placeholder.id, at + 1)
            labels[at] = 0

    def _checked_config(self, config: Dict[str, Any], variables: Mapping[str, Any]) -> Dict[str, Placeholder]:
        """Compares config.json with the tokenizer. Returns the placeholders that config.json names or, for some
        families, the special tokens `variables`."""
        file = os.path.join(self.directory, "config.json")
        placeholders: Dict[str, Placeholder] = {}
        added = self._tokenizer.get_added_tokens_decoder()
        for modality in MEDIA:
            for key in (f"{modality}_token_id", f"{modality}_token_index"):
                number = config.get(key)
                if number is None or modality in placeholders:
                    continue
                token = self._tokenizer.id_to_token(number) if type(number) is int and 0 <= number < 2**32 else None
                if token is None:
                    raise ValueError(f"{file}: {key} is {number!r}, and tokenizer.json has no token of that id; its "
                                     f"largest id is {self._largest_id}. The files are not of one model: {HOW_TO_SAVE}")
                if number not in added:
                    raise ValueError(f"{file}: {key} is {number}, which tokenizer.json has as {token!r}, a piece of "
                                     f"text: placeholders are among its added tokens. Give the id of the model's "
                                     f"{modality} token, or take the files of one model: {HOW_TO_SAVE}")
                placeholders[modality] = Placeholder(number, token)
        named = None if self._video_text is None else variables.get(self._video_text.token or "")
        if named is not None and self._tokenizer.token_to_id(named) is not None:
            placeholders.setdefault("video", Placeholder(self._tokenizer.token_to_id(named), named))
        text_config = config.get("text_config")
        for key, holder in (("vocab_size", config), ("text_config.vocab_size", text_config)):
            size = holder.get("vocab_size") if isinstance(holder, dict) else None
            check_vocabulary(file, key, size, self._largest_id)
        return placeholders


def read_tokenizer(directory: str) -> Tuple[Any, bytes]:
    """Returns the tokenizer of a model directory, which neither truncates nor pads, and its file's content.

    Raises: FileNotFoundError or another OSError where a file is missing or cannot be read, ValueError if it is no
        tokenizer, ImportError without the package tokenizers.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(f"model tokenizers need the package tokenizers ({error}): "
                          "pip install tokenizers jinja2 (the extra isocost[models])") from None
    _check_files(directory)
    file = os.path.join(directory, "tokenizer.json")
    with open(file, "rb") as source:
        content = source.read()
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # The package raises no more specific exception.
        raise ValueError(f"{file}: the package tokenizers {tokenizers.__version__} cannot read it: {error}. A "
                         "newer one may: pip install --upgrade tokenizers") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, content


def largest_id(tokenizer: Any) -> int:
    """Returns the largest token id; -1 where the vocabulary is empty."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)


def check_vocabulary(file: str, key: str, size: Any, largest: int) -> None:
    """Raises ValueError if a model has no embedding for the tokenizer's largest id.

    Args:
        file, key: config.json, and the place where it says so.
        size: entries of the embedding; None, or of another type, if it does not say so.
    """
    if isinstance(size, int) and size <= largest:
        raise ValueError(f"{file}: {key} is {size}, and the largest id in tokenizer.json is {largest}, which the model "
                         "cannot embed: resize the model's embeddings (resize_token_embeddings), or take the "
                         "tokenizer that belongs to it")


def _check_named_tokens(directory: str, placeholders: Mapping[str, Placeholder]) -> None:
    """Raises ValueError if a processor or tokenizer uses other tokens for media than the model."""
    for name in ("processor_config.json", "tokenizer_config.json"):
        file = os.path.join(directory, name)
        settings = read_json(file) if os.path.exists(file) else {}
        for modality, placeholder in placeholders.items():
            _check_named(file, settings, f"{modality}_token", placeholder.token,
                         f"the model's placeholder of config.json has the id {placeholder.id}, which in tokenizer.json "
                         f"is {placeholder.token!r}. The files are not of one model: {HOW_TO_SAVE}")
        for key, token in _AROUND_AUDIO.items() if "audio" in placeholders else ():
            _check_named(file, settings, key, token, f"only {token!r} is supported")


def _check_named(file: str, settings: Mapping[str, Any], key: str, token: str, why: str) -> None:
    given = settings.get(key)
    given = given.get("content") if isinstance(given, dict) else given
    if given is not None and given != token:
        raise ValueError(f"{file}: {key} is {given!r}, and {why}")


def _weigh(given: Conversation, rendering: Rendering, encoding: Any, labels: bytearray) -> List[Tuple[int, int, float]]:
    """Clears the labels of turns of weight 0. Returns the weights of the others, in the form of Tokens.weights."""
    weights: List[Tuple[int, int, float]] = []
    for span, message in zip(rendering.turns, rendering.messages):
        first, end = _tokens_within(span, encoding, len(labels))
        weight = given.weights[message]
        if weight == 0:
            labels[first:end] = bytes(end - first)
        elif weight != 1 and any(labels[first:end]):
            weights.append((first, end, weight))
    return weights


def _tokens_within(span: Span, encoding: Any, count: int) -> Tuple[int, int]:
    """Returns the first token that lies within a span of characters, and the one after the last."""
    start, end = span
    if start >= end:
        return 0, 0
    first, after = encoding.char_to_token(start), encoding.char_to_token(end)
    if first is None or (after is None and end < encoding.offsets[-1][1]):
        # No token holds this character, because the tokenizer drops it.
        inside = [i for i, (begin, stop) in enumerate(encoding.offsets) if start <= begin < end and stop <= end]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)
    while first < count and encoding.token_to_chars(first)[0] < start:
        first += 1  # This token begins before the span.
    return first, max(first, count if after is None else after)


def _check_files(directory: str) -> None:
    """Raises OSError that says what is missing, and where to get it."""
    if not os.path.isdir(directory):
        raise FileNotFoundError(f"{directory}: there is no such directory. A model directory is what save_pretrained "
                                f"writes, or what {download_command(directory, ' --local-dir DIR')} fetches. Names of "
                                "models on the hub are for isocost.DataLoader alone")
    if not os.path.exists(os.path.join(directory, "tokenizer.json")):
        others = [name for name in ("vocab.json", "merges.txt", "tokenizer.model", "spiece.model", "vocab.txt")
                  if os.path.exists(os.path.join(directory, name))]
        found = f", only {' and '.join(others)}" if others else ""
        raise FileNotFoundError(f"{directory}: there is no tokenizer.json{found}. {HOW_TO_SAVE}")
    if not os.path.exists(os.path.join(directory, "config.json")):
        raise FileNotFoundError(f"{directory}: there is no config.json, which names the model's media placeholders: "
                                "copy it from where the model is from")


def _fingerprint(tokenizer: bytes, template: TemplateFile, variables: Mapping[str, Any], options: ConversationOptions,
                 placeholders: Mapping[str, Placeholder]) -> int:
    settings = json.dumps([_isocost.tokens_version, dict(variables), options, dict(placeholders)], sort_keys=True)
    digest = hashlib.blake2b(digest_size=8)
    for part in (settings.encode(), template.text.encode(), tokenizer):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "little")
