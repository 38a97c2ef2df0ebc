"""Which of two dialects a client speaks: everything that it is sent is in that one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from voice_omni.realtime import beta as translation
from voice_omni.realtime.events import ServerEvent


class _Kind(msgspec.Struct):
    type: str


_kinds = msgspec.json.Decoder(_Kind)
_DECIDING = ("session.update", "transcription_session.update")
_RENAMED = (*_DECIDING, "response.create", "conversation.item.create")


class Dialect:
    """Stands between a client and its session, which knows the GA dialect only.

    A client that said nothing when it connected is taken to speak GA, until its first ``session.update`` has the shape
    that only the beta dialect knows. It cannot change its mind after that.
    """

    def __init__(self, *, beta: bool = False) -> None:
        """``beta``: the client asked for it when it connected."""
        self._beta: bool | None = beta or None

    @property
    def is_beta(self) -> bool:
        return bool(self._beta)

    def incoming(self, message: str | bytes) -> str | bytes:
        """The client's message as the session understands it. What cannot be read passes unchanged, to be refused."""
        if self._beta is False or isinstance(message, bytes):
            return message
        try:
            if _kinds.decode(message).type not in (_DECIDING if self._beta is None else _RENAMED):
                return message
            event: dict[str, Any] = msgspec.json.decode(message)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return message
        if self._beta is None:
            session = event.get("session")
            flat = isinstance(session, dict) and translation.is_flat(session)
            self._beta = flat or event["type"] == "transcription_session.update"
            if not self._beta:
                return message
        return msgspec.json.encode(translation.client_event(event)).decode()

    def outgoing(self, event: ServerEvent) -> Sequence[ServerEvent]:
        """The events that the client is sent for ``event``: itself, another one or none."""
        if not self._beta:
            return (event,)
        shown = translation.server_event(event)
        return () if shown is None else (shown,)
