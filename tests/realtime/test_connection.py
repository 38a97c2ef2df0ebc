"""What a client asks for by the way in which it connects."""

from __future__ import annotations

from typing import Any

import pytest

from voice_omni.realtime.connection import Connection, connection_of


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Connection()),
        ({"beta_headers": ["realtime=v1"]}, Connection(beta=True)),
        ({"beta_headers": ["assistants=v2, realtime=v1"]}, Connection(beta=True)),
        ({"beta_headers": ["assistants=v2"]}, Connection()),
        ({"subprotocols": ["realtime", "openai-insecure-api-key.k", "openai-beta.realtime-v1"]}, Connection(beta=True)),
        ({"subprotocols": ["realtime"]}, Connection()),
        ({"intents": ["transcription"]}, Connection(transcription=True)),
        ({"intents": ["conversation"]}, Connection()),
        ({"includes": ["timings"]}, Connection(timings=True)),
        ({"extensions": ["binary-audio"]}, Connection(binary_audio=True)),
        ({"extensions": ["binary-audio,pcm-rates"]}, Connection(binary_audio=True, pcm_rates=True)),
        ({"extensions": ["pcm-rates", "levitation"]}, Connection(pcm_rates=True)),
    ],
)
def test_what_is_asked_for(given: dict[str, Any], expected: Connection) -> None:
    assert connection_of(**given) == expected
