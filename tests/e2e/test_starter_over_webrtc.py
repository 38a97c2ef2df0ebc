"""The starter pipeline on the phone, so to speak: a recorded question over WebRTC, and its answer from the track."""

from __future__ import annotations

import numpy as np

from tests.support.calling import RATE, calling
from tests.support.server_process import server_process
from tests.support.speech import recording


async def test_a_spoken_question_is_answered_with_speech() -> None:
    session = {"type": "realtime", "audio": {"input": {"transcription": {"model": "any"}}}}
    async with server_process() as url, calling(url.removeprefix("http://"), session) as caller:
        await caller.say(recording("question-01").samples(RATE), RATE)
        said = await caller.until("conversation.item.input_audio_transcription.completed")
        assert "capital of France" in said["transcript"]
        done = await caller.until("response.done")
        stopped = await caller.until("output_audio_buffer.stopped")
        assert stopped["response_id"] == done["response"]["id"]
        answer = done["response"]["output"][0]["content"][0]["transcript"]
        assert "Paris" in answer
        heard = caller.heard()
        # Speech of that length for so many words, and neither silence nor noise.
        assert 0.15 * len(answer.split()) < len(heard) / RATE < 1.0 * len(answer.split()) + 1
        assert 0.01 < np.sqrt(np.mean(np.square(heard))) < 0.5
        assert not caller.all("error")
