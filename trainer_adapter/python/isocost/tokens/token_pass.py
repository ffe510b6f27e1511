"""Tokenizes a data set for a model, once, before training: python3 -m isocost.tokenize DATA --model DIR."""

import argparse
import collections
import json
import logging
import os
import shutil
import signal
import sys
import time
from types import FrameType
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

from isocost import _isocost
from isocost.base.counted import counted
from isocost.base.file_names import readable
from isocost.base.logs import log
from isocost.options.node_options import NodeOptions
from isocost.tokens.conversation import DEFAULT_LABELS, LABELS, MEDIA_MARK, ConversationOptions, check_options
from isocost.tokens.recorded_options import ShardOptions, TokenOptions, chosen_options, named
from isocost.tokens.workers import Counts, Settings, TokenWorkers

_LOG = logging.getLogger("isocost")
LOCK = "tokenize.lock"
_SHOWN_REASONS = 10
_BAR_S = 0.1  # seconds between two redraws
_BAR = 30  # characters

_EPILOG = """\
Each sample's text becomes token ids with the model's own tokenizer.json and chat template. Text is JSON with `messages`
or `conversations`, or a caption; for Whisper the transcript of a sound. The ids are kept beside the index of the
shards; shards whose tokens are current are skipped, so a pass that was interrupted goes on where it was. A sample that
cannot be tokenized is written with the reason, and counts as bad when it is loaded.

examples:
  {program} data/shards --model Qwen2-VL-2B-Instruct
  {program} data/shards --model DIR --labels last --index-dir /fast/index
  {program} data/captions --model DIR --caption-template '<media>Describe this in one sentence.'
  {program} data/shards --model DIR --json | jq .bad_samples

exit status: 0 all shards have tokens; 1 an error, or no usable sample; 2 wrong arguments; 130 interrupted
"""


class Outcome(NamedTuple):
    """Results of a pass.

    Attributes:
        shards: number of shards of the data set.
        tokenized_shards: number of those that were tokenized; the others were current.
        counts: of those that were tokenized.
        usable_samples: number of samples of the data set that have tokens.
        directory: where the tokens are.
        fingerprint: of the tokenizer, 64 bits.
        about: a line for people on what the tokens are.
        seconds: float.
        unread: a sentence on what no model sees of the data set; "" if it sees everything.
    """

    shards: int
    tokenized_shards: int
    counts: Counts
    usable_samples: int
    directory: str
    fingerprint: int
    about: str
    seconds: float
    unread: str = ""

    def to_json(self) -> Dict[str, Any]:
        counts = self.counts._asdict()
        del counts["keys"]
        counts["reasons"] = list(self.counts.reasons[:_SHOWN_REASONS])
        return {"shards": self.shards, "tokenized_shards": self.tokenized_shards, **counts,
                "directory": self.directory, "fingerprint": f"{self.fingerprint:016x}", "about": self.about,
                "seconds": round(self.seconds, 3), "unread": self.unread,
                "unread_keys": [{"key": key, "in": place, "samples": samples}
                                for (place, key), samples in self.counts.keys.unread().items()]}

    def __str__(self) -> str:
        counts = self.counts
        lines = [f"tokenized {self.tokenized_shards} of {counted(self.shards, 'shard')}; the others were current"
                 if self.tokenized_shards < self.shards else f"tokenized {counted(self.shards, 'shard')}"]
        lines.append(f"{counted(counts.samples, 'sample')}, {counted(counts.tokens, 'token')}, "
                     f"{counted(counts.label_tokens, 'label token')} in {self.seconds:.1f} s")
        lines.append(f"in {self.directory} for {self.about}")
        if counts.bad_samples:
            lines.append(f"{counted(counts.bad_samples, 'bad sample')}:")
            lines += [f"  {reason}" for reason in counts.reasons[:_SHOWN_REASONS]]
            if counts.bad_samples > min(len(counts.reasons), _SHOWN_REASONS):
                lines.append("  ...")
        return "\n".join(lines)


