"""Failures of the protocol, as data for ``error`` events."""

from __future__ import annotations

import re

import msgspec


class ProtocolError(Exception):
    """A client event that cannot be obeyed. The session lives on, exactly as it was before the event.

    ``code`` is one of the contract's stable words, ``param`` the path of the offending field.
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


def unknown_parameter(path: str) -> ProtocolError:
    return ProtocolError("unknown_parameter", f"Unknown parameter: '{path}'.", path)


_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_PATH = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`$")


def from_validation(error: msgspec.ValidationError, prefix: str = "") -> ProtocolError:
    """Name the code and the parameter of a failed validation; ``prefix`` is the path of the validated object."""
    text = str(error)
    located = _PATH.search(text)
    path = (prefix + located["path"] if located else prefix).removeprefix(".")
    reason = text[: located.start()] if located else text
    for pattern, code, words in (
        (_UNKNOWN, "unknown_parameter", "Unknown parameter"),
        (_MISSING, "missing_required_parameter", "Missing required parameter"),
    ):
        if match := pattern.match(reason):
            param = f"{path}.{match['field']}" if path else match["field"]
            return ProtocolError(code, f"{words}: '{param}'.", param)
    return ProtocolError(
        "invalid_value", f"Invalid value for '{path}': {reason}." if path else f"{reason}.", path or None
    )
