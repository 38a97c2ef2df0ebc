"""Calls between this media path and aiortc's, over real sockets on this host."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest
import soxr

from tests.support.patience import PATIENCE_S
from tests.support.ports import unused_udp_port
from tests.support.speech import recordings
from tests.support.webrtc_peer import Caller
from tests.transports.webrtc.listening import Listening
from voice_omni.audio.pcm import Samples
from voice_omni.proto.errors import OmniError
from voice_omni.transports.webrtc.peer import Peer
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE, PeerInterface, PeerSettings, ReceivedSound


@asynccontextmanager
async def calling(
    caller: Caller, peer_settings: PeerSettings | None = None
) -> AsyncIterator[tuple[PeerInterface, Listening]]:
    """A call that is open, and over afterwards."""
    listening = Listening()
    peer: PeerInterface = Peer(peer_settings or PeerSettings(), listening)
    try:
        await caller.call(peer.answer)
        await listening.until(lambda: listening.openings)
        yield peer, listening
    finally:
        await peer.close()
        await caller.close()


def tone(hertz: float, seconds: float, rate: int) -> Samples:
    return (0.4 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def loudest_hertz(samples: Samples, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * rate / len(samples)


@pytest.mark.parametrize("codec", ["opus", "PCMU", "PCMA"])
async def test_sound_arrives_in_both_directions(codec: str) -> None:
    caller = Caller(tone(440, 3.0, 48_000), codec=codec)
    async with calling(caller) as (peer, listening):
        peer.play(tone(1000, 1.0, PLAY_RATE))
        await listening.until(lambda: len(listening.samples) > PLAY_RATE)
        await listening.until(lambda: listening.totals and listening.totals[-1] == PLAY_RATE)
        assert peer.stats().codec == codec
    assert loudest_hertz(listening.samples[-PLAY_RATE // 2 :], PLAY_RATE) == pytest.approx(440, abs=2)
    heard, rate = caller.heard, 48_000 if codec == "opus" else 8000
    loud = np.flatnonzero(np.abs(heard) > 0.05)
    middle = (loud[0] + loud[-1]) // 2
    assert loudest_hertz(heard[middle - rate // 4 : middle + rate // 4], rate) == pytest.approx(1000, abs=3)


async def test_speech_arrives_whole() -> None:
    words = recordings()[0].samples(48_000)[: 2 * 48_000]
    async with calling(Caller(words)) as (_, listening):
        await listening.until(lambda: len(listening.samples) > 2.2 * PLAY_RATE)
    sound, heard = soxr.resample(words, 48_000, 8000), soxr.resample(listening.samples, PLAY_RATE, 8000)
    lags = range(min(2000, len(heard) - len(sound)))
    assert max(np.corrcoef(heard[lag : lag + len(sound)], sound)[0, 1] for lag in lags) > 0.9
    assert not any(each.concealed for each in listening.sounds[5:-5])


async def test_messages_arrive_in_both_directions_in_order_and_whole() -> None:
    """Also those that do not fit into a datagram or into 64 KiB, and those sent before the channel was there."""
    caller, listening = Caller(), Listening()
    peer = Peer(PeerSettings(), listening)
    texts = ["first", "ü" * 100, "x" * 1200, "y" * 70_000, "z" * 200_000, "last"]
    peer.send_message("before the call")
    try:
        await caller.call(peer.answer)
        for text in texts:
            caller.say(text)
            peer.send_message(text)
        caller.say("as bytes: ü".encode())
        await listening.until(lambda: len(listening.messages) == len(texts) + 1)
        assert listening.messages == [*texts, "as bytes: ü"]
        while len(caller.messages) < len(texts) + 1:
            await asyncio.sleep(0.01)
        assert caller.messages == ["before the call", *texts]
    finally:
        await peer.close()
        await caller.close()


async def test_a_message_that_the_caller_does_not_take_is_refused() -> None:
    async with calling(Caller()) as (peer, _):
        with pytest.raises(OmniError) as caught:
            peer.send_message("x" * 300_000)
        assert caught.value.code == "message_too_large"


async def test_messages_that_wait_have_a_bound() -> None:
    peer = Peer(PeerSettings(max_queued_bytes=1000), Listening())
    peer.send_message("x" * 900)
    with pytest.raises(OmniError) as caught:
        peer.send_message("x" * 200)
    assert caught.value.code == "overloaded"
    await peer.close()


async def test_a_flush_stops_the_sound_at_once() -> None:
    caller = Caller()
    async with calling(caller) as (peer, listening):
        peer.play(tone(500, 20.0, PLAY_RATE))
        await listening.until(lambda: listening.totals and listening.totals[-1] > PLAY_RATE // 4)
        total = peer.flush()
        assert total <= listening.totals[-1] + 6 * PLAY_RATE // 50
        await listening.until(lambda: listening.totals[-1] == total)
        await asyncio.sleep(0.3)
        assert listening.totals[-1] == total
        assert peer.queued_samples == 0
    assert np.abs(caller.heard[-4800:]).max() < 0.01


async def test_an_offer_without_candidates_is_answered_and_connected() -> None:
    """Clients send their offer before they have gathered any; they are found by their own checks."""
    caller, listening = Caller(tone(440, 1.0, 48_000)), Listening()
    peer = Peer(PeerSettings(), listening)
    try:
        offer = "".join(
            line for line in (await caller.offer()).splitlines(keepends=True) if not line.startswith("a=candidate")
        )
        await caller.accept(await peer.answer(offer))
        await listening.until(lambda: listening.openings and listening.sounds)
    finally:
        await peer.close()
        await caller.close()


async def test_video_is_declined_and_audio_is_heard() -> None:
    caller = Caller(tone(440, 1.0, 48_000), video=True)
    async with calling(caller) as (_, listening):
        await listening.until(lambda: len(listening.sounds) > 10)
        assert "a=inactive" in caller.connection.remoteDescription.sdp.partition("m=video")[2]


async def test_a_caller_who_only_listens_hears() -> None:
    caller = Caller(direction="recvonly")
    async with calling(caller) as (peer, listening):
        peer.play(tone(1000, 0.3, PLAY_RATE))
        await listening.until(lambda: listening.totals and listening.totals[-1] == int(0.3 * PLAY_RATE))
        await asyncio.sleep(0.2)
    assert np.abs(caller.heard).max() > 0.2
    assert listening.sounds == []


async def test_a_caller_who_only_speaks_is_heard() -> None:
    caller = Caller(tone(440, 1.0, 48_000), direction="sendonly")
    async with calling(caller) as (peer, listening):
        peer.play(tone(1000, 0.1, PLAY_RATE))
        await listening.until(lambda: len(listening.sounds) > 10 and listening.totals)
    assert caller.frames == []


async def test_a_call_without_an_event_channel_is_open_when_media_is() -> None:
    caller = Caller(tone(440, 1.0, 48_000), channel=None)
    async with calling(caller) as (_, listening):
        await listening.until(lambda: len(listening.sounds) > 10)


async def test_what_nobody_can_read_does_not_wait_however_much_it_is() -> None:
    async with calling(Caller(channel=None), PeerSettings(max_queued_bytes=1000)) as (peer, listening):
        for _ in range(10):
            peer.send_message("x" * 900)
        assert listening.reason is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda _: "", "invalid_sdp"),
        (lambda _: "hello", "invalid_sdp"),
        (lambda offer: offer.replace("a=ice-ufrag", "a=nothing"), "invalid_sdp"),
        (lambda offer: offer.replace("a=fingerprint", "a=nothing"), "invalid_sdp"),
        (lambda offer: offer.replace("a=rtcp-mux\r\n", ""), "invalid_sdp"),
        (lambda offer: offer.replace("a=sendrecv", "a=inactive"), "no_audio"),
        (lambda offer: offer.replace("m=audio", "m=text"), "no_audio"),
        (lambda offer: offer.replace("opus/48000", "iLBC/8000"), "unsupported_codec"),
    ],
)
async def test_an_offer_that_cannot_be_answered_says_why(change: Callable[[str], str], code: str) -> None:
    caller, listening = Caller(codec="opus"), Listening()
    peer = Peer(PeerSettings(), listening)
    with pytest.raises(OmniError) as caught:
        await peer.answer(change(await caller.offer()))
    assert caught.value.code == code
    await caller.close()
    await peer.close()
    assert listening.reason is None


def _mutated(offer: str, rng: random.Random) -> str:
    lines = offer.split("\r\n")
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        change = rng.choice(["drop", "double", "swap", "cut", "number"])
        if change == "drop":
            del lines[at]
        elif change == "double":
            lines.insert(at, lines[other])
        elif change == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif change == "cut":
            lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
        else:
            lines[at] = re.sub(r"\d+", rng.choice(["0", "-1", "99999", "x"]), lines[at], count=1)
    return "\r\n".join(lines)


@pytest.mark.parametrize("seed", range(60))
async def test_any_offer_is_answered_or_refused_and_leaves_nothing(seed: int) -> None:
    caller = Caller(video=True)
    peer = Peer(PeerSettings(ipv6=False), Listening())
    with contextlib.suppress(OmniError):
        await peer.answer(_mutated(await caller.offer(), random.Random(seed)))
    await peer.close()
    await caller.close()
    await asyncio.sleep(0.05)  # aiortc looks every 20 ms whether it is still wanted
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_callers_order_decides_among_the_codecs_that_are_allowed() -> None:
    caller = Caller()  # offers Opus first
    async with calling(caller, PeerSettings(codecs=("PCMA", "PCMU"))) as (peer, _):
        assert peer.stats().codec == "PCMU"


async def test_media_uses_the_ports_that_are_allowed_and_a_full_range_is_said() -> None:
    port = unused_udp_port()
    one_port = PeerSettings(udp_ports=(port, port), ipv6=False)
    first, second = Caller(), Caller()
    async with calling(first, one_port):
        assert set(_candidate_ports(first)) == {port}
        peer = Peer(one_port, Listening())
        with pytest.raises(OmniError) as caught:
            await peer.answer(await second.offer())
        assert caught.value.code == "no_candidates"
        assert caught.value.info.retryable
    await second.close()
    third = Caller()
    async with calling(third, one_port):  # the port is free again
        pass


async def test_the_public_address_is_announced_with_the_same_port() -> None:
    caller = Caller()
    async with calling(caller, PeerSettings(public_address="203.0.113.7", ipv6=False)):
        fields = [line.split() for line in _candidates(caller)]
        public = [each for each in fields if each[4] == "203.0.113.7"]
        local = [each for each in fields if each[4] != "203.0.113.7"]
        assert {each[5] for each in public} == {each[5] for each in local}
        assert all(each[7] == "srflx" for each in public)


def _candidates(caller: Caller) -> list[str]:
    sdp = caller.connection.remoteDescription.sdp.partition("m=application")[0]
    return [line for line in sdp.splitlines() if line.startswith("a=candidate")]


def _candidate_ports(caller: Caller) -> list[int]:
    return [int(line.split()[5]) for line in _candidates(caller)]


async def test_a_caller_who_hangs_up_is_noticed() -> None:
    caller = Caller()
    async with calling(caller) as (_, listening):
        await caller.close()
        await listening.until(lambda: listening.reason)
    assert listening.reason == "remote"


async def test_hanging_up_is_noticed_by_the_caller() -> None:
    caller = Caller()
    async with calling(caller) as (peer, listening):
        await peer.close()
        assert listening.reason == "local"
        async with asyncio.timeout(PATIENCE_S):
            while caller.connection.connectionState != "closed":
                await asyncio.sleep(0.01)


async def test_a_caller_who_vanishes_is_given_up_after_the_time_that_is_set() -> None:
    caller = Caller()
    async with calling(caller, PeerSettings(disconnect_timeout_s=0.5)) as (_, listening):
        caller.vanish()
        await listening.until(lambda: listening.reason)
    assert listening.reason == "disconnected"


async def test_a_caller_who_never_connects_is_given_up() -> None:
    caller, listening = Caller(), Listening()
    peer = Peer(PeerSettings(connect_timeout_s=0.3), listening)
    await peer.answer(await caller.offer())
    await listening.until(lambda: listening.reason)
    assert listening.reason == "connect_timeout"
    await peer.close()
    await caller.close()


async def test_a_caller_who_connects_and_never_opens_the_channel_that_was_offered_is_given_up() -> None:
    caller, listening = Caller(tone(440, 5.0, 48_000), channel=None), Listening()
    caller.connection.createDataChannel("told to nobody", negotiated=True, id=0)
    peer = Peer(PeerSettings(connect_timeout_s=1.0), listening)
    await caller.call(peer.answer)
    await listening.until(lambda: listening.sounds)
    assert listening.reason is None
    await listening.until(lambda: listening.reason)
    assert listening.reason == "connect_timeout"
    assert listening.openings == 0
    await peer.close()
    await caller.close()


async def test_calls_of_another_that_fails_go_on() -> None:
    class Failing(Listening):
        def audio(self, sound: ReceivedSound) -> None:
            raise RuntimeError("a fault in what listens")

    failing = Failing()
    first, second = Caller(tone(440, 1.0, 48_000)), Caller(tone(440, 1.0, 48_000))
    broken = Peer(PeerSettings(), failing)
    async with calling(second) as (_, listening):
        await first.accept(await broken.answer(await first.offer()))
        await failing.until(lambda: failing.reason)
        heard = len(listening.sounds)
        await listening.until(lambda: len(listening.sounds) > heard + 10)
    assert failing.reason == "failed"
    await broken.close()
    await first.close()


async def test_a_call_can_be_closed_at_any_time() -> None:
    caller = Caller()
    unused = Peer(PeerSettings(), Listening())
    await unused.close()
    early, listening = Peer(PeerSettings(), Listening()), Listening()
    answering = asyncio.create_task(early.answer(await caller.offer()))
    await asyncio.sleep(0)
    await early.close()
    with pytest.raises(OmniError):
        await answering
    waiting = Peer(PeerSettings(), listening)
    await waiting.answer(await caller.offer())
    await asyncio.gather(waiting.close(), waiting.close())
    assert listening.reason == "local"
    waiting.play(np.zeros(480, np.float32))
    waiting.send_message("too late")
    await caller.close()


def _resources() -> tuple[int, list[str], int]:
    """File descriptors, threads and tasks. The loop's own pool of threads is used by the caller's encoder."""
    threads = [each.name for each in threading.enumerate() if not each.name.startswith("asyncio_")]
    return len(os.listdir("/proc/self/fd")), threads, len(asyncio.all_tasks())


async def test_calls_leave_nothing_behind_however_they_end() -> None:
    async def one_call(number: int) -> None:
        caller, listening = Caller(tone(440, 0.2, 48_000)), Listening()
        peer = Peer(PeerSettings(disconnect_timeout_s=1.0), listening)
        await caller.call(peer.answer)
        await listening.until(lambda: listening.sounds)
        if number % 3 == 0:
            caller.vanish()
            await listening.until(lambda: listening.reason)
        elif number % 3 == 1:
            await caller.close()
            await listening.until(lambda: listening.reason)
        await peer.close()
        await caller.close()

    await one_call(1)
    gc.collect()
    before = _resources()
    for start in range(0, 20, 5):
        await asyncio.gather(*(one_call(number) for number in range(start, start + 5)))
    gc.collect()
    await asyncio.sleep(0.1)
    assert _resources() == before
