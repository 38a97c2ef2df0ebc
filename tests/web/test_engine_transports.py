"""What the page's engine does in the same way over either transport, with the starter pipeline."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.web.bench import (
    ANSWERED,
    connect,
    engine,
    sent,
    speech,
    state_of,
    turns,
    until,
    wav_base64,
)

TRUNCATIONS = {"websocket": ["conversation.item.truncate"], "webrtc": []}
"""A server that plays the sound itself knows what was heard and needs not be told."""

over_both = pytest.mark.parametrize("transport", ["websocket", "webrtc"])


@over_both
def test_an_answer_is_interrupted_and_the_person_answered(
    browser: Browser, bench_address: str, server: str, transport: str
) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        page.evaluate("bench.scriptMicrophone()")
        connect(page, transport=transport)
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
        # The words shown as heard are those that the server keeps.
        kept = page.evaluate("bench.agent.log({ text: 'conversation.item.retrieved' })[0].payload.item.content[0]")
        assert story["heard"] == kept["transcript"]
        assert [kind for kind in sent(page) if "truncate" in kind] == TRUNCATIONS[transport]


@over_both
def test_the_stop_command_cuts_an_answer(browser: Browser, bench_address: str, server: str, transport: str) -> None:
    with engine(browser, bench_address, baseUrl=server) as page:
        connect(page, transport=transport, microphone=False)
        page.evaluate("bench.agent.sendText('Tell me a short story about a brave cat.')")
        until(page, "(state) => state.activity === 'speaking' && state.turns[1].heard.length > 20")
        page.evaluate("bench.agent.interrupt()")
        state = until(page, "(state) => state.activity === 'listening' && state.turns[1].interrupted")
        assert state["turns"][1]["heard"] != ""
        assert page.evaluate("bench.notices") == []


@over_both
def test_push_to_talk(browser: Browser, bench_address: str, server: str, transport: str) -> None:
    with engine(browser, bench_address, baseUrl=server, settings={"turnDetection": {"type": "none"}}) as page:
        page.evaluate("bench.scriptMicrophone()")
        connect(page, transport=transport)
        assert state_of(page)["microphone"]["vad"] == "off"
        page.evaluate("bench.agent.pushToTalk(true)")
        page.evaluate("(wav) => bench.speak(wav)", wav_base64(speech("question-01")))
        page.evaluate("bench.agent.pushToTalk(false)")
        state = until(page, ANSWERED)
        assert "Paris" in turns(state, "assistant")[0]["heard"]
        assert state["latency"]["turns"][0]["basis"] == "release"
