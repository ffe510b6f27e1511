"""Refuses names that two files of a CMake target share in their anonymous namespaces: a build for users compiles the
files of a target together (ISOCOST_UNITY). Refuses names that two headers of the tree define in one namespace: if
both get into a program, the linker keeps one of two destructors for both, and no compiler warns.

Reads compile_commands.json in the folder given. Finds types, constants and functions with the same parameters where
clang-format begins a line with them; `./run nightly unity` finds the rest of the first kind."""

import collections
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

ENCLOSING = re.compile(r"^namespace ([\w:]+) \{$", re.MULTILINE)
ANONYMOUS = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"(?:struct|class|enum class|union) (\w+)")
CONSTANT = re.compile(r"\b(k[A-Z]\w*)(?= =|\{|\[|;)")
FUNCTION = re.compile(r"([\w:]+)\((.*)\)[^()]*$")
LOCAL_CONSTANT = re.compile(r"^ +constexpr [^()]*?\b(k[A-Z]\w*)(?= =|\{|\[)", re.MULTILINE)


def declarations(namespace: str) -> Iterator[str]:
    """The declarations of a namespace, each up to its body, its value or its end."""
    lines = namespace.splitlines()
    for start, line in enumerate(lines):
        if not re.match(r"[A-Za-z]", line) or line.startswith("template"):
            continue
        text = line
        for more in lines[start + 1:]:
            if re.search(r"[;{]|=$", text):
                break
            text += " " + more.strip()
        yield text


def parameter_types(parameters: str) -> str:
    types, depth = [""], 0
    for character in parameters:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            types.append("")
        else:
            types[-1] += character
    return ", ".join(re.sub(r"(?<=[\s&*])\w+$", "", each.split(" = ")[0].strip()).strip() for each in types)


def enclosing(text: str) -> str:
    match = ENCLOSING.search(text)
    return match[1] + "::" if match else ""


def names(text: str) -> set[str]:
    """Returns the names that a file defines in its anonymous namespaces, those of functions as NAME(TYPES)."""
    found = set()
    for namespace in ANONYMOUS.findall(text):
        for declaration in declarations(namespace):
            head = re.split(r" = | ?\{|;", declaration)[0]
            if match := TYPE.match(declaration):
                found.add(match[1])
            elif match := FUNCTION.search(head):
                found.add(f"{match[1]}({parameter_types(match[2])})")
            elif match := CONSTANT.search(declaration):
                found.add(match[1])
    return {enclosing(text) + name for name in found}


def defined_in_header(text: str) -> set[str]:
    """Returns what a header defines: types, and constants and functions that each including file copies."""
    found = set()
    for declaration in declarations(ANONYMOUS.sub("", text)):
        if match := TYPE.match(declaration):
            if "{" in declaration:
                found.add(match[1])
        elif match := re.match(r"(?:inline|constexpr) .*", declaration):
            head = re.split(r" = | ?\{|;", declaration)[0]
            if match := FUNCTION.search(head):
                found.add(f"{match[1]}({parameter_types(match[2])})")
            elif match := CONSTANT.search(declaration):
                found.add(match[1])
    return {enclosing(text) + name for name in found}


targets: dict[str, dict[str, str]] = collections.defaultdict(dict)
for entry in json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text()):
    if match := re.search(r" -o \S*?CMakeFiles/(\S+?)\.dir/", entry["command"]):
        text = pathlib.Path(entry["file"]).read_text()
        if "hwy/foreach_target.h" not in text:  # such a file is compiled on its own
            targets[match[1]][entry["file"]] = text

findings = []
for target, texts in targets.items():
    defined_in: dict[str, list[str]] = collections.defaultdict(list)
    for file, text in texts.items():
        # The compiler warns of a local constant that hides one of a file before.
        hidden = {enclosing(text) + name for name in LOCAL_CONSTANT.findall(text)} & defined_in.keys()
        for name in names(text) | hidden:
            defined_in[name].append(file)
    for name, places in sorted(defined_in.items()):
        if len(places) > 1:
            shown = ", ".join(str(pathlib.Path(place).relative_to(pathlib.Path.cwd())) for place in places)
            findings.append(f"{target}: {name} is in {shown}")
headers: dict[str, list[str]] = collections.defaultdict(list)
listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h"], capture_output=True,
                        text=True, check=True)
for file in filter(lambda name: not name.endswith("-inl.h"), listed.stdout.split()):  # compiled for each CPU
    for name in defined_in_header(pathlib.Path(file).read_text()) if pathlib.Path(file).exists() else ():
        headers[name].append(file)
findings += [f"{name} is in {', '.join(places)}" for name, places in sorted(headers.items()) if len(places) > 1]
for finding in findings:
    print(finding)
if findings:
    sys.exit("Files of a target are compiled together, and a program has one of each name: give each the name of what "
             "it is, or define it once.")
