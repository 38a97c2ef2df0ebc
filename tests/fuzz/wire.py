"""Fuzzing the running server through its socket: messages, frames and bytes."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import struct
from collections.abc import Callable, Mapping

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Opcode
from websockets.typing import Subprotocol

from tests.fuzz.mutations import Fuzzer
from tests.fuzz.session import Tally
from tests.fuzz.variants import VARIANTS, Variant
from tests.support.patience import PATIENCE_S


async def fuzz_connection(
    address: str, messages: int, rng: random.Random, tally: Tally, variant: Variant = VARIANTS["plain"]
) -> None:
    """One client that sends ``messages`` of them while it reads; then the session still answers, or it was closed
    with a code that says why."""
    fuzzer = Fuzzer(rng, binary_audio=variant.connection.binary_audio)
    async with connect(
        f"ws://{address}/v1/realtime?model=any&{variant.query}",
        additional_headers=variant.headers,
        subprotocols=[Subprotocol(name) for name in variant.subprotocols] or None,
        max_size=None,
    ) as connection:
        assert connection.subprotocol == ("realtime" if variant.subprotocols else None)
        alive = asyncio.Event()

        async def read() -> None:
            async for frame in connection:
                event = json.loads(frame if isinstance(frame, str) else frame.partition(b"\n")[0])
                fuzzer.saw(event)
                tally.responses += event["type"] == "response.created"
                if event["type"] == "error":
                    tally.answers[event["error"]["code"]] += 1
                    if event["error"]["event_id"] == "the last one":
                        alive.set()

        reading = asyncio.create_task(read())
        try:
            async with asyncio.timeout(PATIENCE_S + messages):
                for _ in range(messages):
                    message = fuzzer.message()
                    tally.messages[message.kind] += 1
                    await connection.send(_sendable(message.data))
                    await asyncio.sleep(0)
                await connection.send('{"type": "nonsense", "event_id": "the last one"}')
                waiting = asyncio.create_task(alive.wait())
                await asyncio.wait((waiting, reading), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
        except ConnectionClosed:
            pass  # seen below
        reading.cancel()
        await asyncio.wait((reading,))
        if not reading.cancelled() and (error := reading.exception()) is not None:
            raise error
        if not alive.is_set():
            tally.closes[str(connection.close_code)] += 1
            assert connection.close_code in (1001, 1007, 1008, 1009), connection.close_code
    tally.sessions += 1


def _sendable(data: str | bytes) -> str | bytes:
    return data if isinstance(data, bytes) else data.encode("utf-8", "replace").decode()


async def fuzz_frames(address: str, frames: bytes, tally: Tally) -> str:
    """Frames that RFC 6455 forbids. Returns the code with which the server closes, or ``hung up``."""
    reader, writer = await asyncio.open_connection(*address.split(":"))
    try:
        key = base64.b64encode(bytes(16)).decode()
        writer.write(
            f"GET /v1/realtime HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
            writer.write(frames)
            rest = await reader.read()
    except ConnectionError:
        rest = b""  # reset: it had more to say when the server hung up
    finally:
        writer.close()
    code = _close_code(rest)
    tally.messages["frames"] += 1
    tally.closes[code] += 1
    return code


def frame(opcode: int, payload: bytes, *, first: int = 0x80, masked: bool = True) -> bytes:
    """``first``: the bits beside the opcode, of which 0x80 is FIN."""
    mask_bit = 0x80 if masked else 0
    if len(payload) < 126:
        length = bytes((mask_bit | len(payload),))
    elif len(payload) < 65536:
        length = bytes((mask_bit | 126,)) + struct.pack("!H", len(payload))
    else:
        length = bytes((mask_bit | 127,)) + struct.pack("!Q", len(payload))
    # A mask of zeros leaves the payload as it is.
    return bytes((first | opcode,)) + length + (bytes(4) if masked else b"") + payload


FRAMES: Mapping[str, tuple[str, Callable[[random.Random], bytes]]] = {
    "not masked": ("1002", lambda rng: frame(Opcode.TEXT, b"{}", masked=False)),
    "reserved bit": ("1002", lambda rng: frame(Opcode.TEXT, b"{}", first=0x80 | rng.choice((0x40, 0x20, 0x10)))),
    "reserved opcode": ("1002", lambda rng: frame(rng.choice((3, 4, 5, 6, 7, 11, 12, 15)), b"x")),
    "continues nothing": ("1002", lambda rng: frame(Opcode.CONT, b"nothing to continue")),
    "message in a message": ("1002", lambda rng: frame(Opcode.TEXT, b"{", first=0) + frame(Opcode.TEXT, b"}")),
    "long ping": ("1002", lambda rng: frame(Opcode.PING, b"x" * 126)),
    "ping in fragments": ("1002", lambda rng: frame(Opcode.PING, b"x", first=0)),
    "half a close code": ("1002", lambda rng: frame(Opcode.CLOSE, b"x")),
    "close code that must not be sent": (
        "1002",
        lambda rng: frame(Opcode.CLOSE, struct.pack("!H", rng.choice((0, 999, 1004, 1005, 1006, 2999, 65535)))),
    ),
    "close reason not UTF-8": ("1007", lambda rng: frame(Opcode.CLOSE, b"\x03\xe8\xff\xfe")),
    "not UTF-8": ("1007", lambda rng: frame(Opcode.TEXT, b"\xff\xfe" + rng.randbytes(20))),
    "surrogate": ("1007", lambda rng: frame(Opcode.TEXT, b'{"type": "\xed\xa0\x80"}')),
    "not UTF-8 together": ("1007", lambda rng: frame(Opcode.TEXT, b"\xc3", first=0) + frame(Opcode.CONT, b"(")),
    "length of 2^63": ("1002 1009", lambda rng: b"\x81\xff" + struct.pack("!Q", 2**63) + bytes(4)),
    "length of 1 GB": ("1009", lambda rng: b"\x81\xff" + struct.pack("!Q", 10**9) + bytes(4)),
    "fragments without end": (
        "1009",
        lambda rng: frame(Opcode.TEXT, b"", first=0) + frame(Opcode.CONT, b"", first=0) * 20_000,
    ),
    "26 MB in fragments": (
        "1009",
        lambda rng: frame(Opcode.TEXT, b"{", first=0) + frame(Opcode.CONT, bytes(65_000), first=0) * 400,
    ),
}
"""Each with the codes that say what is wrong with it."""


def _close_code(data: bytes) -> str:
    """That of the close frame at the end of what the server sent."""
    for at in range(max(0, len(data) - 140), len(data) - 3):
        if data[at] == 0x88 and data[at + 1] == len(data) - at - 2:
            return str(struct.unpack_from("!H", data, at + 2)[0])
    return "hung up"


async def fuzz_http(address: str, request: bytes, tally: Tally) -> None:
    """Bytes that are no request, or hardly one: an answer with a 4xx, or the end of the connection."""
    reader, writer = await asyncio.open_connection(*address.split(":"))
    try:
        writer.write(request)
        writer.write_eof()
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
    except ConnectionError:
        answer = b""
    finally:
        writer.close()
    tally.messages["http"] += 1
    status = answer.split(b" ", 2)[1].decode() if answer.startswith(b"HTTP/1.1 ") else "hung up"
    tally.closes[f"HTTP {status}"] += 1
    assert status == "hung up" or 400 <= int(status) < 500, answer


def _request(line: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
    return line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + b"\r\n" + body


_POST = b"POST /v1/realtime/client_secrets"
_UPGRADE = b"Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
REQUESTS: tuple[Callable[[random.Random], bytes], ...] = (
    lambda rng: rng.randbytes(rng.randrange(1, 400)),
    lambda rng: b"\x16\x03\x01\x02\x00" + rng.randbytes(200),  # TLS to a port without
    lambda rng: _request(b"BREW /pot"),
    lambda rng: _request(b"GET /x" + bytes(rng.randrange(33, 127) for _ in range(50))),
    lambda rng: _request(b"GET /v1/models/" + rng.randbytes(5).hex().encode() + b"%ff%00%2e%2e/"),
    lambda rng: _request(b"GET /v1/realtime", b"X: " + b"x" * 100_000 + b"\r\n"),
    lambda rng: _request(b"GET /v1/realtime", b"Connection: Upgrade\r\n" + _UPGRADE.replace(b"13", b"8")),
    lambda rng: _request(b"GET /nowhere", b"Authorization: Bearer " + rng.randbytes(9).hex().encode() + b"\r\n"),
    lambda rng: _request(_POST, b"Content-Length: -1\r\n"),
    lambda rng: _request(_POST, b"Content-Length: 99999999999999999999\r\n", b"{}"),
    lambda rng: _request(_POST, b"Transfer-Encoding: chunked\r\n", b"zz\r\n{}\r\n0\r\n\r\n"),
    lambda rng: _body(json.dumps(rng.choice(([], 1, "x", {"x": 1}, {"session": []}))).encode()),
    lambda rng: _body(b'{"session": {"instructions": ' + b"9" * 5000 + b"}}"),
    lambda rng: _body(b'{"session": {"tracing": {"x": ' + b"[" * 5000 + b"]" * 5000 + b"}, typo}}"),
    lambda rng: _body(b'{"session": {"model": "\\ud800"}}'),
    lambda rng: _body(rng.randbytes(100)),
)


def _body(body: bytes) -> bytes:
    return _request(_POST, b"Content-Length: %d\r\n" % len(body), body)
