"""The codecs of a call: Opus (RFC 6716, RFC 7587) and G.711 (RFC 3551), in frames of 20 ms."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Protocol

import av
import numpy as np

from voice_omni.audio.concealment import Concealer
from voice_omni.audio.g711 import Law, decode_g711, encode_g711
from voice_omni.audio.pcm import Samples, decode_pcm16, encode_pcm16
from voice_omni.audio.resample import StreamResampler
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE, Codec

FRAME_S: Final = 0.02
PLAY_FRAME: Final = PLAY_RATE // 50
"""Samples of one frame at the rate at which sound is played."""
_OPUS_CLOCK: Final = 48_000
_OPUS_FRAME: Final = _OPUS_CLOCK // 50
_OPUS_FADED: Final = 5 * _OPUS_FRAME
"""After this much of it Opus's concealment has faded away."""
_OPUS_MAX: Final = 120 * _OPUS_CLOCK // 1000
_G711_CLOCK: Final = 8_000


class Encoder(Protocol):
    clock_rate: int
    """Hz, of RTP timestamps."""
    frame: int
    """Units of that clock in one frame."""

    def encode(self, samples: Samples) -> bytes:
        """One frame: float32 ``[PLAY_FRAME]`` mono at ``PLAY_RATE``."""


class Decoder(Protocol):
    clock_rate: int
    """Hz, of RTP timestamps and of the sound."""

    def duration(self, payload: bytes) -> int:
        """Of the sound in a payload, in samples; 0 for a payload that cannot be valid."""

    def pausing(self, payload: bytes) -> bool:
        """Whether the sender says with it that silence follows, for which it sends little or nothing."""

    def decode(self, payload: bytes) -> Samples | None:
        """float32 mono; None for a payload that is broken after all."""

    def conceal(self, count: int) -> Samples:
        """``count`` samples in place of what is missing."""


def make_encoder(codec: Codec, bitrate: int, complexity: int, loss_percent: int) -> Encoder:
    """``bitrate`` (bits a second), ``complexity`` (0 to 10) and ``loss_percent`` (0: no redundancy) concern Opus."""
    if codec == "opus":
        return OpusEncoder(bitrate, complexity, loss_percent)
    return G711Encoder(_law(codec))


def make_decoder(codec: Codec) -> Decoder:
    return OpusDecoder() if codec == "opus" else G711Decoder(_law(codec))


class OpusEncoder:
    """Mono, for speech. The 24 kHz of the sound are all that it is given: a super-wideband stream."""

    clock_rate = _OPUS_CLOCK
    frame = _OPUS_FRAME

    def __init__(self, bitrate: int, complexity: int, loss_percent: int) -> None:
        context = av.CodecContext.create("libopus", "w")
        assert isinstance(context, av.AudioCodecContext)
        context.bit_rate = bitrate
        context.format = av.AudioFormat("s16")
        context.layout = "mono"
        context.sample_rate = PLAY_RATE
        context.time_base = Fraction(1, PLAY_RATE)
        context.options = {
            "application": "voip",
            "compression_level": str(complexity),
            "fec": "1" if loss_percent else "0",
            "packet_loss": str(loss_percent),
        }
        self._context = context
        self._position = 0

    def encode(self, samples: Samples) -> bytes:
        frame = av.AudioFrame("s16", "mono", PLAY_FRAME)
        frame.sample_rate = PLAY_RATE
        frame.pts = self._position
        frame.planes[0].update(encode_pcm16(samples))
        self._position += PLAY_FRAME
        (packet,) = self._context.encode(frame)
        return bytes(packet)


class OpusDecoder:
    """Decodes to 48 kHz mono. A loss is concealed by the decoder itself, from its state (RFC 6716, section 4.4)."""

    clock_rate = _OPUS_CLOCK

    def __init__(self) -> None:
        context = av.CodecContext.create("libopus", "r")
        assert isinstance(context, av.AudioCodecContext)
        context.format = av.AudioFormat("s16")
        context.layout = "mono"
        context.sample_rate = _OPUS_CLOCK
        self._context = context
        self._lost_frame: bytes | None = None
        self._concealed = 0

    def duration(self, payload: bytes) -> int:
        if not payload:
            return 0
        code = payload[0] & 3
        if code == 3 and len(payload) < 2:
            return 0
        frames = (1, 2, 2, payload[1] & 0x3F if code == 3 else 0)[code]
        duration = frames * _opus_frame(payload[0] >> 3)
        return duration if duration <= _OPUS_MAX else 0

    def pausing(self, payload: bytes) -> bool:
        return len(payload) <= 2

    def decode(self, payload: bytes) -> Samples | None:
        try:
            frames = self._context.decode(av.Packet(payload))
        except av.FFmpegError:
            return None
        self._lost_frame = _opus_lost_frame(payload[0])
        self._concealed = 0
        return np.concatenate([_samples(frame) for frame in frames]) if frames else None

    def conceal(self, count: int) -> Samples:
        pieces = []
        missing = count
        while missing > 0 and self._lost_frame is not None and self._concealed < _OPUS_FADED:
            (frame,) = self._context.decode(av.Packet(self._lost_frame))
            pieces.append(_samples(frame)[:missing])
            self._concealed += _OPUS_FRAME
            missing -= len(pieces[-1])
        return np.concatenate([*pieces, np.zeros(missing, np.float32)])


class G711Encoder:
    clock_rate = _G711_CLOCK
    frame = _G711_CLOCK // 50

    def __init__(self, law: Law) -> None:
        self._law = law
        self._resampler = StreamResampler(PLAY_RATE, _G711_CLOCK)
        self._resampler.push(np.zeros(PLAY_FRAME, np.float32))  # fills the filter: from now on a frame in, a frame out

    def encode(self, samples: Samples) -> bytes:
        return encode_g711(self._resampler.push(samples), self._law)


class G711Decoder:
    clock_rate = _G711_CLOCK

    def __init__(self, law: Law) -> None:
        self._law = law
        self._concealer = Concealer(_G711_CLOCK)

    def duration(self, payload: bytes) -> int:
        return len(payload)

    def pausing(self, payload: bytes) -> bool:
        return False

    def decode(self, payload: bytes) -> Samples:
        return self._concealer.received(decode_g711(payload, self._law))

    def conceal(self, count: int) -> Samples:
        return self._concealer.conceal(count)


def _law(codec: Codec) -> Law:
    return "mulaw" if codec == "PCMU" else "alaw"


def _samples(frame: av.AudioFrame) -> Samples:
    return decode_pcm16(bytes(frame.planes[0])[: 2 * frame.samples])  # a plane may be longer than its sound


def _opus_frame(configuration: int) -> int:
    """Samples of one frame (RFC 6716, table 2)."""
    if configuration < 12:
        return (480, 960, 1920, 2880)[configuration & 3]
    if configuration < 16:
        return (480, 960)[configuration & 1]
    return (120, 240, 480, 960)[configuration & 3]


def _opus_lost_frame(first: int) -> bytes:
    """A packet with one empty frame of 20 ms in the mode and bandwidth of the packet that begins with ``first``.

    A frame without data is how a stream says that a frame is missing, and makes the decoder conceal it (section 3.2.1).
    """
    configuration = first >> 3
    if configuration < 12:
        configuration = configuration & ~3 | 1
    elif configuration < 16:
        configuration |= 1
    else:
        configuration |= 3
    return bytes([configuration << 3 | first & 4])
