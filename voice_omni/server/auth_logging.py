"""Keeps keys and conversations out of the logs of the libraries below.

They write request lines and, when told to, whole headers and messages.
"""

from __future__ import annotations

import logging
import re
from typing import Final

_LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "websockets", "websockets.server")
"""A filter sees only what its own logger is given, not what passes up to it."""
_HIDDEN: Final = "[hidden]"
_SECRETS: Final = (
    # What follows '?' in a path: the server takes no key there, but clients that mean another one send theirs.
    (re.compile(r"(/[\w./~%+-]*\?)[^\s\"']+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(query_string'?: b?')[^']+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)(authorization\W{1,6}(?:b')?)[^\r\n')]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)(api-key\W{1,6}(?:b')?)[^\s,;'\")\]]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"\bek_\w+"), f"ek_{_HIDDEN}"),
    (re.compile(r"(?s)([<>] (?:TEXT|BINARY|CONT) ).*( \[)"), rf"\1{_HIDDEN}\2"),
)


class SecretFilter(logging.Filter):
    """Replaces in each record what is or may be a key."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = redacted(text)
        if clean != text:
            record.msg, record.args = clean, ()
        return True


def redacted(text: str) -> str:
    """``text`` without credentials: authorization headers, keys in subprotocols, ephemeral keys, query
    strings and the content of WebSocket frames."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


_FILTER: Final = SecretFilter()


def keep_keys_out_of_logs() -> None:
    """Have it done in this process from now on; calling it again changes nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
