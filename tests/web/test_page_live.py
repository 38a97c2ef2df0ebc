"""The page that ships, served by ``voice-omni serve``, in a browser that hears recordings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Locator, Page, Playwright, expect

from tests.e2e.test_starter_talks import word_errors
from tests.web.bench import (
    MICROPHONE_RATE,
    QUIET,
    SCRIPTED_MICROPHONE,
    SOUND,
    speech,
    toy_server,
    transcripts,
    wav_base64,
)
from voice_omni.audio.pcm import Samples

over_both = pytest.mark.parametrize("transport", ["WebSocket", "WebRTC"])


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A question, time for its answer, another one, and silence for long enough."""
    sound = np.concatenate([speech("question-01", 3.0, 15.0), speech("question-02", 0.0, 240.0)])
    path = tmp_path_factory.mktemp("microphone") / "questions.wav"
    soundfile.write(path, sound, MICROPHONE_RATE, subtype="PCM_16")
    return path


@contextmanager
def chatting(playwright: Playwright, chromium: str, *flags: str) -> Iterator[Page]:
    """Whatever the page's own policy forbids, or a script throws, fails the test."""
    browser = playwright.chromium.launch(executable_path=chromium, args=[*QUIET, *SOUND, *flags])
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if "Security Policy" in message.text else None)
    yield page
    browser.close()
    assert complaints == []


@pytest.fixture
def page(playwright: Playwright, chromium: str, microphone: Path) -> Iterator[Page]:
    with chatting(playwright, chromium, f"--use-file-for-fake-audio-capture={microphone}%noloop") as page:
        yield page


@pytest.fixture
def scripted(playwright: Playwright, chromium: str) -> Iterator[Page]:
    with chatting(playwright, chromium) as page:
        page.add_init_script(f"{{{SCRIPTED_MICROPHONE}}}")
        yield page


def choose(page: Page, transport: str) -> None:
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("radio", name=transport).check()
    page.get_by_role("button", name="Close settings").click()


def listening(page: Page) -> None:
    expect(page.locator(".orb")).to_have_attribute("data-mood", "listening")


def saved(page: Page, button: Locator, folder: Path) -> Path:
    """The file that pressing the button gives."""
    with page.expect_download() as download:
        button.click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def events(page: Page, folder: Path) -> list[dict[str, Any]]:
    """The protocol's, both ways, without deltas, as the page saves them."""
    page.get_by_role("button", name="Event log").click()
    path = saved(page, page.get_by_role("button", name="Download events as NDJSON"), folder)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return [entry["payload"] for entry in entries if entry["direction"] != "local"]


