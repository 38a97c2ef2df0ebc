"""``semantic_vad`` on a running server, with the real model in its threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from websockets.asyncio.client import connect

from tests.support.caller import Caller, get_json, services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from tests.support.speech import recording
from tests.support.talk import RATE
from voice_omni.server import create_app
from voice_omni.session.judge import SmartTurnJudge
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel
from voice_omni.session.smart_turn import SmartTurnModel

SEMANTIC: dict[str, Any] = {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}}}


async def test_a_complete_question_is_answered_long_before_the_maximum_wait(
    silero: SileroModel, smart_turn: SmartTurnModel
) -> None:
    judge = SmartTurnJudge(smart_turn)
    # However busy the machine is, the judgement is waited for: what is tested is what it decides.
    options = SessionOptions(semantic_timeout_ms=60_000, starvation_ms=60_000)
    app = create_app(services(ScriptedClient(), silero, judge=judge, options=options))
    each = recording("question-10")
    sound = np.concatenate([each.samples(RATE), np.zeros(2 * RATE, np.float32)])
    async with serving(app) as address, connect(f"ws://{address}/v1/realtime") as connection:
        caller = Caller(connection)
        await caller.send("session.update", session=SEMANTIC)
        await caller.until("session.updated")
        await caller.say(sound)
        stopped = await caller.until("input_audio_buffer.speech_stopped")
        assert 0.2 < stopped["audio_end_ms"] / 1000 - each.speech_end < 0.9
        await caller.until("response.done")
        _, health = await get_json(address, "/health")
        assert health["semantic_vad"] is True
        assert health["turns"]["turns"] == 1
        assert health["turns"]["unjudged"] == 0
    judge.close()


async def test_without_the_model_it_is_refused_and_the_session_goes_on(silero: SileroModel) -> None:
    async with (
        serving(create_app(services(ScriptedClient(), silero))) as address,
        connect(f"ws://{address}/v1/realtime") as connection,
    ):
        caller = Caller(connection)
        await caller.send("session.update", session=SEMANTIC)
        error = await caller.until("error")
        assert error["error"]["param"] == "session.audio.input.turn_detection.type"
        await caller.say(np.concatenate([recording("question-10").samples(RATE), np.zeros(RATE, np.float32)]))
        await caller.until("response.done")
