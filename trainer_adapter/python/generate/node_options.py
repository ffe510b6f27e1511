"""Writes isocost/options/node_options.py from the node's option table. Run it with the built package on PYTHONPATH:

    PYTHONPATH=build/release/python python3 trainer_adapter/python/generate/node_options.py
"""

import pathlib
import textwrap
from typing import List, NamedTuple, Tuple

from isocost import _isocost

FILE = pathlib.Path(__file__).parents[1] / "isocost" / "options" / "node_options.py"
WIDTH = 120

# Settings that are keywords of isocost.DataLoader itself, or that the loader decides.
LOADER_SETTINGS = {"data", "ranks", "layout", "global_batch_size", "microbatches", "epochs", "seed", "shuffle",
                 "heartbeat_timeout", "image_size", "reprofile", "bind", "insecure", "curve_key", "curve_clients",
                 "summary"}

TYPES = {"N": "int", "X": "float", "SIZE": "Union[int, str]", "N|P%": "Union[int, str]", "MODULES": "Sequence[str]",
         "EXTENSIONS": "Sequence[str]", "STEPS": "Sequence[str]", "KEY": "str", "PLACE": "str", "FORMAT": "str",
         "FILE": "Path", "DIR": "Path", "NAME": "str", "ADDRESS": "str", "SECONDS": "float",
         "off|on": "bool"}
PREFIX = "recipe."


class Field(NamedTuple):
    name: str
    type: str
    default: str
    text: str


def field(row: Tuple[str, str, str, str]) -> Field:
    name, value, text, default = row
    kind = TYPES.get(value)
    if kind is None and "|" in value and value.islower():
        kind = "Literal[" + ", ".join(f'"{word}"' for word in value.split("|")) + "]"
    if kind is None:
        raise ValueError(f"{name}: there is no Python type for a value of kind {value}: add it to TYPES")
    literal = f'"{default}"'
    if kind == "bool":
        literal = str(default == "on")
    elif kind == "Sequence[str]":
        literal = repr(tuple(default.split(","))) if default else "()"
    elif kind == "float":
        literal = repr(float(default))
    elif kind == "int" or (kind == "Union[int, str]" and default.isdigit()):
        literal = default
    return Field(name.removeprefix(PREFIX), kind, literal, text)


def attribute(name: str, text: str) -> str:
    return textwrap.fill(f"{name}: {text}", WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)


def dataclass(name: str, summary: str, fields: List[Field]) -> str:
    attributes = "\n".join(attribute(each.name, each.text) for each in fields)
    members = "\n".join(f"    {each.name}: {each.type} = {each.default}" for each in fields)
    paragraph = textwrap.fill(summary, WIDTH, initial_indent='    """', subsequent_indent="    ")
    return (f"@remember_given\n@dataclasses.dataclass(frozen=True)\nclass {name}:\n{paragraph}\n\n"
            f"    Attributes:\n{attributes}\n"
            f'    """\n\n{members}\n')


def text() -> str:
    rows = [row for row in _isocost.option_table() if row[0] not in LOADER_SETTINGS]
    recipe = [field(row) for row in rows if row[0].startswith(PREFIX)]
    node = [field(row) for row in rows if not row[0].startswith(PREFIX)]
    node.insert(0, Field("recipe", "Union[str, RecipeOptions]", "RecipeOptions()",
                         "How media become tensors; a name stands for RecipeOptions(name)."))
    header = '''"""Settings of an embedded node: isocost.NodeOptions and isocost.RecipeOptions.

Generated from the node's option table by trainer_adapter/python/generate/node_options.py. Do not edit.
"""

import dataclasses
import os
from typing import Literal, Sequence, Union

from isocost.options.given_fields import remember_given

Path = Union[str, os.PathLike[str]]
'''
    of_recipe = "How a loader node turns media into tensors."
    of_node = ("Settings of a loader node that runs inside this process. Sizes are bytes or text such as "
               '"512MiB". A value that cannot be is refused with ValueError when the loader is made.')
    return "\n\n".join([header, dataclass("RecipeOptions", of_recipe, recipe), dataclass("NodeOptions", of_node, node)])


if __name__ == "__main__":
    FILE.write_text(text())
