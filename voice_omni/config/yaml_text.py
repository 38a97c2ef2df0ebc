"""Values as they would stand in a YAML file."""

from __future__ import annotations

from typing import Any


def written(value: Any) -> str:
    """A value on one line; texts as they are, without quotes where a person needs none."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list() | tuple() | set() | frozenset():
            return f"[{', '.join(written(item) for item in value)}]"
        case dict():
            return f"{{{', '.join(f'{key}: {written(item)}' for key, item in value.items())}}}"
        case "":
            return "''"
        case _:
            return str(value)
