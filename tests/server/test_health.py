"""``GET /health``."""

from __future__ import annotations

import pytest

from tests.support.caller import get_json, services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel


@pytest.mark.parametrize(("ready", "expected"), [(True, 200), (False, 503)])
async def test_ready_or_not(silero: SileroModel, ready: bool, expected: int) -> None:
    async with serving(create_app(services(ScriptedClient(), silero, ready=ready, max_sessions=5))) as address:
        status, body = await get_json(address, "/health")
    assert status == expected
    assert body["status"] == ("ready" if ready else "starting")
    assert body["model"] == "scripted"
    assert body["sessions"] == {"current": 0, "max": 5}
    assert body["pipeline"]["processes"]["thinker.0"]["restarts"] == 0
    assert body["semantic_vad"] is False
    assert body["turns"]["turns"] == body["turns"]["stalls"] == 0


async def test_every_default_is_shown_with_its_unit_and_reason(silero: SileroModel) -> None:
    async with serving(create_app(services(ScriptedClient(), silero))) as address:
        _, body = await get_json(address, "/health")
    defaults = body["session_defaults"]
    assert defaults["silence_duration_ms"]["value"] == 500
    assert defaults["silence_duration_ms"]["unit"] == "ms"
    assert all(each["reason"] and each["unit"] for each in defaults.values())
