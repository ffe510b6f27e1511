"""Refuses comments and commit subjects that a reader stops at.

check_comments.py [--since COMMIT] [FILES]    (default: every tracked file of C++ and Python)

It refuses comments of C++ and Python, and docstrings, that begin with a word of OPENINGS: they have no subject, or
their subject is in another comment. Comments that begin with a question or contain "comment-ok" are let through. With
--since, subjects of commits since that one are refused if they are longer than 72 characters.
"""

import argparse
import ast
import io
import pathlib
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

OPENINGS = ("Of", "As", "Likewise", "The same", "What", "Where")
MARKER = "comment-ok"
MOST_OF_SUBJECT = 72
GENERATED = {"trainer_adapter/python/isocost/_isocost.pyi"}  # Its text stands in the bindings, as strings.

OPENING = re.compile(rf"({'|'.join(OPENINGS)})\b")
QUESTION = re.compile(r"[^.?!]*\?")
# Literals are matched so that "//" in them is no comment. A quote after a digit separates digits.
CPP_TOKEN = re.compile(
    r'R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"
    r"|/\*.*?\*/"
    r"|(?P<comment>//[^\n]*)", re.DOTALL)


class Comment(NamedTuple):
    """One line of a comment, or a docstring."""

    line: int
    column: int
    text: str  # Without the marker of the language.
    alone: bool = True  # No code stands before it.


def cpp_comments(source: str) -> Iterator[Comment]:
    """Yields each // comment of a C++ file."""
    for token in CPP_TOKEN.finditer(source):
        if text := token["comment"]:
            before = source[source.rfind("\n", 0, token.start()) + 1:token.start()]
            yield Comment(source.count("\n", 0, token.start()) + 1, len(before),
                          re.sub(r"^//[/!]?<? *", "", text), not before.strip())


def python_comments(source: str) -> Iterator[Comment]:
    """Yields each comment of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            before = token.line[:token.start[1]]
            yield Comment(*token.start, token.string.lstrip("#: "), not before.strip())


def docstrings(source: str) -> Iterator[Comment]:
    """Yields each docstring of a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if (text := ast.get_docstring(node)) is not None:
                yield Comment(node.body[0].lineno, node.body[0].col_offset, text)


def paragraphs(lines: Iterator[Comment]) -> Iterator[Comment]:
    """Yields the paragraphs of comments: a line below in the same column continues one."""
    whole = last = None
    for line in lines:
        if last is not None and last.text and line.alone and (line.line, line.column) == (last.line + 1, whole.column):
            whole = whole._replace(text=f"{whole.text}\n{line.text}")
        else:
            if whole is not None:
                yield whole
            whole = line
        last = line
    if whole is not None:
        yield whole


def comment_problems(path: str, source: str) -> list[str]:
    """Returns a message for each refused comment of a file."""
    if path.endswith((".py", ".pyi")):
        comments = sorted([*paragraphs(python_comments(source)), *docstrings(source)])
    else:
        comments = list(paragraphs(cpp_comments(source)))
    return [f'{path}:{comment.line}: the comment begins with "{opening[1]}": write a sentence with a subject, or for a '
            f'field a noun phrase ("{MARKER}" in the comment lets it through)'
            for comment in comments
            if (opening := OPENING.match(comment.text)) is not None
            and QUESTION.match(comment.text) is None and MARKER not in comment.text]


def subject_problems(since: str) -> list[str]:
    """Returns a message for each commit since `since` whose subject is too long."""
    log = git("log", "--no-merges", "--format=%h %s", f"{since}..HEAD").splitlines()
    commits = [line.partition(" ") for line in log]
    return [f"commit {commit}: its subject has {len(subject)} characters: shorten it to {MOST_OF_SUBJECT} "
            f'(git commit --amend, or git rebase -i): "{subject}"'
            for commit, _, subject in commits if len(subject) > MOST_OF_SUBJECT]


def git(*arguments: str) -> str:
    """Returns the output of a git command. Ends the program if it fails; git has then said why."""
    done = subprocess.run(["git", *arguments], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"check_comments: git {' '.join(arguments)} failed")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", metavar="COMMIT", help="also check the subjects of the commits since this one")
    parser.add_argument("files", nargs="*", metavar="FILES")
    given = parser.parse_args()
    files = given.files or git("ls-files", "--cached", "--others", "--exclude-standard",
                               "*.h", "*.cc", "*.py", "*.pyi").splitlines()
    found = subject_problems(given.since) if given.since else []
    for path in sorted(set(files) - GENERATED):
        if pathlib.Path(path).is_file():
            found += comment_problems(path, pathlib.Path(path).read_text(encoding="utf-8"))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