def utterances(sound: Samples, rate: int) -> tuple[Samples, Samples]:
    """What is before the longest silence between two stretches of sound, and what is after it."""
    loud = np.flatnonzero(np.abs(sound) > 0.01)
    gap = int(np.diff(loud).argmax())
    return sound[: loud[gap] + rate // 10], sound[loud[gap + 1] - rate // 10 :]


@over_both
def test_a_voice_is_heard_answered_and_written_down(page: Page, server: str, transport: str) -> None:
    page.goto(server)
    choose(page, transport)
    page.get_by_role("button", name="Start talking").click()
    listening(page)
    expect(page.locator(".turn.user").first).to_contain_text("capital of France")
    expect(page.locator(".turn.assistant").first).to_contain_text("Paris")
    expect(page.locator(".turn.user")).to_have_count(2)
    expect(page.locator(".turn.assistant").nth(1)).to_contain_text(" ")
    expect(page.locator(".latency-chip")).to_contain_text("median")

    page.get_by_role("button", name="End", exact=True).click()
    expect(page.locator(".stage-label")).to_have_text("Conversation ended")
    expect(page.locator(".turn.assistant").first).to_contain_text("Paris")


@over_both
def test_a_voice_interrupts_an_answer_and_is_answered_again(
    scripted: Page, server: str, transport: str, tmp_path: Path
) -> None:
    page = scripted
    page.goto(server)
    choose(page, transport)
    page.get_by_role("button", name="Start talking").click()
    listening(page)
    page.get_by_role("button", name="Record to a WAV file").click()
    page.evaluate("(wav) => speak(wav)", wav_base64(speech("question-12")))
    story, answer = (page.locator(".turn.assistant").nth(number) for number in (0, 1))
    expect(story.locator(".said > p").first).to_have_text(re.compile(r"(\S+\s+){4}"))
    page.evaluate("(wav) => speak(wav)", wav_base64(speech("question-01")))
    expect(story.locator(".tag")).to_have_text("interrupted")
    expect(answer).to_contain_text("Paris")
    listening(page)

    samples, rate = soundfile.read(saved(page, page.locator("button.recording"), tmp_path), dtype="float32")
    person, assistant = (np.ascontiguousarray(samples[:, side]) for side in (0, 1))
    begun, answered = utterances(assistant, rate)
    asked, started, replied = transcripts([person, begun, answered])
    questions = "Tell me a short story about a brave cat. What is the capital of France?"
    # A browser on a busy machine loses some of the sound.
    assert word_errors([questions], [asked]) < 0.5
    assert word_errors(["The capital of France is Paris."], [replied]) < 0.8
    # What is written down as not heard was not played either.
    written, lost = story.locator(".said > p").first.inner_text(), story.locator(".unheard").inner_text()
    assert len(started.split()) < len(written.split()) - len(lost.split()) / 2

    told = events(page, tmp_path)
    done = [event["response"] for event in told if event["type"] == "response.done"]
    assert [response["status"] for response in done] == ["cancelled", "completed"]
    assert done[0]["status_details"]["reason"] == "turn_detected"
    kinds = [event["type"] for event in told]
    onset = [at for at, kind in enumerate(kinds) if kind == "input_audio_buffer.speech_started"][1]
    assert kinds.index("response.created") < onset < kinds.index("response.done")
    assert onset < kinds.index("conversation.item.truncated")
    assert ("output_audio_buffer.cleared" in kinds) == (transport == "WebRTC")
    assert "error" not in kinds


@over_both
def test_an_answer_is_stopped_where_it_was_heard(page: Page, server: str, transport: str) -> None:
    page.goto(server)
    choose(page, transport)
    page.get_by_role("button", name="Type instead").click()
    page.get_by_label("Message").fill("Write five long sentences about the history of London.")
    page.keyboard.press("Enter")
    expect(page.locator(".orb")).to_have_attribute("data-mood", "speaking")
    page.keyboard.press("Escape")
    expect(page.locator(".turn.assistant .tag")).to_have_text("interrupted")
    expect(page.locator(".orb")).to_have_attribute("data-mood", "resting")


KEY = "sk-0123456789abcdef0123"


@over_both
def test_a_server_that_asks_for_a_key_is_given_it_once(scripted: Page, transport: str) -> None:
    page = scripted
    with toy_server(api_keys=KEY) as address:
        page.goto(address)
        choose(page, transport)
        page.get_by_role("button", name="Start talking").click()
        for key in ("sk-wrong", KEY):
            page.get_by_role("dialog").get_by_role("textbox").fill(key)
            page.get_by_role("button", name="Use this key").click()
            if key != KEY:
                expect(page.get_by_role("dialog")).to_contain_text("wasn’t accepted")
        listening(page)
        page.reload()
        page.get_by_role("button", name="Start talking").click()
        listening(page)


@over_both
def test_a_page_whose_address_is_not_trusted_says_what_to_do(
    playwright: Playwright, chromium: str, transport: str
) -> None:
    named = "--host-resolver-rules=MAP voice.example 127.0.0.1"
    with toy_server() as address, chatting(playwright, chromium, named) as page:
        page.goto(address.replace("127.0.0.1", "voice.example"))
        choose(page, transport)
        page.get_by_role("button", name="Type instead").click()
        expect(page.get_by_role("alert")).to_contain_text("server.allowed_origins")
        expect(page.get_by_role("dialog")).to_have_count(0)
