"""Names of files that are not UTF-8, which Python has as text with surrogates (os.fsdecode)."""


def readable(text: str) -> str:
    """Returns text for people and for files in UTF-8, with \\xNN in place of bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
