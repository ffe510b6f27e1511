"""Processes that tokenize the shards of a data set."""

import array
import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

from isocost import _isocost
from isocost.base.logs import log
from isocost.options.node_options import NodeOptions
from isocost.tokens.chat_template import read_json
from isocost.tokens.model_tokenizer import ModelTokenizer, Tokens
from isocost.tokens.recorded_options import TokenOptions
from isocost.tokens.transcript_tokenizer import TranscriptTokenizer
from isocost.tokens.unread_keys import SeenKeys

_BATCH = 256  # conversations that are in memory as text at once
_SHOWN_REASONS = 10  # reasons for each shard
_LONGEST_REASON = 500  # characters
_END_S = 5.0  # that a process may take to end
# A process of multiprocessing would run the caller's script again, which many training scripts do not expect.
_PROCESS = ("import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
            "from isocost.tokens import workers; workers.work(int(sys.argv[1]))")

EncodedTokens = Tuple[bytes, bytes, bytes, bytes, str]  # ids, labels, turns, weights, error
Tokenizer = Union[ModelTokenizer, TranscriptTokenizer]


class Settings(NamedTuple):
    """Settings with which every process tokenizes.

    Attributes:
        data, index_dir: what is tokenized, and where its index is kept; "" for the usual place.
        model: the model directory.
        options: as for ModelTokenizer; what is not given is as recorded with the tokens that there are, or the default.
        ignore_parts: extensions of parts that the index leaves out, with commas between.
        weight_key: the member of a sample's JSON that scales its loss; "" for none.
        image_size: the size of the model's pictures; "" for that of its directory. It is checked, and changes no token.
        max_decoded_pixels: images and frames with more are bad.
        media_root: where paths of media in a file of records start; "" for its own directory.
        number_keys: whether samples of a file of records are called by their line or array element.
        text, format, split, ca_file: as for isocost.NodeOptions.
    """

    data: str
    index_dir: str
    model: str
    options: TokenOptions = TokenOptions()
    ignore_parts: str = ""
    weight_key: str = "weight"
    image_size: str = ""
    max_decoded_pixels: int = NodeOptions.max_decoded_pixels
    media_root: str = ""
    number_keys: bool = False
    text: str = ""
    format: str = ""
    split: str = ""
    ca_file: str = ""

    def tokenizer(self) -> Tokenizer:
        """Raises what ModelTokenizer and TranscriptTokenizer raise."""
        config = os.path.join(self.model, "config.json")
        is_whisper = os.path.exists(config) and read_json(config).get("model_type") == "whisper"
        given = {name: value for name, value in self.options._asdict().items() if value is not None}
        return (TranscriptTokenizer if is_whisper else ModelTokenizer)(self.model, **given)

    def open(self) -> Any:
        """Returns the pass over the data set. Indexes it if that is not done. Raises OSError and ValueError."""
        return _isocost.TokenPass(self.data, self.model, self.options.written(), self.index_dir, self.ignore_parts,
                                  self.weight_key, self.media_root, self.number_keys, self.text, self.format,
                                  self.split, self.max_decoded_pixels, self.ca_file, log)


class Counts(NamedTuple):
    """Counts of what was tokenized.

    Attributes:
        samples: int, bad ones included.
        tokens, label_tokens: int, of good samples.
        bad_samples: int.
        reasons: list of str, "SHARD/KEY: what is wrong", for the first bad samples of each shard.
        keys: of the conversations' turns.
    """

    samples: int = 0
    tokens: int = 0
    label_tokens: int = 0
    bad_samples: int = 0
    reasons: Tuple[str, ...] = ()
    keys: SeenKeys = SeenKeys()

    def plus(self, other: "Counts") -> "Counts":
        return Counts(self.samples + other.samples, self.tokens + other.tokens,
                      self.label_tokens + other.label_tokens, self.bad_samples + other.bad_samples,
                      self.reasons + other.reasons, self.keys.plus(other.keys))


def tokenize_shard(opened: Any, shard: int, tokenizer: Tokenizer, progress: Callable[[int], None]) -> Counts:
    """Writes the tokens of a shard.

    opened: the TokenPass.
    progress: receives numbers of samples, as they are done.
    Raises: OSError where the shard cannot be read, or its tokens written.
    """
    samples = opened.samples(shard)
    name = opened.shards[shard][0]
    results: List[EncodedTokens] = []
    counts = Counts()
    for first in range(0, len(samples), _BATCH):
        batch = samples[first:first + _BATCH]
        for sample, tokens in zip(batch, _tokens(batch, tokenizer)):
            if isinstance(tokens, Tokens):
                weights = b"".join(struct.pack("<IIf", *each) for each in tokens.weights)
                results.append((_little_endian(tokens.ids), tokens.labels, _little_endian(tokens.turns), weights, ""))
                counts = counts.plus(Counts(1, len(tokens.ids), tokens.labels.count(1)))
            else:
                reason = _reason(tokens)
                results.append((b"", b"", b"", b"", reason))
                shown = (f"{name}/{sample[0]}: {reason}",) if counts.bad_samples < _SHOWN_REASONS else ()
                counts = counts.plus(Counts(1, 0, 0, 1, shown))
        progress(len(batch))
    opened.write(shard, results)
    return counts._replace(keys=tokenizer.take_seen_keys())


