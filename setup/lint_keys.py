"""Prints "KEY SOURCE" for each source given: KEY changes when the source, a header of ours that it includes, at any
depth, or .clang-tidy does."""

import functools
import hashlib
import pathlib
import re
import sys

INCLUDE = re.compile(rb'^\s*#include\s+"([^"]+)"', re.MULTILINE)


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


rules = read(".clang-tidy")[0]
for source in sys.argv[1:]:
    key = hashlib.sha256(rules)
    for name in closure(source):
        key.update(hashlib.sha256(read(name)[0]).digest())
    print(key.hexdigest()[:16], source)
