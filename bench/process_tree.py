"""A process and all that it started."""

import pathlib


def tree(pid):
    """The process and its descendants, those that end meanwhile left out."""
    try:
        children = [child for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                    for child in (task / "children").read_text().split()]
    except OSError:
        return
    yield pid
    for child in children:
        yield from tree(int(child))
