"""The rows of a row group as lines of JSON."""

import json
import os
from typing import Any, Iterator, List, NamedTuple, Tuple

import pyarrow
from pyarrow import parquet

from isocost.parquet.columns import Column, columns_of

_BATCH = 64  # rows that are in memory as Python objects at once


class RowGroup(NamedTuple):
    """A row group of a file, and the file that its lines are written to.

    Attributes:
        source: path of the Parquet file.
        number: int, from 0.
        first_row: int, the row of the file that it begins with, from 0.
        lines: path of the file to write.
        ignored: tuple of str, columns that are left out.
    """

    source: str
    number: int
    first_row: int
    lines: str
    ignored: Tuple[str, ...]


def open_parquet(source: str) -> Any:
    """Returns the ParquetFile. Raises OSError, and ValueError for a file that is damaged or of another format."""
    try:
        return parquet.ParquetFile(source)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{source}: cannot be read as Parquet: {error}") from None


def write_lines(group: RowGroup) -> None:
    """Writes the rows of a row group, a line each. The file appears once it is complete. Raises ValueError that names
    the rows which cannot be read, and OSError."""
    part = f"{group.lines}.part"
    with open_parquet(group.source) as opened, open(part, "wb") as out:
        columns = columns_of(opened.schema_arrow, group.ignored, group.source)
        out.writelines(_lines(opened, group, columns))
    os.replace(part, group.lines)


def _lines(opened: Any, group: RowGroup, columns: List[Column]) -> Iterator[bytes]:
    row = group.first_row
    try:
        for batch in opened.iter_batches(_BATCH, row_groups=[group.number], columns=[name for name, _ in columns],
                                         use_threads=False):
            for record in _records(batch, columns):
                yield json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
                row += 1
    except (pyarrow.ArrowException, ValueError) as error:  # also UnicodeError, for a string that is not UTF-8
        raise ValueError(f"{group.source}: row {row + 1} or one of the {_BATCH - 1} after it cannot be read: "
                         f"{error}") from None


def _records(batch: Any, columns: List[Column]) -> Iterator[Any]:
    """Yields the records of a batch. They lack what is null, since Arrow gives all rows the same members."""
    values = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name, _ in columns]
    for row in zip(*values):
        record = {}
        for (name, convert), value in zip(columns, row):
            written = value if value is None or convert is None else convert(value)
            if written is not None:
                record[name] = written
        yield record
