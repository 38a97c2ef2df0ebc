"""The page that ships, served by ``voice-omni serve``, in a browser that hears a recording."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page, Playwright, expect

from tests.web.bench import MICROPHONE_RATE, QUIET, SOUND, speech


@pytest.fixture(scope="module")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A question, time for its answer, another one, and silence for long enough."""
    sound = np.concatenate([speech("question-01", 3.0, 15.0), speech("question-02", 0.0, 240.0)])
    path = tmp_path_factory.mktemp("microphone") / "questions.wav"
    soundfile.write(path, sound, MICROPHONE_RATE, subtype="PCM_16")
    return path


@pytest.fixture
def page(playwright: Playwright, chromium: str, microphone: Path) -> Iterator[Page]:
    """Whatever the page's own policy forbids, or a script throws, fails the test."""
    listens = f"--use-file-for-fake-audio-capture={microphone}%noloop"
    browser = playwright.chromium.launch(executable_path=chromium, args=[*QUIET, *SOUND, listens])
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if "Security Policy" in message.text else None)
    yield page
    browser.close()
    assert complaints == []


def test_a_voice_is_heard_answered_and_written_down(page: Page, server: str) -> None:
    page.goto(server)
    page.get_by_role("button", name="Start talking").click()
    expect(page.locator(".orb")).to_have_attribute("data-mood", "listening", timeout=30_000)
    expect(page.locator(".turn.user").first).to_contain_text("capital of France", timeout=60_000)
    expect(page.locator(".turn.assistant").first).to_contain_text("Paris", timeout=60_000)
    expect(page.locator(".turn.user")).to_have_count(2, timeout=60_000)
    expect(page.locator(".turn.assistant").nth(1)).to_contain_text(" ", timeout=60_000)
    expect(page.locator(".latency-chip")).to_contain_text("median")

    page.get_by_role("button", name="End", exact=True).click()
    expect(page.locator(".stage-label")).to_have_text("Conversation ended")
    expect(page.locator(".turn.assistant").first).to_contain_text("Paris")


def test_an_answer_is_stopped_where_it_was_heard(page: Page, server: str) -> None:
    page.goto(server)
    page.get_by_role("button", name="Type instead").click()
    page.get_by_label("Message").fill("Write five long sentences about the history of London.")
    page.keyboard.press("Enter")
    expect(page.locator(".orb")).to_have_attribute("data-mood", "speaking", timeout=60_000)
    page.keyboard.press("Escape")
    expect(page.locator(".turn.assistant .tag")).to_have_text("interrupted", timeout=30_000)
    expect(page.locator(".orb")).to_have_attribute("data-mood", "resting", timeout=30_000)
