"""The page's engine in a real browser, talking to the starter pipeline over WebRTC."""

from __future__ import annotations

import os
import signal

from playwright.sync_api import Browser

from tests.web.bench import (
    ANSWERED,
    check_capital,
    check_recording,
    connect,
    engine,
    health,
    speech,
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
        check_capital(state)
        check_recording(page)
        network = until(page, "(state) => state.network.rttMs !== null")["network"]
        assert network["bytesReceived"] > 0
        assert page.evaluate("bench.notices") == []


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


def test_a_server_that_dies_is_missed_before_the_browser_misses_it(
    browser: Browser, bench_address: str, server: str
) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        connect(page, transport="webrtc", microphone=False)
        page.evaluate("bench.agent.sendText('What is the capital of France?')")
        before = until(page, ANSWERED)
        [media] = health(server)["media_processes"]
        os.kill(media["pid"], signal.SIGKILL)
        lost = until(page, "(state) => state.connection.phase === 'reconnecting'")["connection"]
        assert lost["problem"] == {"code": "connection-lost", "detail": "the server is silent"}
        after = until(page, "(state) => state.connection.phase === 'live'")
        assert after["turns"] == before["turns"]
        page.evaluate("bench.agent.sendText('What color is the sky on a clear day?')")
        state = until(page, "(state) => state.turns.length === 4 && state.turns[3].status === 'final'")
        assert "blue" in state["turns"][3]["heard"].lower()
