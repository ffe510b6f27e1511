"""Names of models on the hub, and the command that downloads one."""

import re

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


def is_hub_name(text: str) -> bool:
    """Returns whether text has the form OWNER/NAME."""
    return _NAME.fullmatch(text) is not None


def download_command(name: str, options: str = "") -> str:
    """Returns the command that downloads the files of a model that are read. A text of another form is replaced by
    OWNER/NAME."""
    shown = name if is_hub_name(name) else "OWNER/NAME"
    return f"`hf download {shown} --include '*.j*'{options}`"
