"""The sound of one call on its way out: a packet in each slot of 20 ms, whether there is anything to say or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from voice_omni.audio.pacing import SlotPacer
from voice_omni.audio.pcm import Samples
from voice_omni.audio.playout_queue import PlayoutQueue
from voice_omni.proto.errors import OmniError
from voice_omni.transports.webrtc.codecs import FRAME_S, PLAY_FRAME, Encoder
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE
from voice_omni.transports.webrtc.reports import ntp_time
from voice_omni.transports.webrtc.rtp import RtpPacket, SenderInfo

FADE: Final = PLAY_RATE // 100
"""Samples in which sound that is flushed falls to silence."""
GRACE_SLOTS: Final = 4
"""Missed slots that are made up for: receivers get used to 80 ms, but a hole is heard each time."""
_TELL_FRAMES: Final = 5
_DECAY_FRAMES: Final = 3
"""Silence that is really encoded after sound; then the encoder has settled, and its last packet serves for the rest."""
_SILENCE: Final = np.zeros(PLAY_FRAME, np.float32)


@dataclass(frozen=True, slots=True)
class RtpStart:
    """With which numbers a stream begins; RFC 3550 asks for random ones."""

    ssrc: int
    sequence: int
    timestamp: int


class AudioSender:
    """Queues sound from the beginning, and sends from :meth:`start` on."""

    def __init__(self, max_queued_s: float, played: Callable[[int], None]) -> None:
        """``played``: told how many samples have been sent, as :class:`PeerListener` describes it."""
        self._queue = PlayoutQueue(FADE)
        self._max_queued = round(max_queued_s * PLAY_RATE)
        self._played = played
        self._untold = 0
        self._encoder: Encoder | None = None
        self.packets = 0
        self.octets = 0
        self.slots_skipped = 0

    def start(
        self, encoder: Encoder, payload_type: int, start: RtpStart, send: Callable[[bytes], None], now: float
    ) -> None:
        """``send``: takes one RTP packet. ``now``: monotonic seconds; the first slot begins here."""
        self._encoder = encoder
        self._payload_type = payload_type
        self._ssrc = start.ssrc
        self._sequence = start.sequence
        self._timestamp = start.timestamp
        self._send = send
        self._pacer = SlotPacer(FRAME_S, now, GRACE_SLOTS)
        self._silent_frames = 0
        self._silence = b""

    @property
    def due(self) -> float:
        """When the next packet has to be sent, in monotonic seconds. Not before :meth:`start`."""
        return self._pacer.due

    @property
    def queued(self) -> int:
        return self._queue.queued

    @property
    def taken(self) -> int:
        return self._queue.taken

    def play(self, samples: Samples) -> None:
        if self._queue.queued + len(samples) > self._max_queued:
            raise OmniError("overloaded", "more sound is queued for the call than it holds; send less far ahead")
        self._queue.push(samples)

    def flush(self) -> int:
        return self._queue.flush()

    def serve(self, now: float) -> int:
        """Send the packet of the slot that ``now`` lies in; returns how many slots before it went by without one."""
        assert self._encoder is not None
        skipped = self._pacer.serve(now)
        self.slots_skipped += skipped
        self._timestamp += skipped * self._encoder.frame
        samples = self._queue.take(PLAY_FRAME)
        begins = samples is not None and (self._silent_frames > 0 or self.packets == 0)
        payload = self._silent(self._encoder) if samples is None else self._encoder.encode(samples)
        packet = RtpPacket(
            self._payload_type,
            self._sequence & 0xFFFF,
            self._timestamp & 0xFFFFFFFF,
            self._ssrc,
            payload,
            marker=begins or skipped > 0,
        )
        self._send(packet.encode())
        self.packets += 1
        self.octets += len(payload)
        self._sequence += 1
        self._timestamp += self._encoder.frame
        if samples is not None:
            self._silent_frames = 0
            self._tell(begins)
        return skipped

    def report(self, now: float, unix_time: float) -> SenderInfo:
        """What to put into a sender report: both times of the same moment."""
        assert self._encoder is not None
        ahead = round((self._pacer.due - now) * self._encoder.clock_rate)
        timestamp = (self._timestamp - ahead) & 0xFFFFFFFF
        return SenderInfo(self._ssrc, ntp_time(unix_time), timestamp, self.packets, self.octets)

    def _silent(self, encoder: Encoder) -> bytes:
        if self._silent_frames < _DECAY_FRAMES:
            self._silence = encoder.encode(_SILENCE)
        self._silent_frames += 1
        return self._silence

    def _tell(self, begins: bool) -> None:
        self._untold += 1
        if begins or self._untold >= _TELL_FRAMES or not self._queue.queued:
            self._untold = 0
            self._played(self._queue.taken)
