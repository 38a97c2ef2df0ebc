"""What a client asks for by the way in which it connects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BETA_HEADER: Final = "realtime=v1"
"""In ``OpenAI-Beta``."""
BETA_SUBPROTOCOL: Final = "openai-beta.realtime-v1"
BINARY_AUDIO: Final = "binary-audio"
PCM_RATES: Final = "pcm-rates"


@dataclass(frozen=True, slots=True)
class Connection:
    """``transcription``: what is said is written down and nobody answers.

    The rest are extensions, off unless asked for. ``timings``: each ``response.done`` tells where the time went.
    ``binary_audio``: binary frames are sound in the input format, as if appended, and a delta of sound comes as one:
    the event without ``delta`` as JSON, a newline, the bytes. ``pcm_rates``: ``audio/pcm`` may have other rates than
    24 kHz.
    """

    beta: bool = False
    transcription: bool = False
    timings: bool = False
    binary_audio: bool = False
    pcm_rates: bool = False


PLAIN: Final = Connection()
"""A client that asks for nothing."""


def connection_of(
    *,
    beta_headers: Sequence[str] = (),
    subprotocols: Sequence[str] = (),
    intents: Sequence[str] = (),
    includes: Sequence[str] = (),
    extensions: Sequence[str] = (),
) -> Connection:
    """``beta_headers``: values of ``OpenAI-Beta``; ``subprotocols``: as offered; the rest: query parameters.

    ``?intent=transcription``, ``?include=timings``, ``?extensions=binary-audio,pcm-rates``. Names that are not known
    ask for nothing.
    """
    asked = {name.strip() for value in extensions for name in value.split(",")}
    headers = {name.strip() for value in beta_headers for name in value.split(",")}
    return Connection(
        beta=BETA_HEADER in headers or BETA_SUBPROTOCOL in subprotocols,
        transcription="transcription" in intents,
        timings="timings" in includes,
        binary_audio=BINARY_AUDIO in asked,
        pcm_rates=PCM_RATES in asked,
    )
