"""RTP packets and the RTCP reports about them (RFC 3550), as bytes. Nothing here keeps a state or a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_HEADER: Final = struct.Struct("!BBHII")
_RTCP_HEADER: Final = struct.Struct("!BBH")
_SENDER_INFO: Final = struct.Struct("!IQIII")
_VERSION: Final = 0x80
_SR: Final = 200
_RR: Final = 201
_SDES: Final = 202
_BYE: Final = 203
_CNAME: Final = 1
_MAX_LOST: Final = (1 << 23) - 1


@dataclass(frozen=True, slots=True)
class RtpPacket:
    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes
    marker: bool = False

    def encode(self) -> bytes:
        second = self.payload_type | (0x80 if self.marker else 0)
        return _HEADER.pack(_VERSION, second, self.sequence, self.timestamp, self.ssrc) + self.payload


def decode_rtp(data: bytes) -> RtpPacket | None:
    """None for what is no RTP packet. Contributing sources, extensions and padding are left out."""
    if len(data) < _HEADER.size:
        return None
    first, second, sequence, timestamp, ssrc = _HEADER.unpack_from(data)
    if first & 0xC0 != _VERSION:
        return None
    start = _HEADER.size + 4 * (first & 0x0F)
    end = len(data)
    if first & 0x10:
        if start + 4 > end:
            return None
        start += 4 + 4 * int.from_bytes(data[start + 2 : start + 4])
    if first & 0x20:
        end -= data[-1] or end
    if start > end:
        return None
    return RtpPacket(second & 0x7F, sequence, timestamp, ssrc, data[start:end], bool(second & 0x80))


def is_rtcp(data: bytes) -> bool:
    """Whether a packet on a path that carries both is RTCP (RFC 5761, section 4)."""
    return len(data) >= 2 and 192 <= data[1] <= 223


@dataclass(frozen=True, slots=True)
class SenderInfo:
    ssrc: int
    ntp: int
    """64-bit NTP timestamp."""
    rtp_timestamp: int
    packets: int
    octets: int


@dataclass(frozen=True, slots=True)
class ReceptionReport:
    """How a stream was received, in the words of who received it."""

    ssrc: int
    """The stream's."""
    fraction_lost: int
    """Of 256, since the last report."""
    lost: int
    highest_sequence: int
    """With the number of wraps in the upper 16 bits."""
    jitter: int
    """In units of the stream's clock."""
    last_sender_report: int
    """The middle 32 bits of its NTP timestamp; 0 for none."""
    delay: int
    """Since that report, in 1/65536 s."""


@dataclass(frozen=True, slots=True)
class Bye:
    sources: tuple[int, ...]


def encode_report(
    reporter: int, cname: str, sent: SenderInfo | None, received: ReceptionReport | None, *, bye: bool = False
) -> bytes:
    """A compound packet: a sender or receiver report, then the canonical name, then a goodbye if it is one."""
    blocks = b"" if received is None else _encode_block(received)
    count = 0 if received is None else 1
    if sent is None:
        report = _packet(_RR, count, struct.pack("!I", reporter) + blocks)
    else:
        fields = (sent.ntp, sent.rtp_timestamp, sent.packets & 0xFFFFFFFF, sent.octets & 0xFFFFFFFF)
        report = _packet(_SR, count, _SENDER_INFO.pack(reporter, *fields) + blocks)
    name = cname.encode()
    chunk = struct.pack("!IBB", reporter, _CNAME, len(name)) + name
    chunk += bytes(4 - len(chunk) % 4)
    goodbye = _packet(_BYE, 1, struct.pack("!I", reporter)) if bye else b""
    return report + _packet(_SDES, 1, chunk) + goodbye


def decode_rtcp(data: bytes) -> Iterator[SenderInfo | ReceptionReport | Bye]:
    """What a compound packet says that matters here; the rest, and what is cut off, is passed over."""
    position = 0
    while position + 4 <= len(data):
        first, kind, words = _RTCP_HEADER.unpack_from(data, position)
        body = data[position + 4 : position + 4 + 4 * words]
        position += 4 + 4 * words
        if first & 0xC0 != _VERSION or len(body) < 4 * words:
            return
        count = first & 0x1F
        if kind == _SR and len(body) >= _SENDER_INFO.size:
            yield SenderInfo(*_SENDER_INFO.unpack_from(body))
            yield from _decode_blocks(body[_SENDER_INFO.size :], count)
        elif kind == _RR:
            yield from _decode_blocks(body[4:], count)
        elif kind == _BYE and len(body) >= 4 * count:
            yield Bye(struct.unpack_from(f"!{count}I", body))


def _packet(kind: int, count: int, body: bytes) -> bytes:
    return _RTCP_HEADER.pack(_VERSION | count, kind, len(body) // 4) + body


def _encode_block(report: ReceptionReport) -> bytes:
    lost = min(max(report.lost, -_MAX_LOST - 1), _MAX_LOST) & 0xFFFFFF
    packed = struct.pack("!I", report.fraction_lost << 24 | lost)
    sequence = report.highest_sequence & 0xFFFFFFFF
    return (
        struct.pack("!I", report.ssrc)
        + packed
        + struct.pack(
            "!IIII", sequence, report.jitter & 0xFFFFFFFF, report.last_sender_report, report.delay & 0xFFFFFFFF
        )
    )


def _decode_blocks(body: bytes, count: int) -> Iterator[ReceptionReport]:
    for index in range(min(count, len(body) // 24)):
        ssrc, packed, sequence, jitter, last, delay = struct.unpack_from("!6I", body, 24 * index)
        lost = packed & 0xFFFFFF
        yield ReceptionReport(
            ssrc, packed >> 24, lost - (1 << 24) if lost >> 23 else lost, sequence, jitter, last, delay
        )
