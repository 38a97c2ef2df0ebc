"""The page's engine in a real browser, talking to the starter pipeline over WebRTC."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import Browser

from tests.e2e.test_starter_talks import word_errors
from tests.web.bench import (
    ANSWERED,
    connect,
    engine,
    recording,
    sent,
    speech,
    transcripts,
    turns,
    until,
    wav_base64,
)


def test_a_question_is_answered(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        page.evaluate("bench.scriptMicrophone()")
        assert connect(page, transport="webrtc")["phase"] == "live"
        page.evaluate("bench.agent.startRecording()")
        page.evaluate("(wav) => bench.speak(wav)", wav_base64(speech("question-01")))
        state = until(page, ANSWERED)
        [question], [answer] = turns(state, "user"), turns(state, "assistant")
        assert word_errors(["What is the capital of France?"], [question["text"]]) == 0
        assert "Paris" in answer["heard"]
        assert not answer["interrupted"]
        assert state["latency"]["median"] == answer["latencyMs"] > 0
        samples, _ = recording(page)
        texts = transcripts([np.ascontiguousarray(samples[:, side]) for side in (0, 1)])
        assert word_errors([question["text"], answer["heard"]], texts) < 0.2
        network = until(page, "(state) => state.network.rttMs !== null")["network"]
        assert network["bytesReceived"] > 0
        assert page.evaluate("bench.notices") == []


def test_an_answer_is_interrupted_and_the_person_answered(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        page.evaluate("bench.scriptMicrophone()")
        connect(page, transport="webrtc")
        page.evaluate("bench.agent.sendText('Tell me a short story about a brave cat.')")
        until(page, "(state) => state.turns.some((turn) => turn.kind === 'assistant' && turn.heard.length > 20)")
        page.evaluate("(wav) => bench.speak(wav)", wav_base64(speech("question-01")))
        state = until(
            page, "(state) => state.turns.filter((t) => t.kind === 'assistant' && t.status === 'final').length === 2"
        )
        story, answer = turns(state, "assistant")
        assert story["interrupted"]
        assert len(story["unheard"]) > 10
        assert "Paris" in answer["heard"]
        kept = page.evaluate("bench.agent.log({ text: 'conversation.item.retrieved' })[0].payload.item.content[0]")
        assert story["heard"] == kept["transcript"]
        # The server plays the sound, so it knows what was heard and needs not be told.
        assert not [kind for kind in sent(page) if "truncate" in kind]


def test_the_stop_command_cuts_an_answer(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        connect(page, transport="webrtc", microphone=False)
        page.evaluate("bench.agent.sendText('Tell me a short story about a brave cat.')")
        until(page, "(state) => state.activity === 'speaking' && state.turns[1].heard.length > 20")
        page.evaluate("bench.agent.interrupt()")
        state = until(page, "(state) => state.activity === 'listening' && state.turns[1].interrupted")
        assert state["turns"][1]["heard"] != ""
        assert page.evaluate("bench.notices") == []


def test_push_to_talk(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server, settings={"turnDetection": {"type": "none"}}) as page:
        page.evaluate("bench.scriptMicrophone()")
        connect(page, transport="webrtc")
        page.evaluate("bench.agent.pushToTalk(true)")
        page.evaluate("(wav) => bench.speak(wav)", wav_base64(speech("question-01")))
        page.evaluate("bench.agent.pushToTalk(false)")
        state = until(page, ANSWERED)
        assert "Paris" in turns(state, "assistant")[0]["heard"]


def test_the_conversation_moves_between_transports(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        connect(page, transport="websocket", microphone=False)
        page.evaluate("bench.agent.sendText('What is the capital of France?')")
        until(page, ANSWERED)
        connect(page, transport="webrtc", microphone=False)
        page.evaluate("bench.agent.sendText('What color is the sky on a clear day?')")
        state = until(page, "(state) => state.turns.length === 4 && state.turns[3].status === 'final'")
        assert "blue" in state["turns"][3]["heard"].lower()
        assert page.evaluate("bench.notices") == []
