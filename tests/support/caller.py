"""A client of the running server, over the ``websockets`` library."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from websockets.asyncio.client import ClientConnection

from tests.support.patience import PATIENCE_S
from voice_omni.audio.pcm import Samples, encode_pcm16
from voice_omni.server import ModelCard, Services
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

Event = dict[str, Any]


def services(client: Any, silero: SileroModel, *, ready: bool = True, **fields: Any) -> Services:
    health = {"ready": ready, "processes": {"thinker.0": {"state": "ready", "restarts": 0}}}
    model = ModelCard("scripted", "says what the test says", ("default", "other"), created=1)
    options = fields.pop("options", SessionOptions())
    return Services(client, lambda: health, model, silero, options, **fields)


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until a condition that nothing announces holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def get_json(address: str, path: str) -> tuple[int, Any]:
    """Status and body of a GET request."""
    status, body, _ = await request_json(address, path)
    return status, body


async def request_json(
    address: str,
    path: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    method: str | None = None,
) -> tuple[int, Any, Mapping[str, str]]:
    """Status, decoded body (None if it is not JSON) and headers, in lower case, of an HTTP answer.

    ``body``: bytes as they are, anything else as JSON; None sends none. The method is POST with a body, else GET.
    """
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{address}{path}", data, dict(headers or {}), method=method)
    request.add_header("Content-Type", "application/json")

    def fetch() -> tuple[int, Any, Mapping[str, str]]:
        try:
            answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            shown = {name.lower(): value for name, value in answer.headers.items()}
            text = answer.read()
            return answer.status, json.loads(text) if "json" in shown.get("content-type", "") else None, shown

    return await asyncio.to_thread(fetch)


class Caller:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.events: list[Event] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def say(self, samples: Samples, chunk: int = 4800) -> None:
        """As fast as the server takes it."""
        for start in range(0, len(samples), chunk):
            data = encode_pcm16(samples[start : start + chunk])
            await self.send("input_audio_buffer.append", audio=base64.b64encode(data).decode())

    async def until(self, kind: str, within: float = PATIENCE_S) -> Event:
        """The next event of a kind; those before it are kept as well."""
        async with asyncio.timeout(within):
            while True:
                event: Event = json.loads(await self.connection.recv())
                self.events.append(event)
                if event["type"] == kind:
                    return event
