"""What the page's engine makes of failures, in a real browser against a real server with a toy pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright

from tests.support.ports import reserved_port
from tests.web.bench import QUIET, SOUND, connect, engine, toy_server, until


@pytest.fixture(scope="module")
def toy() -> Iterator[str]:
    with toy_server() as url:
        yield url


def test_a_server_that_is_not_there(browser: Browser, bench_address: str) -> None:
    with reserved_port() as port, engine(browser, bench_address, baseUrl=f"http://127.0.0.1:{port}") as page:
        state = connect(page, microphone=False)
        assert (state["phase"], state["problem"]["code"]) == ("error", "server-unreachable")
        assert page.evaluate("bench.agent.state.activity") == "error"


def test_a_conversation_goes_on_after_the_server_was_restarted(browser: Browser, bench_address: str) -> None:
    with (
        reserved_port() as port,
        engine(browser, bench_address, baseUrl=f"http://127.0.0.1:{port}", settings={"output": "text"}) as page,
    ):
        with toy_server(port):
            connect(page, microphone=False)
            page.evaluate("bench.agent.sendText('hello')")
            before = until(page, "(state) => state.turns.length === 2 && state.turns[1].status === 'final'")
        until(page, "(state) => state.connection.phase === 'reconnecting'")
        states = [entry["connection"] for entry in page.evaluate("bench.history")]
        loss = next(state for state in states if state["phase"] == "reconnecting")
        assert (loss["attempt"], loss["attempts"], loss["problem"]["code"]) == (1, 8, "server-gone")
        with toy_server(port):
            after = until(page, "(state) => state.connection.phase === 'live'")
            assert after["turns"] == before["turns"]
            page.evaluate("bench.agent.sendText('again')")
            until(page, "(state) => state.turns.length === 4 && state.turns[3].status === 'final'")
            assert page.evaluate("bench.notices") == []


def test_a_full_server_is_waited_for(browser: Browser, bench_address: str) -> None:
    with toy_server(max_sessions=1) as url, engine(browser, bench_address, baseUrl=url) as first:
        assert connect(first, microphone=False)["phase"] == "live"
        with engine(browser, bench_address, baseUrl=url) as second:
            second.evaluate("void bench.agent.connect({ transport: 'websocket', microphone: false })")
            told = "(state) => state.connection.phase === 'reconnecting' && state.connection.occupancy !== null"
            waiting = until(second, told)["connection"]
            assert waiting["problem"]["code"] == "server-full"
            assert waiting["occupancy"] == {"current": 1, "max": 1}
            first.evaluate("bench.agent.disconnect()")
            until(second, "(state) => state.connection.phase === 'live'")


def test_a_key_that_is_missing_or_wrong(browser: Browser, bench_address: str) -> None:
    key = "sk-0123456789abcdef0123"
    with toy_server(api_keys=key) as url, engine(browser, bench_address, baseUrl=url) as page:
        state = connect(page, microphone=False)
        assert (state["phase"], state["problem"]["code"]) == ("error", "unauthorized")
        page.evaluate("(key) => bench.agent.setApiKey(key)", key)
        assert connect(page, microphone=False)["phase"] == "live"
        assert until(page, "(state) => state.session.voices.length > 0")["session"]["voices"]


def test_a_microphone_that_is_denied(playwright: Playwright, chromium: str, bench_address: str, toy: str) -> None:
    silent = [flag for flag in SOUND if flag != "--use-fake-ui-for-media-stream"]
    browser = playwright.chromium.launch(executable_path=chromium, args=[*QUIET, *silent])
    with engine(browser, bench_address, baseUrl=toy) as page:
        state = connect(page)
        assert (state["phase"], state["problem"]["code"]) == ("error", "microphone-denied")
        assert connect(page, microphone=False)["phase"] == "live"
    browser.close()


def test_a_page_that_is_not_secure(playwright: Playwright, chromium: str, bench_address: str, toy: str) -> None:
    named = "--host-resolver-rules=MAP voice.example 127.0.0.1"
    browser = playwright.chromium.launch(executable_path=chromium, args=[*QUIET, *SOUND, named])
    page_address = bench_address.replace("127.0.0.1", "voice.example")
    with engine(browser, page_address, baseUrl=toy) as page:
        state = connect(page)
        assert (state["phase"], state["problem"]["code"]) == ("error", "insecure-context")
    browser.close()


def test_microphones_are_switched_in_the_conversation_and_remembered(
    browser: Browser, bench_address: str, toy: str
) -> None:
    with engine(browser, bench_address, baseUrl=toy) as page:
        connect(page)
        second = page.evaluate("bench.agent.listDevices()")["microphones"][1]["id"]
        page.evaluate("(id) => bench.agent.setMicrophone(id)", second)
        state = page.evaluate("bench.agent.state")
        assert state["connection"]["phase"] == "live"
        assert (state["microphone"]["status"], state["devices"]["microphone"]) == ("on", second)
        page.reload()
        page.evaluate("window.start({})")
        assert page.evaluate("bench.agent.state.devices.microphone") == second


def test_a_page_that_is_left_ends_its_session(browser: Browser, bench_address: str, toy: str) -> None:
    with engine(browser, bench_address, baseUrl=toy) as page:
        connect(page)
        page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
        state = page.evaluate("bench.agent.state")
        assert state["connection"]["phase"] == "closed"
        assert state["microphone"]["status"] == "off"
