"""Where ``talk`` takes the person's sound from: a recording, standard input or a microphone."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from voice_omni.audio.pcm import Samples, decode_pcm16
from voice_omni.cli.realtime_client import RATE
from voice_omni.proto.errors import OmniError

FRAME: Final = RATE // 50
"""Samples of one frame: 20 ms."""

_HELD: Final = 100
"""Microphone frames that may wait for the network: two seconds."""


def demo_recording() -> Path:
    """The recording that the package brings along: "What is the capital of France?"."""
    return Path(__file__).with_name("data") / "question-01.flac"


def read_recording(source: str) -> Samples:
    """A whole recording as float32 ``[samples]``, mono, 24 kHz.

    ``source``: a file in any format that libsndfile reads, or ``-`` for standard input, which is a WAV file or raw
    16-bit little-endian mono PCM at 24 kHz. Raises :class:`OmniError` ``invalid_value``.
    """
    import soundfile
    import soxr

    data: Any = source
    if source == "-":
        content = sys.stdin.buffer.read()
        if content[:4] != b"RIFF":
            return decode_pcm16(content[: len(content) // 2 * 2])
        data = io.BytesIO(content)
    elif not Path(source).is_file():
        raise OmniError("invalid_value", f"there is no recording {source}", param="SOURCE")
    try:
        samples, rate = soundfile.read(data, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise OmniError(
            "invalid_value", f"cannot read {source} as sound: {error.error_string}", param="SOURCE"
        ) from error
    mono: Samples = samples.mean(axis=1)
    return mono if rate == RATE else np.asarray(soxr.resample(mono, rate, RATE), np.float32)


async def play_recording(samples: Samples, ended: asyncio.Event) -> AsyncIterator[Samples]:
    """The recording in frames of 20 ms, each at the moment when its last sample would have been spoken.

    Silence follows without end, as from a microphone; ``ended`` is set when it begins.
    """
    clock = asyncio.get_running_loop().time
    start = clock()
    whole = np.pad(samples, (0, -len(samples) % FRAME))
    silence = np.zeros(FRAME, np.float32)
    number = 0
    while True:
        frame = whole[number * FRAME : (number + 1) * FRAME]
        if not len(frame):
            ended.set()
            frame = silence
        number += 1
        # Deadlines counted from the start: sleeping 20 ms each time would add up what every sleep is late.
        await asyncio.sleep(start + number * FRAME / RATE - clock())
        yield frame


async def record_microphone() -> AsyncIterator[Samples]:
    """Frames of 20 ms from the default microphone. Raises :class:`OmniError` ``no_sound_device``."""
    sounddevice = sound_library()
    loop = asyncio.get_running_loop()
    frames: asyncio.Queue[Samples] = asyncio.Queue(_HELD)

    def keep(frame: Samples) -> None:
        if frames.full():
            frames.get_nowait()  # the network is stuck: what is oldest is worth least
        frames.put_nowait(frame)

    def heard(block: Any, _frames: int, _time: Any, _status: Any) -> None:
        loop.call_soon_threadsafe(keep, block[:, 0].copy())

    try:
        stream = sounddevice.InputStream(RATE, FRAME, channels=1, dtype="float32", callback=heard)
    except sounddevice.PortAudioError as error:
        raise OmniError("no_sound_device", f"cannot open a microphone: {error}") from error
    with stream:
        while True:
            yield await frames.get()


def sound_library() -> Any:
    """The optional ``sounddevice``. Raises :class:`OmniError` ``no_sound_device`` that says how to get it."""
    try:
        import sounddevice
    except ImportError as error:
        raise OmniError(
            "no_sound_device", "the microphone needs the extra 'mic': pip install 'voice-omni[mic]'"
        ) from error
    except OSError as error:  # the Python package is there and the PortAudio library is not
        raise OmniError("no_sound_device", f"{error}; on Debian: apt install libportaudio2") from error
    return sounddevice
