"""The ways in which a client can connect, each of which is fuzzed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs

from voice_omni.realtime.connection import Connection, connection_of


@dataclass(frozen=True)
class Variant:
    """``query``: of the address."""

    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()

    @property
    def connection(self) -> Connection:
        """What the server makes of it."""
        query = parse_qs(self.query)
        return connection_of(
            beta_headers=list(self.headers.values()),
            subprotocols=self.subprotocols,
            intents=query.get("intent", []),
            includes=query.get("include", []),
            extensions=query.get("extensions", []),
        )


_BETA: Final = {"OpenAI-Beta": "realtime=v1"}
VARIANTS: Final[Mapping[str, Variant]] = {
    "plain": Variant(),
    "beta": Variant(headers=_BETA),
    "beta by subprotocol": Variant(subprotocols=("realtime", "openai-beta.realtime-v1")),
    "browser": Variant(subprotocols=("realtime", "openai-insecure-api-key.sk-local")),
    "transcription": Variant("intent=transcription"),
    "beta transcription": Variant("intent=transcription", headers=_BETA),
    "binary audio": Variant("extensions=binary-audio,pcm-rates&include=timings"),
    "beta binary audio": Variant("extensions=binary-audio", headers=_BETA),
}
