"""Writes isocost/_isocost.pyi from the signatures in the built extension module. Run it with the built package on
PYTHONPATH:

    PYTHONPATH=build/release/python python3 trainer_adapter/python/generate/stub.py
"""

import pathlib
import re
from typing import Any, Dict, List

from isocost import _isocost

FILE = pathlib.Path(__file__).parents[1] / "isocost" / "_isocost.pyi"

# Names of Python's own types: pybind11's, and those of type checkers.
TYPES = {r"(?:isocost\.)?_isocost\.": "", r"\bList\[float\[3\]\]": "Sequence[float]",
         r"\bdict\b": "Dict[str, Any]", r"\blist\b": "List[Any]", r"\btuple\b": "Tuple[Any, ...]",
         r"\bfunction\b": "Callable[..., Any]", r"\bobject\b": "Any",
         r"\*\*kwargs": "**kwargs: Any", r"(?<!\*)\*args\b": "*args: Any"}


def typed(signature: str) -> str:
    for pattern, replacement in TYPES.items():
        signature = re.sub(pattern, replacement, signature)
    return re.sub(r"^\((self|arg0): \w+", "(self", signature)


def documented(line: str, docstring: str, indent: str) -> str:
    if not docstring:
        return f"{indent}{line}: ..."
    return f'{indent}{line}:\n{indent}    """{docstring}"""'


def function(name: str, docstring: str, indent: str) -> List[str]:
    """Returns a function's definitions: one, or one for each overload."""
    overloads = re.findall(rf"^\d+\. {name}(\(.*)$", docstring, re.MULTILINE)
    if overloads:
        return [f"{indent}@overload\n{indent}def {name}{typed(signature)}: ..." for signature in overloads]
    first, _, rest = docstring.partition("\n")
    return [documented(f"def {name}{typed(first[len(name):])}", rest.strip(), indent)]


def property_lines(name: str, member: Any) -> List[str]:
    signature = (member.fget.__doc__ or "").strip().partition("\n")[0]
    return ["    @property", documented(f"def {name}{typed(signature)}", (member.__doc__ or "").strip(), "    ")]


def class_lines(name: str, members: Dict[str, Any]) -> List[str]:
    lines = [f"class {name}:"]
    for member_name, member in members.items():
        if isinstance(member, property):
            lines += property_lines(member_name, member)
        elif type(member).__name__ == "instancemethod":
            lines += function(member_name, member.__doc__, "    ")
    return lines


def text() -> str:
    lines = ['"""The extension module that the package is built on. It is not for users and may change.', "",
             "Generated from the built module by trainer_adapter/python/generate/stub.py. Do not edit.", '"""', "",
             "from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, overload"]
    for name, member in vars(_isocost).items():
        if isinstance(member, type):
            lines += ["", *class_lines(name, dict(vars(member)))]
        elif callable(member) and not name.startswith("_"):
            lines += ["", *function(name, member.__doc__ or "", "")]
        elif isinstance(member, (int, float)) or name == "version":
            lines += ["", f"{name}: {type(member).__name__}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
