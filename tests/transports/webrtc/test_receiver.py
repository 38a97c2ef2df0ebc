"""The caller's sound, from packets on an impaired path to samples on a timeline, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import soxr

from tests.support.impaired_path import ImpairedPath
from tests.support.speech import recordings
from voice_omni.audio.pcm import Samples
from voice_omni.transports.webrtc.codecs import PLAY_FRAME, make_decoder, make_encoder
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE, Codec, PeerSettings, ReceivedSound
from voice_omni.transports.webrtc.receiver import AudioReceiver
from voice_omni.transports.webrtc.rtp import RtpPacket

FRAME_S = 0.02
PAYLOAD_TYPE = 111
PATH = ImpairedPath(jitter=0.012, loss=0.01, reordering=0.02, duplicates=0.005)


@cache
def speech() -> Samples:
    """About a minute of it."""
    sound = np.concatenate([each.samples(PLAY_RATE) for each in recordings()] * 4)
    return sound[: 3000 * PLAY_FRAME]


@cache
def payloads(codec: Codec) -> list[bytes]:
    encoder = make_encoder(codec, 32_000, 1, 0)
    return [encoder.encode(speech()[start : start + PLAY_FRAME]) for start in range(0, len(speech()), PLAY_FRAME)]


class Call:
    """A receiver, its clock, and what it heard."""

    def __init__(self, codec: Codec = "opus", settings: PeerSettings | None = None) -> None:
        self.heard: list[ReceivedSound] = []
        self.codec: Codec = codec
        self.receiver = AudioReceiver(make_decoder(codec), PAYLOAD_TYPE, settings or PeerSettings(), self.heard.append)
        self._ticked = 0.0

    def listen(self, path: ImpairedPath, until: float | None = None) -> Call:
        unit = self.receiver.clock_rate // 50
        sent = payloads(self.codec)
        for arrival, index in path.arrivals([index * FRAME_S for index in range(len(sent))]):
            self.pass_time(arrival)
            self.receiver.packet(RtpPacket(PAYLOAD_TYPE, index, index * unit, 5, sent[index]), arrival)
        if until is not None:
            self.pass_time(until)
        return self

    def pass_time(self, until: float) -> None:
        while self._ticked + FRAME_S <= until:
            self._ticked += FRAME_S
            self.receiver.tick(self._ticked, held_up=False)

    @property
    def samples(self) -> Samples:
        return np.concatenate([each.samples for each in self.heard])


@pytest.mark.parametrize("rate", [16_000, 24_000, 48_000])
@pytest.mark.parametrize("codec", ["opus", "PCMU", "PCMA"])
def test_stretches_follow_each_other_without_gap_or_overlap(codec: Codec, rate: int) -> None:
    call = Call(codec, PeerSettings(input_rate=rate)).listen(PATH)  # type: ignore[arg-type]
    position = 0
    for sound in call.heard:
        assert sound.position == position
        position += len(sound.samples)
    assert position == pytest.approx(60 * rate, abs=0.05 * rate)


@pytest.mark.parametrize("codec", ["opus", "PCMU"])
def test_on_an_impaired_path_the_words_stay_in_their_places(codec: Codec) -> None:
    """The whole minute at one and the same delay: nothing shifts the timeline, and little of it is missing."""
    call = Call(codec).listen(PATH)
    heard, sound = soxr.resample(call.samples, PLAY_RATE, 8000), soxr.resample(speech(), PLAY_RATE, 8000)
    lags = range(0, 160)
    part = slice(len(sound) - 8 * 8000, len(sound) - 8000)  # the last seconds: an error would have added up
    likenesses = [np.corrcoef(heard[part.start + lag : part.stop + lag], sound[part])[0, 1] for lag in lags]
    assert max(likenesses) > 0.8
    counts = call.receiver.counts
    assert counts.lost / counts.length < 0.015
    assert counts.buffered_s / counts.delivered < 0.12


@pytest.mark.parametrize("seed", range(3))
def test_concealed_is_what_was_not_received(seed: int) -> None:
    call = Call("PCMU").listen(replace(PATH, seed=seed))
    concealed = sum(len(each.samples) for each in call.heard if each.concealed)
    counts = call.receiver.counts
    assert concealed / PLAY_RATE == pytest.approx((counts.lost + counts.paused) / 8000, abs=0.05)


def test_before_the_first_packet_nothing_is_heard_and_nothing_complains() -> None:
    """A microphone that is off from the start."""
    call = Call()
    call.pass_time(60.0)
    assert call.heard == []
    assert call.receiver.report(60.0) is None


def test_a_caller_who_falls_silent_is_heard_to_be_silent() -> None:
    call = Call().listen(ImpairedPath(), until=70.0)
    assert len(call.samples) / PLAY_RATE == pytest.approx(70.0 - 0.25, abs=0.05)
    assert not call.samples[-5 * PLAY_RATE :].any()


def test_other_payloads_and_broken_ones_are_passed_over() -> None:
    call = Call()
    call.receiver.packet(RtpPacket(101, 0, 0, 5, b"\x00\x0a\x00\xa0"), 0.0)
    call.receiver.packet(RtpPacket(PAYLOAD_TYPE, 0, 0, 5, b""), 0.0)
    assert call.heard == []
    broken = b"\x7b\xff\xff\xff"  # 63 frames of 20 ms in two bytes
    call.receiver.packet(RtpPacket(PAYLOAD_TYPE, 0, 0, 5, broken), 0.0)
    assert call.heard == []


def test_a_payload_that_does_not_decode_is_concealed_and_counted() -> None:
    call = Call()
    sent = payloads("opus")
    for index in range(10):
        payload = sent[index] if index != 5 else b"\x6b\x41"  # says that it is padded, and ends
        call.receiver.packet(RtpPacket(PAYLOAD_TYPE, index, 960 * index, 5, payload), index * FRAME_S)
    assert len(call.samples) == pytest.approx(10 * PLAY_FRAME, abs=PLAY_FRAME // 2)
    assert call.receiver.broken == 960


def test_packets_that_wait_to_be_read_are_not_taken_for_lost() -> None:
    """The process was held up for a second: the timer fires before the packets of that second have been read."""
    call = Call()
    sent = payloads("opus")
    for index in range(50):
        call.pass_time(index * FRAME_S)
        call.receiver.packet(RtpPacket(PAYLOAD_TYPE, index, 960 * index, 5, sent[index]), index * FRAME_S)
    call.receiver.tick(2.0, held_up=True)
    for index in range(50, 100):
        call.receiver.packet(RtpPacket(PAYLOAD_TYPE, index, 960 * index, 5, sent[index]), 2.0 + index / 10_000)
    assert call.receiver.counts.delivered == 100
    assert not any(each.concealed for each in call.heard)


def test_reports_tell_the_sender_what_was_lost() -> None:
    call = Call("PCMU").listen(replace(PATH, duplicates=0.0, reordering=0.0))
    report = call.receiver.report(60.0)
    assert report is not None
    assert report.ssrc == 5
    assert report.lost == pytest.approx(30, abs=20)
    assert report.jitter > 0
