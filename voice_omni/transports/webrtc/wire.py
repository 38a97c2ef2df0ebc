"""What the server and a media process say to each other: small typed messages over a socket pair.

A message is its length, four bytes in network order, and MessagePack. Sound is float32 as it lies in memory: both ends
are on one machine. When either process ends, however it ends, the other one sees the end of the stream.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from voice_omni.audio.pcm import Samples
from voice_omni.proto.errors import ErrorInfo
from voice_omni.transports.webrtc.peer_interface import CloseReason, PeerSettings, PeerStats

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""A longer one is not sent, and one that arrives means that the stream is broken."""
CONGESTED_BYTES: Final = 4 * 1024 * 1024
"""More than this waiting to be sent: the other side is held up, and sound is not worth sending."""

_LENGTH: Final = struct.Struct(">I")


class _Message(msgspec.Struct, frozen=True, tag_field="type", array_like=True):
    pass


class _OfCall(_Message, frozen=True):
    call: str


# From the server


class Open(_OfCall, frozen=True, tag="open"):
    """Answer the offer; :class:`Answered` or :class:`Refused` follows."""

    offer: str
    settings: PeerSettings


class Say(_OfCall, frozen=True, tag="say"):
    """A message for the caller, on the event channel."""

    text: str


class Play(_OfCall, frozen=True, tag="play"):
    """Sound for the caller: float32 at the rate that a peer plays."""

    samples: bytes


class Flush(_OfCall, frozen=True, tag="flush"):
    """Drop the sound that is queued. What is played after it counts from zero, as of ``generation``."""

    generation: int


class HangUp(_OfCall, frozen=True, tag="hang_up"):
    """``linger``: give what was said last the time to reach the caller."""

    linger: bool


# From the media process


class Ready(_Message, frozen=True, tag="ready"):
    """It can take calls."""


class Beat(_Message, frozen=True, tag="beat"):
    """Once a second. ``late_ms``: how much later than it was due this one was sent."""

    rss_bytes: int
    late_ms: float


class Answered(_OfCall, frozen=True, tag="answered"):
    answer: str


class Refused(_OfCall, frozen=True, tag="refused"):
    """The offer cannot be answered, and there is no such call."""

    error: ErrorInfo


class Opened(_OfCall, frozen=True, tag="opened"):
    """Sound and messages can flow."""


class Said(_OfCall, frozen=True, tag="said"):
    """A message of the caller's."""

    text: str


class Sound(_OfCall, frozen=True, tag="sound"):
    """The caller's sound: float32. ``position``: of its first sample on the call's timeline."""

    position: int
    samples: bytes


class Played(_OfCall, frozen=True, tag="played"):
    """Samples played since the flush that began ``generation``."""

    generation: int
    samples: int


class Undelivered(_OfCall, frozen=True, tag="undelivered"):
    """Something for the caller could not be queued."""

    error: ErrorInfo


class Closed(_OfCall, frozen=True, tag="closed"):
    """The call is over."""

    reason: CloseReason
    stats: PeerStats | None


FromServer = Open | Say | Play | Flush | HangUp
FromMedia = Ready | Beat | Answered | Refused | Opened | Said | Sound | Played | Undelivered | Closed
WireMessage = FromServer | FromMedia


def to_bytes(samples: Samples) -> bytes:
    return np.ascontiguousarray(samples, np.float32).tobytes()


def to_samples(data: bytes) -> Samples:
    """float32 ``[n]``, not to be written to."""
    return np.frombuffer(data, np.float32)


class Splitter:
    """Cuts a byte stream into messages, however it arrives."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def push(self, data: bytes) -> list[bytes]:
        """The messages that are complete now. Raises :class:`ValueError` for a length that cannot be."""
        self._rest += data
        messages: list[bytes] = []
        start = 0
        while len(self._rest) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest, start)
            if length > MAX_MESSAGE_BYTES:
                raise ValueError(f"a message of {length} bytes")
            end = start + _LENGTH.size + length
            if end > len(self._rest):
                break
            messages.append(bytes(self._rest[start + _LENGTH.size : end]))
            start = end
        del self._rest[:start]
        return messages


class Link(asyncio.Protocol):
    """One end of the connection. Messages are handed over in order, as they arrive, on the event loop."""

    def __init__(self, on_message: Callable[[WireMessage], None], on_lost: Callable[[], None]) -> None:
        """``on_lost`` is called once when the other side has ended, or what it sends makes no sense."""
        self._on_message = on_message
        self._on_lost = on_lost
        self._splitter = Splitter()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[WireMessage] = msgspec.msgpack.Decoder(WireMessage)
        self._transport: asyncio.WriteTransport | None = None

    @property
    def congested(self) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() > CONGESTED_BYTES

    def send(self, message: WireMessage) -> None:
        """Nothing happens once the connection is lost."""
        if self._transport is not None and not self._transport.is_closing():
            data = self._encoder.encode(message)
            self._transport.write(_LENGTH.pack(len(data)) + data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.WriteTransport):
            raise TypeError(f"{transport} cannot be written to")
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            messages = [self._decoder.decode(message) for message in self._splitter.push(data)]
        except (ValueError, msgspec.MsgspecError):
            self.close()
            return
        for message in messages:
            self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost()
