"""The page's engine in a real browser, talking to the starter pipeline over a WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile
from playwright.sync_api import Browser, Playwright

from tests.web.bench import (
    ANSWERED,
    MICROPHONE_RATE,
    QUIET,
    SOUND,
    check_capital,
    check_recording,
    connect,
    engine,
    speech,
    turns,
    until,
)


@pytest.fixture
def talker(playwright: Playwright, chromium: str, tmp_path: Path) -> Iterator[Browser]:
    """A browser whose microphone is somebody who asks for the capital of France, once."""
    file = tmp_path / "question.wav"
    soundfile.write(file, speech("question-01", before_s=1), MICROPHONE_RATE, subtype="PCM_16")
    voice = f"--use-file-for-fake-audio-capture={file}%noloop"
    browser = playwright.chromium.launch(executable_path=chromium, args=[*QUIET, *SOUND, voice])
    yield browser
    browser.close()


def test_a_question_into_the_microphone_is_answered(talker: Browser, bench_address: str, server: str) -> None:
    with engine(talker, bench_address, baseUrl=server) as page:
        connect(page)
        page.evaluate("bench.agent.startRecording()")
        state = until(page, ANSWERED)
        check_capital(state)
        assert state["latency"]["turns"][0]["basis"] == "server"
        activities = [entry["activity"] for entry in page.evaluate("bench.history")]
        assert [one for one in activities if one != "idle"] == ["listening", "thinking", "speaking", "listening"]
        check_recording(page)
        assert page.evaluate("bench.notices") == []


def test_who_has_no_microphone_writes_and_reads(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server, settings={"output": "text"}) as page:
        connect(page, microphone=False)
        page.evaluate("bench.agent.sendText('What is the capital of France?')")
        state = until(page, ANSWERED)
        [answer] = turns(state, "assistant")
        assert "Paris" in answer["heard"]
        assert not answer["spoken"]
        assert state["microphone"]["status"] == "off"
        transcript = page.evaluate("bench.agent.exportTranscript()")
        assert transcript.startswith("You: What is the capital of France?\nAssistant: ")


def test_a_voice_that_was_heard_changes_with_a_new_session(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        connect(page, microphone=False)
        page.evaluate("bench.agent.sendText('What is the capital of France?')")
        until(page, ANSWERED)
        page.evaluate("bench.agent.updateSettings({ voice: 'marin' })")
        assert until(page, "(state) => state.session.pending.length > 0")["session"]["pending"] == ["voice"]
        page.evaluate("bench.agent.restart()")
        state = until(page, "(state) => state.session.voice === 'marin'")
        assert state["session"]["pending"] == []
        assert [turn["kind"] for turn in state["turns"]] == ["user", "assistant"]
        page.evaluate("bench.agent.sendText('Is it large?')")
        state = until(page, "(state) => state.turns.length === 4 && state.turns[3].status === 'final'")
        assert page.evaluate("bench.notices") == []
