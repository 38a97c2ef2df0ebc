"""The bytes of ``input_audio_buffer.append``: base64 to samples, with a clock that counts them."""

from __future__ import annotations

import base64
import binascii

from voice_omni.audio.g711 import decode_g711
from voice_omni.audio.pcm import SampleAligner, Samples, decode_pcm16
from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.settings import AudioFormat, Pcm, Pcma

MIN_COMMIT_MS = 100
"""Less sound than this cannot be committed: the contract's limit."""
MAX_APPEND_CHARS = 20 * 1024 * 1024
"""The contract allows 15 MiB of audio in one append; base64 makes 20 of them."""


def sample_rate_of(audio_format: AudioFormat) -> int:
    """Hz."""
    return audio_format.rate if isinstance(audio_format, Pcm) else 8000


def decode_base64(audio: str, param: str = "audio") -> bytes:
    """Strict RFC 4648 section 4. Raises :class:`ProtocolError` ``invalid_value``."""
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("invalid_value", f"Invalid value for '{param}': not valid base64.", param) from None


def decode_samples(data: bytes, audio_format: AudioFormat) -> Samples:
    """Whole samples to float32 ``[samples]`` at the format's rate."""
    if isinstance(audio_format, Pcm):
        return decode_pcm16(data)
    return decode_g711(data, "alaw" if isinstance(audio_format, Pcma) else "mulaw")


def decode_whole(data: bytes, audio_format: AudioFormat) -> Samples:
    """As :func:`decode_samples`; half a sample at the end is dropped."""
    return decode_samples(data[: len(data) - len(data) % 2] if isinstance(audio_format, Pcm) else data, audio_format)


class InputAudio:
    """Turns appended bytes into samples, whatever their cuts, and knows how many have not been committed."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self.format = audio_format
        self._aligner = SampleAligner(2 if isinstance(audio_format, Pcm) else 1)
        self._uncommitted = 0.0

    def append(self, audio: str) -> Samples:
        """Base64. Raises :class:`ProtocolError` ``invalid_value`` and takes nothing."""
        if len(audio) > MAX_APPEND_CHARS:
            raise ProtocolError("invalid_value", "Invalid value for 'audio': larger than 15 MiB.", "audio")
        return self.append_bytes(decode_base64(audio))

    def append_bytes(self, data: bytes) -> Samples:
        """The next bytes as they are, cut anywhere."""
        samples = decode_samples(self._aligner.push(data), self.format)
        self._uncommitted += len(samples)
        return samples

    def count(self, samples: int, sample_rate: int) -> None:
        """Sound came that needs no decoding; ``sample_rate``: Hz."""
        self._uncommitted += samples * sample_rate_of(self.format) / sample_rate

    @property
    def uncommitted_ms(self) -> float:
        return self._uncommitted * 1000 / sample_rate_of(self.format)

    def too_much(self) -> ProtocolError:
        """What whoever sends more is told."""
        message = f"The input audio buffer holds {self.uncommitted_ms:.0f}ms of audio. Commit or clear it."
        return ProtocolError("input_audio_buffer_full", message)

    def continued(self, audio_format: AudioFormat) -> InputAudio:
        """The same buffer, filled in another format from now on; half a sample in the old one is lost."""
        following = InputAudio(audio_format)
        following._uncommitted = self._uncommitted * sample_rate_of(audio_format) // sample_rate_of(self.format)
        return following

    def committed(self) -> None:
        """The sound so far is a turn; half a sample that has arrived belongs to the next one."""
        self._uncommitted = 0.0

    def keep(self, milliseconds: int) -> None:
        """At most so much of the sound is left."""
        self._uncommitted = min(self._uncommitted, milliseconds * sample_rate_of(self.format) / 1000)

    def clear(self) -> None:
        self._uncommitted = 0.0
        self._aligner.reset()
