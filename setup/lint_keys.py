"""Prints "KEY SOURCE" for each source given: KEY changes when the source, a header of ours that it includes, at any
depth, or .clang-tidy does. With `--changed FILE... --`, only for the sources that are, or include, one of these files;
for all of them where .clang-tidy is among the files."""

import functools
import hashlib
import pathlib
import re
import sys

INCLUDE = re.compile(rb'^\s*#include\s+"([^"]+)"', re.MULTILINE)
RULES = ".clang-tidy"


@functools.lru_cache(maxsize=None)
def read(name: str) -> tuple[bytes, tuple[str, ...]]:
    path = pathlib.Path(name)
    text = path.read_bytes() if path.is_file() else b""
    return text, tuple(match.decode() for match in INCLUDE.findall(text))


def closure(name: str) -> list[str]:
    found, open_names = {name}, [name]
    while open_names:
        for include in read(open_names.pop())[1]:
            if include not in found:
                found.add(include)
                open_names.append(include)
    return sorted(found)


def key(names: list[str]) -> str:
    digest = hashlib.sha256(read(RULES)[0])
    for name in names:
        digest.update(hashlib.sha256(read(name)[0]).digest())
    return digest.hexdigest()[:16]


sources, changed = sys.argv[1:], None
if sources[:1] == ["--changed"]:
    end = sources.index("--")
    changed, sources = set(sources[1:end]), sources[end + 1:]
for source in sources:
    names = closure(source)
    if changed is None or RULES in changed or not changed.isdisjoint(names):
        print(key(names), source)
