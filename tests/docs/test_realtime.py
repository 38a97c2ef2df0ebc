"""``docs/realtime.md`` tells what the code does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest

from voice_omni.realtime.beta import SERVER_EVENTS
from voice_omni.realtime.client_events import ClientEvent
from voice_omni.realtime.connection import BINARY_AUDIO, PCM_RATES, Connection, connection_of
from voice_omni.realtime.input_audio import MAX_APPEND_CHARS, MIN_COMMIT_MS
from voice_omni.server.auth_keys import load_keys
from voice_omni.server.auth_secrets import DEFAULT_LIFE_S, MAX_LIFE_S, MAX_SECRETS, MIN_LIFE_S
from voice_omni.server.http_errors import MAX_BODY_BYTES
from voice_omni.session.outbox import FULL_BYTES, ROOM_BYTES
from voice_omni.transports.protocols import MAX_FRAGMENTS, REQUEST_S
from voice_omni.transports.websocket import MAX_MESSAGE_BYTES, UVICORN_OPTIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "realtime.md").read_text()
SOURCES = [path for layer in ("realtime", "session", "server") for path in (ROOT / "voice_omni" / layer).glob("*.py")]
PAST = (
    *(".created", ".updated", ".added", ".done", ".delta", ".cleared", ".committed", ".retrieved", ".truncated"),
    *(".deleted", ".failed", ".completed", "_started", "_stopped", "_triggered"),
)
"""How server events end: something has happened."""
TRANSCRIPTION = "conversation.item.input_audio_transcription"


def table(heading: str) -> str:
    """The lines of the table whose first column is called ``heading``."""
    lines = PAGE.partition(f"| {heading} |")[2].splitlines()[2:]
    return "\n".join(lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))])


def first_cells(heading: str) -> set[str]:
    return {name for line in table(heading).splitlines() for name in re.findall(r"`([\w.]+)`", line.split(" | ")[0])}


def calls() -> Iterator[ast.Call]:
    for path in SOURCES:
        yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def name_of(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def texts(call: ast.Call) -> Iterator[str]:
    """The texts that the first argument may be."""
    for node in ast.walk(call.args[0]) if call.args and not isinstance(call.args[0], ast.Subscript) else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_all_client_events_are_there_and_no_others() -> None:
    assert first_cells("Client event") == {each.__struct_config__.tag for each in get_args(ClientEvent)}


def _patterns() -> Iterator[str]:
    """What the protocol's texts may be in the GA dialect, those that are put together included."""
    for path in set((ROOT / "voice_omni" / "realtime").glob("*.py")) - {ROOT / "voice_omni/realtime/beta.py"}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                pieces = (
                    re.escape(part.value) if isinstance(part, ast.Constant) else r"[\w.]+" for part in node.values
                )
                yield "".join(map(str, pieces))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.escape(node.value)


def test_all_server_events_are_there_and_no_others() -> None:
    kinds = ("session.", "conversation.", "input_audio_buffer.", "output_audio_buffer.", "response.")
    patterns = {pattern for pattern in _patterns() if pattern.replace("\\", "").startswith(kinds)}
    documented = first_cells("Server event") - {"error"}
    for event in documented:
        if not event.startswith(TRANSCRIPTION):
            assert any(re.fullmatch(pattern, event) for pattern in patterns), event
    for pattern in patterns:
        text = pattern.replace("\\", "")
        if re.fullmatch(r"[a-z_.]+", text) and text.endswith(PAST):
            assert text in documented, text


def test_all_events_of_the_beta_dialect_are_there_and_no_others() -> None:
    transcription = {f"transcription_session.{what}" for what in ("created", "updated")}
    assert first_cells("Beta event") == set(SERVER_EVENTS.values()) | transcription


@pytest.mark.parametrize("extension", [BINARY_AUDIO, PCM_RATES])
def test_all_extensions_are_there(extension: str) -> None:
    assert f"`extensions={extension}`" in table("Parameter")


def test_all_error_codes_are_there() -> None:
    raised = {text for call in calls() if name_of(call) == "ProtocolError" for text in texts(call)}
    raised |= {text for call in calls() if name_of(call) == "server_error" for text in texts(call)}
    assert {"invalid_json", "session_expired"} < raised
    assert raised - first_cells("Code") == set()


def test_all_close_codes_are_there() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "voice_omni").rglob("*.py"))
    closed = set(re.findall(r"Close\((\d{4})", source))
    assert {"1001", "1008", "1011", "1013"} <= closed
    assert closed <= {
        code for line in table("Close code").splitlines() for code in line.split(" | ")[0][2:].split(", ")
    }


@pytest.mark.parametrize(
    "words",
    [
        f"{MAX_MESSAGE_BYTES >> 20} MiB (closed with 1009), in at most {MAX_FRAGMENTS} frames",
        f"{MAX_APPEND_CHARS >> 20} MiB of base64",
        f"whole within {REQUEST_S:.0f} s",
        f"at most {MAX_BODY_BYTES >> 10} KiB",
        f"every {UVICORN_OPTIONS['ws_ping_interval']:.0f} s; without an answer for "
        f"{UVICORN_OPTIONS['ws_ping_timeout']:.0f} s",
        f"over {ROOM_BYTES >> 10} KiB no more content is made for it, over {FULL_BYTES >> 20} MiB nothing more is read",
        f"Under {MIN_COMMIT_MS} ms",
        f"lives {MIN_LIFE_S} to {MAX_LIFE_S} s (default: {DEFAULT_LIFE_S})",
        f"At most {MAX_SECRETS} keys",
    ],
)
def test_limits(words: str) -> None:
    assert " ".join(words.split()) in " ".join(PAGE.split())


def test_what_can_be_asked_for_by_connecting() -> None:
    rows = re.findall(r"`(\w+)=([\w-]+)` \|", table("Parameter"))
    asked = {name: tuple(value for each, value in rows if each == name) for name in ("include", "extensions")}
    intents = re.findall(r"`\?intent=(\w+)`", PAGE)
    everything = connection_of(intents=intents, includes=asked["include"], extensions=asked["extensions"])
    beta = connection_of(beta_headers=re.findall(r"`OpenAI-Beta: ([^`]+)`", PAGE))
    assert beta.beta
    assert connection_of(subprotocols=re.findall(r"the subprotocol `(openai-beta[^`]+)`", PAGE)) == beta
    assert replace(everything, beta=True) == Connection(*[True] * len(fields(Connection)))


def test_the_key_lengths_on_the_page_are_those_that_are_accepted() -> None:
    assert "16 to 256 characters" in PAGE
    assert len(load_keys(f"{'x' * 16},{'y' * 256}", None)) == 2
