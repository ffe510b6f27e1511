"""The tokenizer of a Whisper directory: transcripts in, token ids and labels out."""

import hashlib
import json as json_module
import os
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from isocost import _isocost
from isocost.base.counted import counted
from isocost.tokens.chat_template import read_json
from isocost.tokens.conversation import MEDIA_MARK, read_document
from isocost.tokens.model_tokenizer import Tokens, check_vocabulary, largest_id, read_tokenizer
from isocost.tokens.special_tokens import special_variables
from isocost.tokens.unread_keys import SeenKeys
from isocost.tokens.whisper_languages import language_code

_START, _END, _NO_TIMES = "<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>"
_TASKS = ("transcribe", "translate")
_ENGLISH = {"language": "en", "task": "transcribe"}  # settings of a model without other languages and tasks


class Transcript(NamedTuple):
    """The transcript of a sample's sound.

    Attributes:
        key: str, the sample's key.
        text: str, as given.
        language, task: as the sample's JSON names them, "de" or "German", and "translate"; None for the tokenizer's
            own.
    """

    key: str
    text: str
    language: Optional[str]
    task: Optional[str]


class _Prefix(NamedTuple):
    """The ids in front of a transcript, after the start token.

    Attributes:
        language, task: None if there is none.
        rest: `<|notimestamps|>`, or nothing.
    """

    language: Optional[int]
    task: Optional[int]
    rest: List[int]

    def ids(self) -> List[int]:
        return [each for each in (self.language, self.task) if each is not None] + self.rest


