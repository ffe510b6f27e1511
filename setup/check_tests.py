"""Checks that every test file is registered: its name, with or without "_test", is a word of the CMakeLists.txt of its
folder or of one above it."""

import pathlib
import re
import subprocess
import sys


def words(folder):
    """The words of the folder's CMakeLists.txt, and of those above it."""
    lists = [file for each in (folder, *folder.parents) if (file := each / "CMakeLists.txt").is_file()]
    return {word for file in lists for word in re.findall(r"[\w.-]+", file.read_text(encoding="utf-8"))}


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "tests/**_test.py",
                             "tests/**_test.cc"], check=True, capture_output=True, text=True).stdout.split()
    forgotten = []
    for file in map(pathlib.Path, listed):
        names = {file.name, file.stem, file.stem.removesuffix("_test")}
        if file.is_file() and not names & words(file.parent):
            forgotten.append(str(file))
    for file in forgotten:
        print(f"{file}: no CMakeLists.txt registers it, so no run of the tests starts it", file=sys.stderr)
    sys.exit(1 if forgotten else 0)


if __name__ == "__main__":
    main()
