"""A small client of the OpenAI Realtime contract over WebSocket: audio and events out, events in."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from voice_omni.audio.pcm import Samples, encode_pcm16
from voice_omni.proto.errors import OmniError

RATE: Final = 24_000
"""Hz of the sound in both directions: ``audio/pcm`` of the Realtime contract is 24 kHz only."""

Event = dict[str, Any]

KEY_VARIABLE: Final = "VOICE_OMNI_API_KEY"
"""The environment variable with the key for a server that asks for one."""

_OPEN_S: Final = 10.0
_MAX_MESSAGE: Final = 16 << 20
_WITH_TRANSCRIPTS: Final = {"type": "realtime", "audio": {"input": {"transcription": {}}}}


class RealtimeClient:
    """One open session. Iterating it yields the server's events until either side closes."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, kind: str, **fields: Any) -> None:
        try:
            await self._connection.send(json.dumps({"type": kind, **fields}))
        except ConnectionClosed as error:
            raise _closed(error) from error

    async def append(self, samples: Samples) -> None:
        """The person's sound: float32 ``[samples]``, mono, 24 kHz, in [-1, 1]."""
        await self.send("input_audio_buffer.append", audio=base64.b64encode(encode_pcm16(samples)).decode())

    async def close(self) -> None:
        await self._connection.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            async for message in self._connection:
                yield json.loads(message)
        except ConnectionClosed as error:
            raise _closed(error) from error


@asynccontextmanager
async def open_session(url: str, key: str | None = None) -> AsyncIterator[RealtimeClient]:
    """Connect, wait for the session to exist and ask for transcripts of the person's speech.

    ``url``: ``http://host:port`` or ``ws://host:port``, with or without the path. ``key``: the server's API key; by
    default that of the environment variable ``VOICE_OMNI_API_KEY``. Raises :class:`OmniError`:
    ``connection_failed`` or ``connection_refused`` (the server is there and declines), and ``connection_closed`` from
    the session's methods.
    """
    address = session_url(url)
    try:
        connection = await connect(
            address,
            additional_headers=_authorization(key or os.environ.get(KEY_VARIABLE)),
            open_timeout=_OPEN_S,
            max_size=_MAX_MESSAGE,
            compression=None,
        )
    except InvalidStatus as error:
        body = error.response.body.decode(errors="replace").strip()
        reason = f"status {error.response.status_code}{f': {body}' if body else ''}"
        raise OmniError("connection_refused", f"{address} refused the session: {reason}", retryable=True) from error
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "is 'voice-omni serve' running there? '--serve' starts a server for this one call"
        raise OmniError("connection_failed", f"cannot reach {address}: {reason}; {hint}", retryable=True) from error
    async with connection:
        client = RealtimeClient(connection)
        async with asyncio.timeout(_OPEN_S):
            first = json.loads(await _first(connection))
        match first:
            case {"type": "session.created"}:
                await client.send("session.update", session=_WITH_TRANSCRIPTS)
                yield client
            case {"type": "error", "error": {"code": code, "message": message}}:
                raise OmniError(code, f"{address} refused the session: {message}", retryable=True)
            case _:
                raise OmniError("protocol_error", f"{address} began with '{first.get('type')}', not session.created")


def session_url(url: str) -> str:
    """The WebSocket address of a server's Realtime endpoint, asking for stage timings."""
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = parts.path if parts.path.strip("/") else "/v1/realtime"
    query = "&".join(part for part in (parts.query, urlencode({"include": "timings"})) if part)
    return urlunsplit((scheme, parts.netloc, path, query, ""))


def _authorization(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


async def _first(connection: ClientConnection) -> str | bytes:
    try:
        return await connection.recv()
    except ConnectionClosed as error:
        raise _closed(error) from error


def _closed(error: ConnectionClosed) -> OmniError:
    frame = error.rcvd
    reason = f"code {frame.code}{f': {frame.reason}' if frame.reason else ''}" if frame else "the connection broke"
    return OmniError("connection_closed", f"the server ended the session ({reason})", retryable=True)