class TranscriptTokenizer:
    """Turns transcripts into the ids that transformers' WhisperTokenizer makes of them: the start token, where the
    tokenizer has them language, task and `<|notimestamps|>`, the text, and the end token. All but the first are
    labelled. A sample's JSON may name another `language` (by code or name) and `task`. Not thread-safe; `encode_each`
    uses the threads of the package tokenizers, unless TOKENIZERS_PARALLELISM is false.

    Args:
        directory: what WhisperProcessor.save_pretrained and the model's write.
        labels, caption_template: for conversations; here only their defaults make sense.

    Attributes:
        directory: str, as given.
        fingerprint: 64-bit int, equal for tokenizers that give equal ids.
        about: str, a line for people.

    Raises: FileNotFoundError or another OSError where a file is missing or cannot be read, ValueError if files
        contradict each other or an argument is invalid, ImportError without the package tokenizers, and what reading a
        recipe from a directory raises.
    """

    def __init__(self, directory: Union[str, "os.PathLike[str]"], labels: str = "assistant",
                 caption_template: str = MEDIA_MARK):
        self.directory = os.fspath(directory)
        for name, value, usual in (("labels", labels, "assistant"),
                                   ("caption template", caption_template, MEDIA_MARK)):
            if value != usual:
                raise ValueError(f"{name} = {value!r}: a transcript is no conversation, and all of it is labelled: "
                                 "leave it out")
        description = json_module.loads(_isocost.recipe_description(self.directory))
        self._tokenizer, content = read_tokenizer(self.directory)
        special_variables(self.directory, self._tokenizer)
        self._is_multilingual: bool = description["is_multilingual"]
        self._start, self._end = self._id(_START), self._id(_END)
        self._tasks = {task: self._id(f"<|{task}|>") for task in _TASKS}
        self._check_config(description["decoder_start_token_id"])
        self._prefix = self._read_prefix()
        self._check_settings()
        self.fingerprint = _fingerprint(content, [_isocost.tokens_version, self._start, self._end, self._prefix,
                                                  self._is_multilingual])
        self.about = (f"{os.path.basename(os.path.abspath(self.directory))}: "
                      f"{counted(self._tokenizer.get_vocab_size(), 'token')}, transcripts after "
                      f"{self._written([self._start, *self._prefix.ids()])}")

    def conversation(self, key: str, json: Optional[bytes], texts: Sequence[str], media: Sequence[str],
                     videos: Sequence[Sequence[float]] = ()) -> Transcript:
        """Returns a sample's transcript.

        Args:
            key: the sample's key.
            json: the sample's JSON part; None if it has none.
            texts: the sample's text parts, or else the `text` of its JSON.
            media: modality of each of the sample's media.
            videos: none; the model takes no videos.

        Raises: ValueError that says what is wrong with the sample.
        """
        sounds = media.count("audio")
        if sounds != 1:
            contents = f"; by their content its media are {', '.join(media)}" if media and not sounds else ""
            raise ValueError(f"the sample has {counted(sounds, 'sound')}, and Whisper takes exactly one{contents}")
        document = {} if json is None else read_document(json)
        if not texts and document.get("text") == "":
            texts = [""]  # The sound contains no speech.
        if len(texts) != 1:
            raise ValueError(f"the sample has {counted(len(texts), 'text')}, and Whisper takes exactly one, the "
                             "sound's transcript: a text part, or the 'text' of its JSON")
        return Transcript(key, texts[0], _named(document, "language"), _named(document, "task"))

    def take_seen_keys(self) -> SeenKeys:
        """Returns nothing: a transcript has no turns."""
        return SeenKeys()

    def encode_each(self, transcripts: Sequence[Transcript]) -> List[Union[Tokens, ValueError]]:
        """Returns the tokens of each transcript, or the error that says why it has none."""
        results: Dict[int, Union[Tokens, ValueError]] = {}
        prefixes: Dict[int, List[int]] = {}
        for i, given in enumerate(transcripts):
            try:
                prefixes[i] = self._prefix_of(given)
            except ValueError as error:
                results[i] = error
        encodings = self._tokenizer.encode_batch([transcripts[i].text for i in prefixes], add_special_tokens=False)
        for (i, prefix), encoding in zip(prefixes.items(), encodings):
            try:
                results[i] = self._tokens(prefix, encoding.ids)
            except ValueError as error:
                results[i] = error
        return [results[i] for i in range(len(transcripts))]

    def _tokens(self, prefix: List[int], text: List[int]) -> Tokens:
        for special in (self._start, self._end):
            if special in text:
                raise ValueError(f"the transcript contains {self._written([special])}, where the model would begin or "
                                 "end: remove it")
        ids = [*prefix, *text, self._end]
        return Tokens(array("I", ids), b"\0" + b"\1" * (len(ids) - 1), array("I"), [])

    def _prefix_of(self, given: Transcript) -> List[int]:
        """Returns the ids in front of a transcript. Raises ValueError for an invalid text, language or task."""
        try:
            given.text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the text has half a surrogate pair ({error.object[error.start]!r}), which is no "
                             "character") from None
        prefix = self._prefix
        if given.language is not None and self._takes("language", given.language):
            prefix = prefix._replace(language=self._language(given.language))
        if given.task is not None and self._takes("task", given.task):
            if given.task not in self._tasks:
                raise ValueError(f"'task' is {given.task!r}: it must be one of {', '.join(_TASKS)}")
            prefix = prefix._replace(task=self._tasks[given.task])
        return [self._start, *prefix.ids()]

    def _takes(self, name: str, value: str) -> bool:
        """Returns whether the model's transcripts have a token for it. Raises ValueError if the model supports only
        English."""
        if self._is_multilingual:
            return True
        given = language_code(value) if name == "language" else value.lower()
        if given != _ENGLISH[name]:
            raise ValueError(f"{name!r} is {value!r}, and the model knows only {_ENGLISH[name]!r}: "
                             "generation_config.json says is_multilingual is false")
        return False

    def _language(self, language: str) -> int:
        found = self._tokenizer.token_to_id(f"<|{language_code(language)}|>")
        if found is None or not self._is_language(found):
            raise ValueError(f"'language' is {language!r}, and the tokenizer has no language of this code or name: "
                             "give one such as 'en' or 'English'")
        return int(found)

    def _is_language(self, token: int) -> bool:
        """Returns whether a token is a language: in any release of Whisper, these are between the start token and the
        tasks in the vocabulary."""
        return self._start < token < min(self._tasks.values())

    def _id(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ValueError(f"{self._file('tokenizer.json')}: it has no token {token}, so it is not Whisper's: "
                             "WhisperProcessor.save_pretrained writes it")
        return int(found)

    def _check_config(self, start: int) -> None:
        """Raises ValueError if config.json belongs to another tokenizer."""
        file = self._file("config.json")
        if start != self._start:
            raise ValueError(f"{file}: decoder_start_token_id is {start}, and {_START} is {self._start} in "
                             "tokenizer.json, so labels would begin in the wrong place: the files are not of one model")
        check_vocabulary(file, "vocab_size", read_json(file).get("vocab_size"), largest_id(self._tokenizer))

    def _read_prefix(self) -> _Prefix:
        """Returns the ids that the tokenizer's post-processor puts in front. Raises ValueError if they are not
        Whisper's."""
        ids: List[int] = self._tokenizer.encode("", add_special_tokens=True).ids
        inner = ids[1:-1]
        language = inner.pop(0) if inner and self._is_language(inner[0]) else None
        task = inner.pop(0) if inner and inner[0] in self._tasks.values() else None
        rest = [self._id(_NO_TIMES)] if inner else []
        if ids[:1] != [self._start] or ids[-1:] != [self._end] or inner != rest:
            raise ValueError(f"{self._file('tokenizer.json')}: its post-processor writes {self._written(ids)!r} around "
                             f"an empty text, and not {_START}, language, task, {_NO_TIMES} and {_END}, of which only "
                             "the first and the last must be there: WhisperProcessor.save_pretrained writes it")
        return _Prefix(language, task, rest)

    def _check_settings(self) -> None:
        """Raises ValueError if tokenizer_config.json, which transformers 5 uses, contradicts the post-processor,
        which transformers 4 uses."""
        file = self._file("tokenizer_config.json")
        settings = read_json(file)
        language, task = settings.get("language"), settings.get("task")
        code = None if not isinstance(language, str) else self._tokenizer.token_to_id(f"<|{language_code(language)}|>")
        same = ((language is None) == (self._prefix.language is None) and code == self._prefix.language
                and (None if task is None else self._tasks.get(task)) == self._prefix.task
                and bool(settings.get("predict_timestamps")) == (not self._prefix.rest))
        if not same:
            named = {name: settings.get(name) for name in ("language", "task", "predict_timestamps")}
            raise ValueError(f"{file}: {json_module.dumps(named)}, and the post-processor of tokenizer.json writes "
                             f"{self._written([self._start, *self._prefix.ids()])}: transformers 5 goes by the first, "
                             "transformers 4 by the second. Make both alike: with transformers 5, "
                             "WhisperProcessor.from_pretrained(DIR, language=..., task=...).save_pretrained(DIR) does; "
                             "transformers 4 leaves them out of the first, so add them there")

    def _file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _written(self, ids: Sequence[int]) -> str:
        return "".join(str(self._tokenizer.id_to_token(each)) for each in ids)


def _named(document: Dict[str, Any], name: str) -> Optional[str]:
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name!r} of its JSON is no string: {json_module.dumps(value)[:80]}")
    return value


def _fingerprint(tokenizer: bytes, settings: Any) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for part in (json_module.dumps(settings).encode(), tokenizer):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "little")
