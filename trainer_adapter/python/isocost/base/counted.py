"""Counts with their nouns, for messages."""


def counted(count: int, noun: str) -> str:
    """Returns "1 sample" or "2 samples"; for nouns with a plural in -s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
