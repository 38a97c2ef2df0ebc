"""The sound of one call on its way in: RTP packets to stretches of sound on a timeline without gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from voice_omni.audio.jitter_buffer import Counts, JitterBuffer, Packet, Stretch
from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler
from voice_omni.transports.webrtc.codecs import Decoder
from voice_omni.transports.webrtc.peer_interface import PeerSettings, ReceivedSound
from voice_omni.transports.webrtc.reports import ReceptionStatistics
from voice_omni.transports.webrtc.rtp import ReceptionReport, RtpPacket, SenderInfo

_CATCH_UP_S: Final = 0.1
"""After the process was held up, what came meanwhile is read within this, and is not to be taken for lost."""


class AudioReceiver:
    """Decodes on the spot: a frame of Opus takes less time than handing it to a thread and back."""

    def __init__(
        self, decoder: Decoder, payload_type: int, settings: PeerSettings, heard: Callable[[ReceivedSound], None]
    ) -> None:
        self.clock_rate = decoder.clock_rate
        self._decoder = decoder
        self._payload_type = payload_type
        self._heard = heard
        self._buffer = JitterBuffer(
            decoder.clock_rate,
            min_wait=settings.min_wait_ms / 1000,
            max_wait=settings.max_wait_ms / 1000,
            stall_wait=settings.stall_wait_ms / 1000,
        )
        self._resampler = StreamResampler(decoder.clock_rate, settings.input_rate)
        self._statistics: ReceptionStatistics | None = None
        self._patient_until = 0.0
        self._position = 0
        self.broken = 0
        """Of the timeline, in units of the decoder's clock: what came and could not be decoded."""

    @property
    def counts(self) -> Counts:
        return self._buffer.counts

    @property
    def wait(self) -> float:
        """How long a missing packet is waited for, in seconds."""
        return self._buffer.wait

    def packet(self, rtp: RtpPacket, now: float) -> None:
        """A packet has arrived. One of another payload type, or that cannot be valid, is passed over."""
        if rtp.payload_type != self._payload_type or not (duration := self._decoder.duration(rtp.payload)):
            return
        if self._statistics is None or self._statistics.ssrc != rtp.ssrc:
            self._statistics = ReceptionStatistics(rtp.ssrc, self._decoder.clock_rate)
        self._statistics.received(rtp.sequence, rtp.timestamp, now)
        pausing = self._decoder.pausing(rtp.payload)
        packet = Packet(rtp.ssrc, rtp.sequence, rtp.timestamp, duration, rtp.payload, pausing)
        self._hand_on(self._buffer.put(packet, now))

    def tick(self, now: float, *, held_up: bool) -> None:
        """Time has passed. ``held_up``: the process did not run when it should have, so packets wait to be read."""
        if held_up:
            self._patient_until = now + _CATCH_UP_S
        if now >= self._patient_until:
            self._hand_on(self._buffer.advance(now))

    def sender_reported(self, info: SenderInfo, now: float) -> None:
        if self._statistics is not None and self._statistics.ssrc == info.ssrc:
            self._statistics.sender_reported(info, now)

    def report(self, now: float) -> ReceptionReport | None:
        return None if self._statistics is None else self._statistics.report(now)

    def _hand_on(self, stretches: Iterable[Stretch]) -> None:
        for stretch in stretches:
            samples = self._resampler.push(self._sound(stretch))
            self._heard(ReceivedSound(samples, self._position, stretch.payload is None))
            self._position += len(samples)

    def _sound(self, stretch: Stretch) -> Samples:
        """As long as the stretch, whatever the decoder makes of its payload."""
        if stretch.payload is None:
            return self._decoder.conceal(stretch.duration)
        decoded = self._decoder.decode(stretch.payload)
        if decoded is None:
            self.broken += stretch.duration
            return self._decoder.conceal(stretch.duration)
        sound = decoded[stretch.skip : stretch.skip + stretch.duration]
        missing = stretch.duration - len(sound)
        return np.concatenate([sound, self._decoder.conceal(missing)]) if missing else sound
