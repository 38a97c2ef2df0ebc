"""What the tests of the page's engine share: an agent in a browser, sounds for its microphone, and a server."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from playwright.sync_api import Browser, Page

from tests.e2e.test_starter_talks import transcribe_all, word_errors
from tests.support.patience import PATIENCE_S
from tests.support.server_process import COMMAND
from tests.support.toy_server import address, start_toy_server
from voice_omni.audio.pcm import Samples

WEB = Path(__file__).parents[2] / "web"
SPEECH = Path(__file__).parents[1] / "data" / "speech"
MICROPHONE_RATE = 48_000

# Without these Chromium asks the outside world at every start, which there may not be.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# A microphone that needs no permission, and sound without a click.
SOUND = (
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)


def speech(name: str, before_s: float = 0.0, after_s: float = 0.0) -> Samples:
    """A recording as a microphone hears it, ``MICROPHONE_RATE`` Hz, with silence around it."""
    samples, rate = soundfile.read(SPEECH / f"{name}.flac", dtype="float32")
    samples = soxr.resample(samples, rate, MICROPHONE_RATE)
    return np.pad(samples, (round(before_s * MICROPHONE_RATE), round(after_s * MICROPHONE_RATE)))


def wav_base64(samples: Samples) -> str:
    file = io.BytesIO()
    soundfile.write(file, samples, MICROPHONE_RATE, format="WAV", subtype="PCM_16")
    return base64.b64encode(file.getvalue()).decode()


SCRIPTED_MICROPHONE = """
const mouth = new Promise((resolve) => {
    const context = new AudioContext();
    resolve(context.resume().then(() => ({ context, out: context.createMediaStreamDestination() })));
});
// A copy each time: whoever is done with a microphone stops its tracks.
navigator.mediaDevices.getUserMedia = async () => (await mouth).out.stream.clone();
window.speak = async (wav) => {
    const { context, out } = await mouth;
    const bytes = Uint8Array.from(atob(wav), (letter) => letter.charCodeAt(0)).buffer;
    const source = new AudioBufferSourceNode(context, { buffer: await context.decodeAudioData(bytes) });
    source.connect(out);
    source.start();
    await new Promise((resolve) => { source.onended = resolve; });
};
"""
"""For the page that ships, before its own scripts: a microphone that is silent but for what ``speak`` is given."""

ANSWERED = "(state) => state.turns.some((turn) => turn.kind === 'assistant' && turn.status === 'final')"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The files of ``folder`` over HTTP; yields the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def voice_server(*arguments: str) -> Iterator[str]:
    """``voice-omni serve`` on a free port; its address."""
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            address = next(found for line in lines if (found := re.search(r"http://[\w.:]+", line)))
            # Nobody reads what it says from here on, and it must not wait for that.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield address.group()
        finally:
            process.terminate()


@contextmanager
def toy_server(port: int = 0, **options: object) -> Iterator[str]:
    """A server with the toy pipeline; its address. ``options``: settings of the section ``server``."""
    with start_toy_server(port, **options) as process:
        try:
            yield address(process)
        finally:
            process.terminate()
            process.communicate()


@contextmanager
def engine(browser: Browser, bench_address: str, **options: Any) -> Iterator[Page]:
    """A page with an agent in ``window.bench``, which is disposed of at the end."""
    context = browser.new_context()
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(bench_address)
    page.evaluate("(options) => window.start(options)", options)
    try:
        yield page
        page.evaluate("window.bench.agent.dispose()")
        assert faults == []
    finally:
        context.close()


def connect(page: Page, **options: Any) -> dict[str, Any]:
    """Connects, over a WebSocket if not told otherwise. The connection's state when the attempt is decided."""
    page.evaluate("(options) => bench.agent.connect(options)", {"transport": "websocket", **options})
    state: dict[str, Any] = page.evaluate("bench.agent.state.connection")
    return state


def until(page: Page, condition: str, seconds: float = PATIENCE_S) -> dict[str, Any]:
    """The agent's state once the JavaScript ``condition`` holds of it."""
    state: dict[str, Any] = page.evaluate(f"bench.until({condition}, {seconds})")
    return state


def state_of(page: Page) -> dict[str, Any]:
    state: dict[str, Any] = page.evaluate("bench.agent.state")
    return state


def turns(state: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [turn for turn in state["turns"] if turn["kind"] == kind]


def sent(page: Page) -> list[str]:
    """The types of the events that the client has sent."""
    types: list[str] = page.evaluate("bench.agent.log({ direction: 'out' }).map((entry) => entry.type)")
    return types


def recording(page: Page) -> tuple[np.ndarray, int]:
    """What the agent has recorded, ``[samples, (person, assistant)]``, and its rate in Hz."""
    data: str = page.evaluate(
        """async () => {
            const bytes = new Uint8Array(await bench.agent.stopRecording().arrayBuffer());
            return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
        }"""
    )
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(data)), dtype="float32")
    return samples, rate


def check_capital(state: dict[str, Any]) -> None:
    """ "question-01" was understood, and answered right to the end."""
    [question], [answer] = turns(state, "user"), turns(state, "assistant")
    assert word_errors(["What is the capital of France?"], [question["text"]]) == 0
    assert "Paris" in answer["heard"]
    assert answer["unheard"] == ""
    assert not answer["interrupted"]
    assert state["latency"]["median"] == answer["latencyMs"] > 0


def check_recording(page: Page) -> None:
    """On the agent's recording is what the one question and its answer say; a busy machine loses some of it."""
    samples, rate = recording(page)
    assert rate == 24_000
    state = state_of(page)
    said = [turns(state, "user")[0]["text"], turns(state, "assistant")[0]["heard"]]
    assert word_errors(said, transcripts([np.ascontiguousarray(samples[:, side]) for side in (0, 1)])) < 0.5


def health(server: str) -> dict[str, Any]:
    """What the server at this address says of itself."""
    with urllib.request.urlopen(f"{server}/health", timeout=PATIENCE_S) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


def transcripts(sounds: list[np.ndarray]) -> list[str]:
    """In another thread, because Playwright's event loop runs in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(transcribe_all(sounds))).result()