class _Progress:
    """A progress bar on stderr, if that is a terminal: a line that is redrawn. Also tells those that wait.

    Args:
        total: number of samples.
        tell: receives the progress as text.
    """

    def __init__(self, total: int, tell: Callable[[str], None]):
        self._total = total
        self._tell = tell
        self._done = 0
        self._drawn = 0.0
        self._shown = sys.stderr.isatty()

    def add(self, samples: int) -> None:
        self._done += samples
        self._tell(f"{self._done} of {counted(self._total, 'sample')}")
        now = time.monotonic()
        if self._shown and (now - self._drawn >= _BAR_S or self._done == self._total):
            self._drawn = now
            filled = _BAR * self._done // max(1, self._total)
            line = f"[{'#' * filled}{'.' * (_BAR - filled)}] {self._done}/{self._total} samples"
            print(f"\r\033[K{line[:shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown and self._drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def tokenize(settings: Settings, workers: int, *, replace: bool = False) -> Outcome:
    """Tokenizes the shards whose tokens are not current.

    replace: whether current tokens that were made with other options are made again.
    Blocks while another process tokenizes the same data set, whose name and progress the log says; its tokens are
    current then.
    Raises: OSError, ValueError and ImportError where the data set or the model directory cannot be used, ValueError for
        other options than the tokens were made with, RuntimeError if a tokenizing process fails.
    """
    begin = time.monotonic()
    settings.tokenizer()
    _isocost.recipe_description(settings.model, settings.image_size)  # Refuses a directory that no loader could use.
    directory = _with_recorded_options(settings, replace)[1].directory
    with _isocost.MakerLock(os.path.join(directory, LOCK), f"the tokens of {settings.data}", log) as lock:
        # Opened again, because another process may have written until now.
        settings, opened = _with_recorded_options(settings, replace)
        tokenizer = settings.tokenizer()
        shards = opened.shards
        pending = [i for i, (_name, _samples, current, *_rest) in enumerate(shards) if not current]
        pending.sort(key=lambda i: -int(shards[i][1]))  # The longest first, so that all processes end at about the same
                                                        # time.
        counts = Counts()
        if pending:
            counts = _run(settings, workers, pending, _Progress(sum(shards[i][1] for i in pending), lock.tell))
        usable = sum(opened.tokenized(i) for i in range(len(shards)))
    return Outcome(len(shards), len(pending), counts, usable, directory, tokenizer.fingerprint, tokenizer.about,
                   time.monotonic() - begin, opened.unread)


def make_missing(settings: Settings, workers: int) -> None:
    """Tokenizes the shards that have no tokens of the model, with the options of the tokens that there are, and logs
    why shards with other tokens are tokenized again. Raises the errors of `tokenize`."""
    settings.tokenizer()  # Its files may contradict each other.
    chosen, opened = _with_recorded_options(settings, False)
    shards = opened.shards
    stale = collections.Counter(why for _name, _samples, _current, _usable, why, _options in shards if why)
    for why, count in stale.items():
        _LOG.warning("%s: the tokens of %d of %s %s; they are made anew for %s, with %s", settings.data, count,
                     counted(len(shards), "shard"), why, settings.model, named(chosen.options.written()))
    # With the options as they were given: another process may record others until this one has its turn.
    if not all(usable for _name, _samples, _current, usable, *_rest in shards):
        unread = str(tokenize(settings, workers).counts.keys)
        if unread:
            _LOG.warning("%s: %s", settings.data, unread)


def _with_recorded_options(settings: Settings, replace: bool) -> Tuple[Settings, Any]:
    """Returns the settings with all options, and the pass that they open."""
    opened = settings.open()
    shards = [ShardOptions(name, options, usable) for name, _samples, _current, usable, _why, options in opened.shards]
    try:
        chosen = settings._replace(options=chosen_options(settings.options, shards, replace=replace))
        if chosen.options.written() == settings.options.written():
            return chosen, opened
        chosen.tokenizer()  # One of a model that takes no such options refuses them.
    except ValueError as error:
        raise ValueError(f"{settings.data}: {error}") from None
    return chosen, chosen.open()


def _run(settings: Settings, workers: int, shards: List[int], progress: _Progress) -> Counts:
    processes = min(workers, len(shards))
    counts = Counts()
    try:
        with TokenWorkers(settings, processes, max(1, workers // processes)) as running:
            for told in running.run(shards):
                if isinstance(told, Counts):
                    counts = counts.plus(told)
                else:
                    progress.add(told)
    finally:
        progress.clear()
    return counts


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Tokenizes a data set for a model, once, before training.",
        epilog=_EPILOG.format(program=program), formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False)
    parser.add_argument("data", metavar="DATA", nargs="+",
                        help="directory of shards, shard, pattern as in 'shards/{000..099}.tar', several of these with "
                             ":: between them, or file with one on each line")
    parser.add_argument("--model", metavar="DIR", required=True,
                        help="the model's directory: config.json, tokenizer.json, chat_template.jinja")
    parser.add_argument("--labels", choices=LABELS,
                        help="what the model learns to write: the assistant's turns, its last turn, or all "
                             f"(default: as the tokens that there are, else {DEFAULT_LABELS})")
    parser.add_argument("--caption-template", metavar="TEXT",
                        help=f"the user's turn before a caption; {MEDIA_MARK} stands for the media "
                             f"(default: as the tokens that there are, else {MEDIA_MARK})")
    parser.add_argument("--force", action="store_true",
                        help="make current tokens anew that were made with other --labels or --caption-template")
    parser.add_argument("--index-dir", metavar="DIR", default="",
                        help="where indexes and tokens are kept (default: .isocost beside the shards)")
    parser.add_argument("--ignore-parts", metavar="EXTENSIONS", default="",
                        help="extensions of parts that are left out of samples, as in avif,heic; the index keeps the "
                             "choice")
    parser.add_argument("--weight-key", metavar="KEY", default="weight",
                        help="member of a sample's JSON that scales its loss; empty: none does; the index keeps the "
                             "choice (default: %(default)s)")
    parser.add_argument("--media-root", metavar="DIR", default="",
                        help="directory where the relative paths of media in a file of records start (default: the "
                             "file's own)")
    parser.add_argument("--number-keys", action="store_true",
                        help="call the samples of a file of records by their line or array element")
    parser.add_argument("--text", metavar="PLACE", default="",
                        help="where a sample's text stands in a shard, as in 'json[caption],txt' (default: its text "
                             "parts, or the text of its JSON); the index keeps the choice")
    parser.add_argument("--format", metavar="FORMAT", default="",
                        help="how a directory is read: webdataset, energon, mds or records (default: its files say)")
    parser.add_argument("--split", metavar="NAME", default="",
                        help="the split of a data set that has splits (default: train of Energon)")
    parser.add_argument("--ca-file", metavar="FILE", default="",
                        help="certificates of the authorities that servers of HTTPS are checked against (default: that "
                             "of SSL_CERT_FILE or AWS_CA_BUNDLE, else the system's)")
    parser.add_argument("--image-size", metavar="KEY=N,...", default="",
                        help="sizes of the model's pictures, as for `isocost serve`; tokens do not depend on them")
    parser.add_argument("--max-decoded-pixels", metavar="N", type=int, default=NodeOptions.max_decoded_pixels,
                        help="images and frames with more pixels are bad; the index keeps the choice (default: "
                             "%(default)s)")
    parser.add_argument("--workers", metavar="N", type=int, default=len(os.sched_getaffinity(0)),
                        help="number of processes (default: one for each core, here %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    return parser


def main(argv: Optional[Sequence[str]] = None, program: str = "python3 -m isocost.tokenize") -> int:
    """Runs the command, whose messages begin with the program's name. Returns the exit status."""
    parser = _parser(program)
    given = parser.parse_args(argv)
    try:
        options = TokenOptions(given.labels, given.caption_template)
        check_options(ConversationOptions(given.labels or DEFAULT_LABELS,
                                          MEDIA_MARK if given.caption_template is None else given.caption_template))
    except ValueError as error:
        parser.error(str(error))
    if given.max_decoded_pixels < 1:
        parser.error(f"--max-decoded-pixels {given.max_decoded_pixels}: must be 1 or more")
    if given.workers < 1:
        parser.error(f"--workers {given.workers}: must be 1 or more")
    signal.signal(signal.SIGTERM, _end)
    try:
        data = str(_isocost.join_data(given.data))
        settings = Settings(data, given.index_dir, given.model, options, given.ignore_parts, given.weight_key,
                            given.image_size, given.max_decoded_pixels, given.media_root, given.number_keys,
                            given.text, given.format, given.split, given.ca_file)
        outcome = tokenize(settings, given.workers, replace=given.force)
    except KeyboardInterrupt:
        print(f"{program}: interrupted; the shards that are done stay done", file=sys.stderr)
        return 128 + signal.SIGINT
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    for unread in filter(None, (outcome.unread, str(outcome.counts.keys))):
        print(f"{program}: {data}: {unread}", file=sys.stderr)
    print(json.dumps(outcome.to_json()) if given.json else readable(str(outcome)), flush=True)
    if outcome.usable_samples == 0:
        print(f"{program}: {data}: no usable sample: none has tokens of {given.model}", file=sys.stderr)
        return 1
    return 0


def _end(number: int, _frame: Optional[FrameType]) -> NoReturn:
    """Ends this process, and with it the processes that it started."""
    sys.exit(128 + number)
