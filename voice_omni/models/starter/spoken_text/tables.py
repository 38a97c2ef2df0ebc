"""Writing tables of words so that they can be read."""

from __future__ import annotations


def listed(text: str) -> tuple[str, ...]:
    """The words of a table that is written as one string."""
    return tuple(text.split())
