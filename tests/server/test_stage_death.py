"""A stage process that dies in the middle of an answer, as the client of a whole server sees it."""

from __future__ import annotations

import os
import signal

import msgspec
from websockets.asyncio.client import connect

from tests.support.caller import Caller
from tests.support.pipelines import toy_settings
from tests.support.toy import PIPELINE
from voice_omni.cli.serving import serving


async def test_the_response_fails_with_its_reason_and_the_same_session_is_answered_again() -> None:
    settings = toy_settings(delays_ms={"think": 30.0})
    settings = msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, port=0))
    async with (
        serving(PIPELINE, settings) as running,
        connect(running.url.replace("http", "ws") + "/v1/realtime") as connection,
    ):
        caller = Caller(connection)

        async def ask(words: int) -> None:
            content = [{"type": "input_text", "text": " ".join(["word"] * words)}]
            item = {"type": "message", "role": "user", "content": content}
            await caller.send("response.create", response={"conversation": "none", "input": [item]})

        await ask(200)
        await caller.until("response.output_audio.delta")
        os.kill(running.pipeline.health()["processes"]["speak.0"]["pid"], signal.SIGKILL)
        response = (await caller.until("response.done"))["response"]
        assert response["status"] == "failed"
        error = response["status_details"]["error"]
        assert (error["type"], error["code"]) == ("server_error", "stage_died")
        assert response["usage"]["total_tokens"] == 0

        await ask(2)
        response = (await caller.until("response.done"))["response"]
        assert response["status"] == "completed"
        assert [event for event in caller.events if event["type"] == "error"] == []
