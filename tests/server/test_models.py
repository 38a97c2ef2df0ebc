"""``GET /v1/models``."""

from __future__ import annotations

from tests.support.caller import get_json, services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel


async def test_the_pipeline_is_the_one_model(silero: SileroModel) -> None:
    async with serving(create_app(services(ScriptedClient(), silero))) as address:
        _, listing = await get_json(address, "/v1/models")
        _, card = await get_json(address, "/v1/models/scripted")
        status, missing = await get_json(address, "/v1/models/gpt-realtime")
    assert listing == {"object": "list", "data": [card]}
    assert (card["id"], card["object"], card["voices"]) == ("scripted", "model", ["default", "other"])
    assert status == 404
    assert missing["error"]["code"] == "model_not_found"