def _tokens(samples: Sequence[Any], tokenizer: Tokenizer) -> List[Union[Tokens, ValueError]]:
    given: List[Any] = []  # what the tokenizer made of a sample, or the error
    for key, media, document, texts, reason in samples:
        try:
            if reason:
                raise ValueError(reason)
            modalities = [modality for modality, _seconds in media]
            videos = [seconds for modality, seconds in media if modality == "video"]
            given.append(tokenizer.conversation(key, document, [text.decode() for text in texts], modalities, videos))
        except ValueError as error:
            given.append(error)
    encoded = iter(tokenizer.encode_each([one for one in given if not isinstance(one, ValueError)]))
    return [one if isinstance(one, ValueError) else next(encoded) for one in given]


def _little_endian(words: "array.array[int]") -> bytes:
    if sys.byteorder == "big":
        words = words[:]
        words.byteswap()
    return words.tobytes()


def _reason(error: ValueError) -> str:
    """Returns the message, short enough for a list, and without half characters that a sample may contain."""
    text = str(error).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "..."


class TokenWorkers:
    """Processes that tokenize shards within a `with` block. All of them have ended when it ends, however it ends.

    Args:
        settings: what they tokenize with.
        workers: number of processes.
        threads: number of threads of each.
    """

    def __init__(self, settings: Settings, workers: int, threads: int):
        self._settings = settings
        self._workers = workers
        self._threads = threads
        self._processes: Dict[Connection, "subprocess.Popen[bytes]"] = {}

    def __enter__(self) -> "TokenWorkers":
        try:
            with _signals_later():
                self._start()
        except BaseException:
            self._end(kill=True)
            raise
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._end(kill=kind is not None)

    def run(self, shards: Sequence[int]) -> Iterator[Union[int, Counts]]:
        """Tokenizes shards, in this order. Yields the number of samples done since, and the counts of each shard when
        its tokens are written. Raises RuntimeError if a process fails or is killed."""
        waiting = list(reversed(shards))
        busy = []
        for connection in self._processes:
            if waiting:
                self._tell(connection, waiting.pop())
                busy.append(connection)
        while busy:
            ready = wait(busy)
            for connection in [one for one in busy if one in ready]:
                told = self._told(connection)
                yield told
                if isinstance(told, Counts) and waiting:
                    self._tell(connection, waiting.pop())
                elif isinstance(told, Counts):
                    busy.remove(connection)

    def _start(self) -> None:
        for _worker in range(self._workers):
            ours, theirs = multiprocessing.Pipe()
            with theirs:
                command = [sys.executable, "-c", _PROCESS, str(theirs.fileno()), json.dumps(sys.path)]
                self._processes[ours] = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            self._tell(ours, (self._settings, self._threads, os.getpid()))

    def _end(self, kill: bool) -> None:
        for connection, process in self._processes.items():
            connection.close()
            if kill:
                process.kill()
        for process in self._processes.values():
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _tell(self, connection: Connection, what: Any) -> None:
        try:
            connection.send(what)
        except ConnectionError:
            raise self._lost(connection) from None

    def _told(self, connection: Connection) -> Union[int, Counts]:
        try:
            told: Union[int, Counts, str] = connection.recv()
        except (EOFError, ConnectionError):
            raise self._lost(connection) from None
        if isinstance(told, str):
            raise RuntimeError(told)
        return told

    def _lost(self, connection: Connection) -> RuntimeError:
        process = self._processes[connection]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        return RuntimeError(f"a tokenizing process ended with status {process.returncode}"
                            + (": it was killed, perhaps for want of memory; --workers N starts fewer"
                               if process.returncode == -signal.SIGKILL else ""))


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Delays signals that would end this process until after the block, so that no process is half started. Processes
    that it starts have these signals blocked: interrupted in their imports, they would print a trace."""
    received: List[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    # A mask is not sufficient, because another thread of this process may take the signal. Only the main thread may set
    # handlers.
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.signal(number, lambda given, _frame: received.append(given))
                for number in (numbers if is_main else ())}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def work(descriptor: int) -> None:
    """Runs in a process: tokenizes the shards that it receives, until the connection of this descriptor closes."""
    # SIGINT and SIGTERM are blocked since the start of this process; the parent ends it.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # Ends this process when the parent ends.
    connection = Connection(descriptor)
    try:
        settings, threads, parent = connection.recv()
        if os.getppid() != parent:  # The parent ended before prctl.
            return
        os.environ["TOKENIZERS_PARALLELISM"] = "false" if threads == 1 else "true"
        os.environ["RAYON_NUM_THREADS"] = str(threads)
        tokenizer = settings.tokenizer()
        opened = settings.open()
        while True:
            shard = connection.recv()
            connection.send(tokenize_shard(opened, shard, tokenizer, connection.send))
    except (EOFError, ConnectionError):
        return
    except Exception as error:
        kind = "" if isinstance(error, (OSError, ValueError)) else f"{type(error).__name__}: "
        connection.send(f"{kind}{error}")
