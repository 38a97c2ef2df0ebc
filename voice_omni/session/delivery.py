"""The answer's sound, from the pipeline's chunks to bytes in the client's format."""

from __future__ import annotations

from collections.abc import Iterator

from voice_omni.audio.g711 import encode_g711
from voice_omni.audio.pcm import Samples, encode_pcm16
from voice_omni.audio.resample import StreamResampler
from voice_omni.client.interface import AudioDelta
from voice_omni.realtime.input_audio import sample_rate_of
from voice_omni.realtime.settings import AudioFormat, Pcm, Pcma


class SpeechEncoder:
    """One answer's sound; the resampler's state lives as long as the answer."""

    def __init__(self, source_rate: int, audio_format: AudioFormat) -> None:
        self._format = audio_format
        self._resampler = StreamResampler(source_rate, sample_rate_of(audio_format))

    def push(self, samples: Samples) -> bytes:
        """float32 ``[samples]`` at the source rate."""
        return self._encode(self._resampler.push(samples))

    def flush(self) -> bytes:
        """What the resampler held back: the answer is over."""
        return self._encode(self._resampler.flush())

    def _encode(self, samples: Samples) -> bytes:
        if isinstance(self._format, Pcm):
            return encode_pcm16(samples)
        return encode_g711(samples, "alaw" if isinstance(self._format, Pcma) else "mulaw")


def split(delta: AudioDelta, longest: int) -> Iterator[AudioDelta]:
    """``delta`` in pieces of at most ``longest`` samples, each mark in the piece that it points into."""
    marks = list(delta.marks)
    for start in range(0, max(len(delta.samples), 1), longest):
        samples = delta.samples[start : start + longest]
        last = start + longest >= len(delta.samples)
        here = [mark for mark in marks if last or mark[0] < start + longest]
        marks = marks[len(here) :]
        yield AudioDelta(samples, tuple((offset - start, text) for offset, text in here))
