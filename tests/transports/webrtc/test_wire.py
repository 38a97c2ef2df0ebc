"""The connection between the server and a media process."""

from __future__ import annotations

import asyncio
import socket
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.proto.errors import ErrorInfo
from voice_omni.transports.webrtc import wire
from voice_omni.transports.webrtc.peer_interface import IceServer, PeerSettings, PeerStats

STATS = PeerStats("opus", 1, 2, 3.0, 4.0, 5.0, 6.0, 7.0, 8, 9, 10.0, None, 0.5)
MESSAGES: list[wire.WireMessage] = [
    wire.Open("rtc_1", "v=0", PeerSettings(ice_servers=(IceServer(urls=("stun:a",)),), udp_ports=(1, 2))),
    wire.Say("rtc_1", '{"type": "ä"}'),
    wire.Play("rtc_1", wire.to_bytes(np.array([0.5, -1.0], np.float32))),
    wire.Flush("rtc_1", 3),
    wire.HangUp("rtc_1", linger=True),
    wire.Ready(),
    wire.Beat(1, 2.0),
    wire.Answered("rtc_1", "v=0"),
    wire.Refused("rtc_1", ErrorInfo("invalid_sdp", "no", param="sdp")),
    wire.Opened("rtc_1"),
    wire.Said("rtc_1", "{}"),
    wire.Sound("rtc_1", 480, b"\0" * 16),
    wire.Played("rtc_1", 1, 480),
    wire.Undelivered("rtc_1", ErrorInfo("overloaded", "much")),
    wire.Closed("rtc_1", "remote", STATS),
]


async def pair() -> tuple[wire.Link, wire.Link, list[wire.WireMessage], asyncio.Event]:
    """Two ends; what the second one got, and whether it lost the first."""
    got: list[wire.WireMessage] = []
    lost = asyncio.Event()
    ends = socket.socketpair()
    links = (wire.Link(lambda message: None, lambda: None), wire.Link(got.append, lost.set))
    for end, link in zip(ends, links, strict=True):
        end.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda link=link: link, sock=end)
    return (*links, got, lost)


async def test_every_message_arrives_as_it_was_sent_and_in_order() -> None:
    first, second, got, lost = await pair()
    for message in MESSAGES:
        first.send(message)
    first.close()
    await lost.wait()
    assert got == MESSAGES
    second.send(wire.Ready())  # to nobody


def test_every_kind_of_message_is_among_them() -> None:
    assert {type(message) for message in MESSAGES} == set(wire.WireMessage.__args__)


def test_sound_is_the_same_on_the_other_side() -> None:
    samples = np.linspace(-1, 1, 480, dtype=np.float32)
    np.testing.assert_array_equal(wire.to_samples(wire.to_bytes(samples)), samples)
    np.testing.assert_array_equal(wire.to_samples(wire.to_bytes(samples[::2])), samples[::2])


@given(st.lists(st.binary(max_size=40), max_size=6), st.data())
def test_a_stream_may_be_cut_anywhere(messages: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(struct.pack(">I", len(message)) + message for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter, got = wire.Splitter(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += splitter.push(stream[start:end])
    assert got == messages


def test_a_length_that_cannot_be_is_no_length() -> None:
    with pytest.raises(ValueError, match="bytes"):
        wire.Splitter().push(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("noise", [b"\xff" * 64, struct.pack(">I", 5) + b"hello", struct.pack(">I", 1) + b"\x90"])
async def test_noise_ends_the_connection(noise: bytes) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    lost = asyncio.Event()
    link = wire.Link(lambda message: None, lost.set)
    await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
    theirs.send(noise)
    await lost.wait()
    theirs.close()


async def test_a_reader_that_is_held_up_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link = wire.Link(lambda message: None, lambda: None)
    await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
    assert not link.congested
    sound = wire.Sound("rtc_1", 0, bytes(1024 * 1024))
    for _ in range(6):
        link.send(sound)
    assert link.congested
    link.close()
    theirs.close()
