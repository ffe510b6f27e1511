"""Finds what the documentation tells its reader to run: blocks of pages with the marks before them, and examples of
--help.

A mark is an HTML comment in a line before its block, which readers do not see:

    <!-- run: no, REASON -->          left out, for one of REASONS; words may follow the reason after a colon.
                                      "output": each of its commands is that of a block below with its output
    <!-- run: with MODULE, ... -->    runs where Python has these modules
    <!-- beside: COMMAND -->          runs while this node serves
    <!-- output of: COMMAND -->       each line of the block, or table, is one of the command's output, in this order;
                                      "..." means anything, in the first line printed that begins like it
    <!-- words of: COMMAND -->        the same words are in the command's output, whose numbers differ
    <!-- diff of: BEFORE, AFTER -->   lines with - are in the file BEFORE, lines with + in AFTER
    <!-- lines of: FILE -->           the block is in FILE, which a test runs
    <!-- records -->                  JSON objects that make-shards takes, a record each

A block without a mark runs. Its language tells how; a block of the language `text` is only read.
"""

import dataclasses
import json
import re
import shlex

REASONS = {"gpu", "cluster", "minutes", "root", "network", "fragment", "output"}
LANGUAGES = {"sh", "python", "cpp", "cmake", "json", "toml", "yaml", "diff", "text"}
_COMMENT = re.compile(r"^\s*<!--(.*?)-->\s*$", re.DOTALL)
_FENCE = re.compile(r"^(\s*)```(\w*)\s*$")
_MARK = re.compile(r"^(run|beside|output of|words of|diff of|lines of|records)(:|$)")


@dataclasses.dataclass
class Block:
    """A block of a page, or one example of --help."""

    place: str  # for messages: README.md:45
    language: str
    text: str
    left_out: str = ""  # a reason of REASONS
    modules: tuple = ()
    beside: str = ""
    output_of: str = ""
    words_of: str = ""
    diff_of: tuple = ()
    lines_of: str = ""
    records: bool = False


def blocks_of(name, page):
    """The fenced blocks of a page, and those of examples/README.md that are indented."""
    blocks = []
    lines = page.split("\n")
    marks = []
    at = 0
    while at < len(lines):
        line = lines[at]
        start = at
        at += 1
        if (fence := _FENCE.match(line)) is not None:
            indent, language = fence.groups()
            end = next((i for i in range(at, len(lines)) if lines[i].strip() == "```"), None)
            if end is None:
                raise ValueError(f"{name}:{start + 1}: the block has no end")
            text = "\n".join(row.removeprefix(indent) for row in lines[at:end])
            blocks.append(_block(f"{name}:{start + 1}", language, text, marks))
            marks = []
            at = end + 1
        elif marks and line.startswith("|"):
            while lines[at].startswith("|"):
                at += 1
            blocks.append(_block(f"{name}:{start + 1}", "text", "\n".join(lines[start:at]), marks))
            marks = []
        elif line.startswith("    ") and (start == 0 or not lines[start - 1].strip()) and _is_command(line):
            while at < len(lines) and lines[at].startswith("    "):
                at += 1
            blocks.append(_block(f"{name}:{start + 1}", "sh", "\n".join(row[4:] for row in lines[start:at]), marks))
            marks = []
        elif (comment := _COMMENT.match(line)) is not None and _MARK.match(comment.group(1).strip()):
            marks.append(comment.group(1).strip())
        elif marks and line.strip():
            raise ValueError(f"{name}:{start + 1}: the mark '{marks[0]}' stands before no block")
    return blocks


def _is_command(line):
    """Whether an indented line begins a block: text of a list is indented as well."""
    return re.match(r"^    (\./run|isocost|build/|cmake|python3?|docker|git) ?\S", line) is not None


def _block(place, language, text, marks):
    if (language or "sh") not in LANGUAGES:
        raise ValueError(f"{place}: the language '{language}' is none of {sorted(LANGUAGES)}")
    block = Block(place, language or "sh", text)
    for mark in marks:
        kind, _, rest = mark.partition(":")
        rest = rest.strip()
        if kind == "run" and (why_not := re.match(r"no, (\w+)", rest)) and why_not.group(1) in REASONS:
            block.left_out = why_not.group(1)
        elif kind == "run" and rest.startswith("with "):
            block.modules = tuple(re.split(r",\s*", rest.removeprefix("with ")))
        elif kind == "run":
            raise ValueError(f"{place}: '{mark}' gives none of the reasons {sorted(REASONS)}, and no modules")
        elif kind == "diff of":
            block.diff_of = tuple(re.split(r",\s*", rest))
        elif kind == "records":
            block.records = True
        else:
            setattr(block, kind.replace(" ", "_"), rest)
    return block


def examples_of(command, shown):
    """The examples that `command --help` prints, in their order."""
    lines = shown.split("\n")
    starts = [i for i, line in enumerate(lines) if line.lower() in ("example:", "examples:")]
    if len(starts) != 1:
        raise ValueError(f"{command} --help has {len(starts)} lists of examples")
    examples = []
    for line in lines[starts[0] + 1:]:
        if not line.startswith("  "):
            break
        if examples and examples[-1].endswith("\\"):
            examples[-1] += "\n" + line
        else:
            examples.append(line.strip())
    return examples


def commands_of(text):
    """The commands of a shell block: lines that a backslash continues are one."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [line.strip() for line in joined.split("\n") if line.strip() and not line.strip().startswith("#")]


def words_of(command):
    """The words of a command without its comment, and whether it runs in the background."""
    words = shlex.split(command, comments=True)
    return (words[:-1], True) if words[-1:] == ["&"] else (words, False)


def records_of(text):
    """The JSON objects in a text, one after another."""
    decoder = json.JSONDecoder()
    records = []
    at = 0
    while (at := re.compile(r"\s*").match(text, at).end()) < len(text):
        record, at = decoder.raw_decode(text, at)
        records.append(record)
    return records


def plain_words(text):
    """The words of a text that are the same whatever its numbers are."""
    return [word for word in re.findall(r"[^\s()]+", text) if re.fullmatch(r"[a-z][a-z/.:,]{2,}", word)]

