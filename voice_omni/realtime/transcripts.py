"""The words of what people said, told as they become certain."""

from __future__ import annotations

import re

from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.events import EventWriter, ServerEvent

_KIND = "conversation.item.input_audio_transcription"


class Transcripts:
    """Writes the transcription events of one session's items, each of which is completed or fails once.

    Recognisers change their minds, and what a client was told cannot be taken back. So a word is told when two
    hypotheses in a row agree on it and on all before it (local agreement, https://arxiv.org/abs/2307.14743).
    """

    def __init__(self, write: EventWriter) -> None:
        self._write = write
        self._latest: dict[str, str] = {}
        self._told: dict[str, str] = {}

    def partial(self, item_id: str, text: str, index: int = 0) -> list[ServerEvent]:
        """``text``: all that is heard so far of an item whose recognition goes on. ``index``: of its part of sound."""
        agreed = _agreed(self._latest.get(item_id, ""), text)
        self._latest[item_id] = text
        return self._delta(item_id, agreed, index)

    def complete(self, item_id: str, text: str, seconds: float, index: int = 0) -> list[ServerEvent]:
        """``seconds``: the length of the sound."""
        events = self._delta(item_id, text, index)
        self._forget(item_id)
        counted = {"type": "duration", "seconds": seconds}
        fields = {"item_id": item_id, "content_index": index, "transcript": text, "usage": counted}
        return [*events, self._write(f"{_KIND}.completed", **fields)]

    def fail(self, item_id: str, error: ErrorInfo, index: int = 0) -> list[ServerEvent]:
        self._forget(item_id)
        failure = {"type": "server_error", "code": error.code, "message": error.message, "param": None}
        return [self._write(f"{_KIND}.failed", item_id=item_id, content_index=index, error=failure)]

    def _delta(self, item_id: str, text: str, index: int) -> list[ServerEvent]:
        told = self._told.get(item_id, "")
        if not text.startswith(told) or len(text) == len(told):
            return []
        self._told[item_id] = text
        return [self._write(f"{_KIND}.delta", item_id=item_id, content_index=index, delta=text[len(told) :])]

    def _forget(self, item_id: str) -> None:
        self._latest.pop(item_id, None)
        self._told.pop(item_id, None)


def _agreed(before: str, now: str) -> str:
    """The words that both begin with."""
    end = 0
    for word, earlier in zip(re.finditer(r"\S+", now), before.split(), strict=False):
        if word[0] != earlier:
            break
        end = word.end()
    return now[:end]
