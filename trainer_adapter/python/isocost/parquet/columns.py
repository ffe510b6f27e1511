"""Which columns of a Parquet file become members of a record, and how their values are written."""

import base64
import json
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import pyarrow

# Members of a record that name media (docs/make_shards.md).
MEDIA_NAMES = ("image", "images", "video", "videos", "audio", "audios", "file_name")
_LEAVE_OUT = "or leave the column out with --ignore-columns {name}"

Convert = Callable[[Any], Any]


class Column(NamedTuple):
    """A column that is read.

    Attributes:
        name: str, the member of the record.
        convert: makes a value of JSON of Arrow's value; None if it is one already.
    """

    name: str
    convert: Optional[Convert]


def columns_of(schema: Any, ignored: Sequence[str], file: str) -> List[Column]:
    """Returns the columns that are read. Raises ValueError, naming file and column, for a column that cannot be."""
    absent = [name for name in ignored if name not in schema.names]
    if absent:
        raise ValueError(f"{file}: --ignore-columns names {absent[0]!r}, which is none of its columns: "
                         f"{', '.join(schema.names)}")
    columns = []
    for field in schema:
        if field.name in ignored:
            continue
        why_not = _why_not(field.type)
        if not why_not and _holds_media(field.type) and field.name not in MEDIA_NAMES:
            why_not = (f"holds media, which a record has in {', '.join(MEDIA_NAMES[:-2])} or {MEDIA_NAMES[-2]}: rename "
                       "it (datasets.Dataset.rename_column)")
        if why_not:
            raise ValueError(f"{file}: column {field.name!r} {why_not}, {_LEAVE_OUT.format(name=field.name)}")
        columns.append(Column(field.name, _conversion(field.type)))
    if not columns:
        raise ValueError(f"{file}: no column is left to read")
    return columns


def _is_list(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_medium(kind: Any) -> bool:
    """Returns whether a type is that of Hugging Face's images, sounds and videos."""
    if not pyarrow.types.is_struct(kind) or {field.name for field in kind} != {"bytes", "path"}:
        return False
    return _is_bytes(kind.field("bytes").type) and _is_text(kind.field("path").type)


def _holds_media(kind: Any) -> bool:
    return _is_medium(kind) or (_is_list(kind) and _holds_media(kind.value_type))


def _is_bytes(kind: Any) -> bool:
    return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))


def _is_text(kind: Any) -> bool:
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))


def _is_json(kind: Any) -> bool:
    return isinstance(kind, pyarrow.BaseExtensionType) and kind.extension_name == "arrow.json"


def _is_plain(kind: Any) -> bool:
    """Returns whether Arrow's values of a type are values of JSON."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    return bool(_is_text(kind) or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
                or types.is_null(kind))


def _why_not(kind: Any) -> str:
    """Returns why a type is not read, as the end of a sentence; "" if it is."""
    if _is_plain(kind) or _is_medium(kind) or _is_json(kind):
        return ""
    if _is_list(kind):
        return _why_not(kind.value_type)
    if pyarrow.types.is_struct(kind):
        return next(filter(None, (_why_not(field.type) for field in kind)), "")
    if _is_bytes(kind):
        return ("holds bytes that are not said to be a medium: cast it (datasets.Dataset.cast_column, to "
                "datasets.Image(), Audio() or Video())")
    return f"has the type {kind}, which JSON lacks: write it as a string"


def _conversion(kind: Any) -> Optional[Convert]:
    """Returns what makes a value of JSON of a value that is not null; None if nothing is to be done."""
    if _is_medium(kind):
        return _medium
    if _is_json(kind):
        return json.loads
    if _is_list(kind):
        inner = _conversion(kind.value_type)
        return None if inner is None else _list_conversion(inner)
    if pyarrow.types.is_struct(kind):
        return _struct_conversion({field.name: _conversion(field.type) for field in kind})
    return None


def _list_conversion(inner: Convert) -> Convert:
    return lambda values: [None if value is None else inner(value) for value in values]


def _struct_conversion(inner: Dict[str, Optional[Convert]]) -> Convert:
    def convert(value: Dict[str, Any]) -> Dict[str, Any]:
        return {name: _converted(inner[name], member) for name, member in value.items() if member is not None}

    return convert


def _converted(convert: Optional[Convert], value: Any) -> Any:
    return value if convert is None else convert(value)


def _medium(value: Dict[str, Any]) -> Optional[Dict[str, str]]:
    """Returns a medium as a record has it: its bytes in base64, and its path. None if it has neither."""
    written = {}
    if value["bytes"] is not None:
        written["bytes"] = base64.b64encode(value["bytes"]).decode()
    if value["path"] is not None:
        written["path"] = value["path"]
    return written or None
