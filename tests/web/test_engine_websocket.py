"""The page's engine in a real browser, talking to the starter pipeline over a WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, Playwright

from tests.e2e.test_starter_talks import word_errors
from tests.web.bench import (
    ANSWERED,
    MICROPHONE_RATE,
    QUIET,
    SOUND,
    connect,
    engine,
    recording,
    sent,
    speech,
    state_of,
    transcripts,
    turns,
    until,
    wav_base64,
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
        [question], [answer] = turns(state, "user"), turns(state, "assistant")
        assert word_errors(["What is the capital of France?"], [question["text"]]) == 0
        assert "Paris" in answer["heard"]
        assert answer["unheard"] == ""
        assert not answer["interrupted"]
        assert state["latency"]["median"] == answer["latencyMs"] > 0
        assert state["latency"]["turns"][0]["basis"] == "server"
        activities = [entry["activity"] for entry in page.evaluate("bench.history")]
        assert [one for one in activities if one != "idle"] == ["listening", "thinking", "speaking", "listening"]
        samples, rate = recording(page)
        assert rate == 24_000
        texts = transcripts([np.ascontiguousarray(samples[:, side]) for side in (0, 1)])
        assert word_errors([question["text"], answer["heard"]], texts) < 0.2
        assert page.evaluate("bench.notices") == []


def test_an_answer_is_interrupted_and_the_person_answered(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        page.evaluate("bench.scriptMicrophone()")
        connect(page)
        page.evaluate("bench.agent.sendText('Tell me a short story about a brave cat.')")
        until(page, "(state) => state.turns.some((turn) => turn.kind === 'assistant' && turn.heard.length > 20)")
        page.evaluate("(wav) => bench.speak(wav)", wav_base64(speech("question-01")))
        state = until(
            page, "(state) => state.turns.filter((t) => t.kind === 'assistant' && t.status === 'final').length === 2"
        )
        story, answer = turns(state, "assistant")
        assert story["interrupted"]
        assert len(story["heard"]) > 10
        assert len(story["unheard"]) > 10
        assert "Paris" in answer["heard"]
        assert state["latency"]["bargeInStop"] is not None
        # The words shown as heard are those that the server keeps by the marks in its sound.
        kept = page.evaluate("bench.agent.log({ text: 'conversation.item.retrieved' })[0].payload.item.content[0]")
        assert story["heard"] == kept["transcript"]
        assert [kind for kind in sent(page) if "truncate" in kind] == ["conversation.item.truncate"]


def test_the_stop_command_cuts_an_answer(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        connect(page, microphone=False)
        page.evaluate("bench.agent.sendText('Tell me a short story about a brave cat.')")
        until(page, "(state) => state.activity === 'speaking' && state.turns[1].heard.length > 20")
        page.evaluate("bench.agent.interrupt()")
        state = until(page, "(state) => state.activity === 'listening' && state.turns[1].interrupted")
        assert state["turns"][1]["heard"] != ""
        assert page.evaluate("bench.notices") == []


def test_push_to_talk(browser: Browser, bench_address: str, server: str) -> None:
    with engine(browser, bench_address, baseUrl=server, settings={"turnDetection": {"type": "none"}}) as page:
        page.evaluate("bench.scriptMicrophone()")
        connect(page)
        assert state_of(page)["microphone"]["vad"] == "off"
        page.evaluate("bench.agent.pushToTalk(true)")
        page.evaluate("(wav) => bench.speak(wav)", wav_base64(speech("question-01")))
        page.evaluate("bench.agent.pushToTalk(false)")
        state = until(page, ANSWERED)
        assert "Paris" in turns(state, "assistant")[0]["heard"]
        assert state["latency"]["turns"][0]["basis"] == "release"


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
