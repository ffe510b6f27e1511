"""Finds figures of pages, and where they come from, by marks before a paragraph, a table, a block or an item of a list.

A mark is an HTML comment in a line of its own, which readers do not see. Figures that a program prints are compared
with it, and copies with the page that they come from:

    <!-- table of: COMMAND -->             the table that COMMAND prints; columns that it does not print were measured.
                                           With --all COMMAND prints rows that take long, too (ISOCOST_FIGURES=all)
    <!-- figures of: COMMAND: FIGURE = WORDS N; ... -->
                                           FIGURE is the Nth number after WORDS in the first line of COMMAND's output
                                           that begins with them, rounded to the digits of FIGURE; FIGURE±TOLERANCE
                                           allows more. With --all COMMAND takes long, and does not run otherwise
    <!-- table in: FILE -->                rows of a table of FILE; columns that FILE has not are not compared
    <!-- figures in: FILE: FIGURE, ... --> FIGURE is in FILE as well

A figure that a clock, or a machine's memory, has given cannot be compared. Its section, or the page before its first
section, says where it comes from:

    <!-- measured: DATE; COMMAND; HARDWARE -->   these words are there; DATA that is not in the tree for HARDWARE

Each table with FIGURES or more cells that are figures, and each paragraph with more than FIGURES, has one of these
marks, or `output of` (blocks.py).
"""

import dataclasses
import decimal
import re

FIGURES = 4
_MARK = re.compile(r"^<!-- (table of|figures of|table in|figures in|measured|output of): (.*?) -->$")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
_UNITS = r" ?(?:(?:[mµn]?s|[KMG]B|[KMG]iB|MPix/s|images/s|frames/s|times)\b|%)"
_IN_PROSE = re.compile(rf"(?<![\w.])(?:\d[\d.,]*{_UNITS}|\d+\.\d+(?![\w.]))")
_IN_CELL = re.compile(rf"\d{_UNITS}|\d\.\d|^\d\S* \(")


@dataclasses.dataclass
class Mark:
    place: str  # for messages: README.md:45
    kind: str
    argument: str
    text: str  # what follows it
    section: str


def marks_of(name, page):
    """The marks of a page, and the places of tables and paragraphs with figures that have none."""
    lines = page.split("\n")
    marks, waiting, bare = [], [], []
    at = section = 0
    while at < len(lines):
        start, line = at, lines[at].strip()
        if line.startswith("#"):
            section = at
        if (found := _MARK.match(line)) is not None:
            waiting.append((at, *found.groups()))
            at += 1
            continue
        at = _end_of(lines, at)
        text = "\n".join(lines[start:at])
        if not waiting and lacks_mark(line, text):
            bare.append(f"{name}:{start + 1}")
        if text.strip() and not line.startswith("<!--"):
            whole = _section(lines, section)
            marks += [Mark(f"{name}:{i + 1}", kind, argument, text, whole) for i, kind, argument in waiting]
            waiting = []
    if waiting:
        raise ValueError(f"{name}:{waiting[0][0] + 1}: the mark stands before nothing")
    return marks, bare


def _end_of(lines, start):
    """The line after the block, table, item or paragraph that begins at `start`."""
    if lines[start].strip().startswith("```"):
        return next((i + 1 for i in range(start + 1, len(lines)) if lines[i].strip() == "```"), len(lines))
    end = start + 1
    if not lines[start].strip() or lines[start].startswith(("#", "<!--")):
        return end
    table = lines[start].startswith("|")
    while end < len(lines) and lines[end].strip() and not lines[end].lstrip().startswith(("<!--", "```", "- ")):
        if lines[end].startswith("|") != table:
            break
        end += 1
    return end


def _section(lines, start):
    """The section that begins at a line, and what stands before the page's first section."""
    heads = [i for i, line in enumerate(lines) if line.startswith("##")] + [len(lines)]
    end = min(i for i in heads if i > start)
    kept = lines[:heads[0]] + lines[start:end]
    return "\n".join(line for line in kept if not line.strip().startswith("<!--"))


def table_of(text):
    """The rows of the first table in a text, as lists of cells, the head first."""
    rows = []
    for line in text.split("\n"):
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]])
        elif rows:
            break
    return [row for row in rows if not all(set(cell) <= set("-|: ") and "-" in cell for cell in row)]


def tables_of(text):
    """All tables of a text."""
    parts = re.split(r"^(?!\|).*$", text, flags=re.MULTILINE)
    return [table_of(part) for part in parts if part.strip()]


def lacks_mark(line, text):
    """Whether a text that begins with a line, and has no mark, has so many figures that it needs one."""
    if line.startswith(("```", "#", "<!--")):
        return False
    if not line.startswith("|"):
        return len(_IN_PROSE.findall(text)) > FIGURES
    cells = [cell for row in table_of(text)[1:] for cell in row]
    return sum(bool(re.match(r"[-+−<≤]?\d", cell) and _IN_CELL.search(cell)) for cell in cells) >= FIGURES


def shared_columns(table, other):
    """Rows of both tables without the columns that only one of them has."""
    names = [name for name in table[0] if name in other[0]]
    return names, *([[row[rows[0].index(name)] for name in names] for row in rows[1:]] for rows in (table, other))


def expectations(argument):
    """COMMAND, and figure, tolerance, words and number of each expectation of a mark `figures of`."""
    command, *rest = re.split(r": (?=[\d.,]+(?:±[\d.]+)? = )", argument, maxsplit=1)
    pattern = r"([\d.,]+)(?:±([\d.]+))? = (.*) (\d+)"
    found = [re.fullmatch(pattern, part) for part in rest[0].split("; ")] if rest else [None]
    if None in found:
        raise ValueError(f"'{argument}' is not COMMAND: FIGURE = WORDS N; ...")
    return command, [(match[1], match[2] or "0", match[3], int(match[4])) for match in found]


def numbers_of(text):
    return [number.replace(",", "") for number in _NUMBER.findall(text)]


def has_figure(text, figure):
    """Whether a text has the figure, as a number or a word of its own."""
    plain, wanted = (re.sub(r"(?<=\d),(?=\d{3})", "", part) for part in (text, figure))
    return re.search(rf"(?<![\w.]){re.escape(wanted)}(?![\w]|\.\d)", " ".join(plain.split())) is not None


def printed_number(output, words, number):
    line = next((line for line in output.splitlines() if " ".join(line.split()).startswith(words)), None)
    if line is None:
        return None
    numbers = numbers_of(" ".join(line.split()).removeprefix(words))
    return numbers[number - 1] if number <= len(numbers) else None


def rounds_to(printed, figure, tolerance="0"):
    """Whether a printed number is the figure of a page, to its digits, or within the tolerance."""
    shown = decimal.Decimal(figure.replace(",", ""))
    half = decimal.Decimal(5).scaleb(shown.as_tuple().exponent - 1)
    return abs(decimal.Decimal(printed) - shown) <= max(half, decimal.Decimal(tolerance))
