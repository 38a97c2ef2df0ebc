"""A packet in each slot, whether there is anything to say or not, and nothing twice."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from voice_omni.audio.pcm import Samples
from voice_omni.proto.errors import OmniError
from voice_omni.transports.webrtc.codecs import FRAME_S, PLAY_FRAME, make_decoder, make_encoder
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE, Codec
from voice_omni.transports.webrtc.rtp import RtpPacket, decode_rtp
from voice_omni.transports.webrtc.sender import FADE, AudioSender, RtpStart


@dataclass
class Line:
    """A sender, and what it sends at which moment of a clock that the test moves."""

    codec: Codec = "PCMU"
    sent: list[tuple[float, RtpPacket]] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    now: float = 50.0

    def __post_init__(self) -> None:
        self.sender = AudioSender(10.0, self.told.append)
        encoder = make_encoder(self.codec, 32_000, 1, 0)
        self.sender.start(encoder, 0, RtpStart(9, 65_530, 2**32 - 500), self._send, self.now)
        self.clock_rate, self.frame = encoder.clock_rate, encoder.frame

    def _send(self, data: bytes) -> None:
        packet = decode_rtp(data)
        assert packet is not None
        self.sent.append((self.now, packet))

    def run(self, slots: int, late: float = 0.0) -> None:
        for _ in range(slots):
            self.now = self.sender.due + late
            self.sender.serve(self.now)

    def heard(self) -> Samples:
        decoder = make_decoder(self.codec)
        pieces = [decoder.decode(packet.payload) for _, packet in self.sent]
        return np.concatenate([piece for piece in pieces if piece is not None])


def tone(seconds: float) -> Samples:
    return (0.5 * np.sin(2 * np.pi * 500 * np.arange(int(seconds * PLAY_RATE)) / PLAY_RATE)).astype(np.float32)


@pytest.mark.parametrize("codec", ["opus", "PCMU", "PCMA"])
def test_who_has_nothing_to_say_sends_silence(codec: Codec) -> None:
    line = Line(codec)
    line.run(200)
    assert np.abs(line.heard()).max() < 0.001
    assert len({packet.payload for _, packet in line.sent[3:]}) == 1
    assert line.told == []


def test_numbers_go_up_by_one_and_timestamps_by_a_frame_across_their_wraps() -> None:
    line = Line()
    line.run(20)
    for count, (_, packet) in enumerate(line.sent):
        assert packet.sequence == (65_530 + count) % 2**16
        assert packet.timestamp == (2**32 - 500 + 160 * count) % 2**32
        assert packet.ssrc == 9


def test_timestamps_match_the_wall_clock_however_late_the_timers_are() -> None:
    """A minute of timers that are 1 to 5 ms late, and a stall of 5 s in the middle of it."""
    line, rng = Line("opus"), random.Random(1)
    line.sender.play(tone(8.0))
    for count in range(3000):
        line.run(1, late=5.0 if count == 1500 else rng.uniform(0.001, 0.005))
    (first_at, first), (last_at, last) = line.sent[0], line.sent[-1]
    elapsed = ((last.timestamp - first.timestamp) % 2**32) / line.clock_rate
    assert elapsed == pytest.approx(last_at - first_at, abs=0.01)
    assert line.sender.slots_skipped == 250


def test_after_a_stall_nothing_is_sent_faster_and_no_sound_is_lost() -> None:
    line = Line()
    line.sender.play(tone(2.0))
    line.run(50)
    line.run(1, late=5.0)
    line.run(100)
    moments = [at for at, _ in line.sent]
    assert min(np.diff(moments[51:])) > 0.9 * FRAME_S
    assert line.sent[50][1].marker
    assert line.told[-1] == 2 * PLAY_RATE
    heard = line.heard()
    assert np.abs(np.diff(heard[: 2 * 8000 - 100])).max() < 0.25


def test_sound_goes_out_whole_and_its_end_is_filled_up_with_silence() -> None:
    line = Line()
    line.run(10)
    line.sender.play(tone(0.55))
    line.run(40)
    heard = line.heard()
    begin = int(np.argmax(np.abs(heard) > 0.01))
    assert begin == pytest.approx(10 * 160, abs=40)
    end = len(heard) - int(np.argmax(np.abs(heard[::-1]) > 0.01))
    assert (end - begin) / 8000 == pytest.approx(0.55, abs=0.005)


def test_progress_is_told_at_the_beginning_on_the_way_and_at_the_end() -> None:
    line = Line()
    line.sender.play(tone(1.0))
    line.run(100)
    assert line.told == [PLAY_FRAME, *range(6 * PLAY_FRAME, PLAY_RATE, 5 * PLAY_FRAME), PLAY_RATE]
    line.sender.play(tone(0.01))
    line.run(5)
    assert line.told[-1] == PLAY_RATE + PLAY_RATE // 100


def test_a_stall_that_receivers_buffer_leaves_no_hole() -> None:
    line = Line()
    line.sender.play(tone(1.0))
    line.run(10)
    stalled = line.sender.due + 0.05
    while line.sender.due <= stalled:
        line.now = stalled
        line.sender.serve(stalled)
    line.run(10)
    assert line.sender.slots_skipped == 0
    assert {b.timestamp - a.timestamp for (_, a), (_, b) in pairwise(line.sent)} <= {160, 160 - 2**32}


def test_the_first_packet_of_sound_is_marked() -> None:
    line = Line()
    line.run(5)
    line.sender.play(tone(0.1))
    line.run(10)
    assert [packet.marker for _, packet in line.sent] == [False] * 5 + [True] + [False] * 9


@pytest.mark.parametrize("codec", ["opus", "PCMU"])
def test_a_flush_ends_sound_within_one_frame_without_a_click(codec: Codec) -> None:
    line = Line(codec)
    line.sender.play(tone(5.0))
    line.run(50)
    total = line.sender.flush()
    line.run(50)
    assert total == 50 * PLAY_FRAME + FADE
    assert line.told[-1] == total
    heard, frame = line.heard(), make_decoder(codec).clock_rate // 50
    assert np.abs(heard[51 * frame + frame // 2 :]).max() < 0.02
    steps = np.abs(np.diff(heard))
    assert steps[50 * frame :].max() < 1.3 * steps[10 * frame : 50 * frame].max()


def test_after_a_flush_new_sound_is_played_at_once() -> None:
    line = Line()
    line.sender.play(tone(5.0))
    line.run(10)
    line.sender.flush()
    line.sender.play(tone(0.2))
    assert line.sender.queued == FADE + PLAY_RATE // 5
    line.run(20)
    assert line.told[-1] == 10 * PLAY_FRAME + FADE + PLAY_RATE // 5


def test_what_may_be_queued_has_a_bound() -> None:
    line = Line()
    line.sender.play(tone(9.9))
    with pytest.raises(OmniError) as caught:
        line.sender.play(tone(0.2))
    assert caught.value.code == "overloaded"
    assert line.sender.queued == int(9.9 * PLAY_RATE)


def test_reports_give_both_clocks_at_one_moment() -> None:
    line = Line()
    line.run(100)
    now = line.sent[0][0] + 1.99
    info = line.sender.report(now, 1_800_000_000.0)
    assert (info.rtp_timestamp - line.sent[0][1].timestamp) % 2**32 == round(1.99 * 8000)
    assert (info.packets, info.octets) == (100, 100 * 160)
