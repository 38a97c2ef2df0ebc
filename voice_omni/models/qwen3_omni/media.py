"""Pictures, films and sounds as clients send them, to arrays: decoding with bounds on everything.

What comes in is a data URI (https://www.rfc-editor.org/rfc/rfc2397) or bytes; nothing is fetched from elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import av
import numpy as np
from av.container import InputContainer
from numpy.typing import NDArray
from PIL import Image, ImageOps

from voice_omni.models.qwen3_omni.mel import SAMPLE_RATE
from voice_omni.models.qwen3_omni.patches import PatchSettings, fitted_size
from voice_omni.proto.errors import OmniError

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """What is refused: encoded bytes, a picture's pixels before resizing, seconds of sound or film."""

    max_bytes: int = 32 * 2**20
    max_pixels: int = 64_000_000
    max_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class FilmSettings:
    """``fps``: frames taken of each second; of a film longer than ``max_frames`` at this rate, fewer.

    ``patches`` says how large the frames are then: by default 128 to 768 rows for a pair of frames.
    """

    fps: float = 2.0
    max_frames: int = 128
    patches: PatchSettings = field(
        default_factory=lambda: PatchSettings(min_pixels=128 * 32 * 32, max_pixels=768 * 32 * 32)
    )


@dataclass(frozen=True, slots=True, eq=False)
class DecodedFilm:
    """``frames``: RGB, resized. ``grid_seconds``: how long a grid, a pair of frames, lasts. ``sound``: float32 ``[n]``
    at 16 kHz, None for a silent film."""

    frames: list[Image.Image]
    grid_seconds: float
    sound: Samples | None


_PARAMS: Final = {"image": "images", "video": "videos", "audio": "audios"}


def decode_picture(source: str | bytes, limits: MediaLimits) -> Image.Image:
    """A picture, RGB and upright. Raises :class:`OmniError` ``invalid_value``, ``param`` ``images``."""
    data = _bytes(source, "image", limits)
    try:
        with Image.open(io.BytesIO(data)) as picture:
            if picture.width * picture.height > limits.max_pixels:
                raise _invalid("image", f"has {picture.width} x {picture.height} pixels: too many")
            return ImageOps.exif_transpose(picture).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _invalid("image", f"cannot be decoded: {error}") from error


def decode_sound(source: str | bytes, limits: MediaLimits) -> Samples:
    """A recording in any container, float32 ``[n]`` mono at 16 kHz. Raises ``invalid_value``, ``param`` ``audios``."""
    with _container(source, "audio", limits) as container:
        try:
            sound = _sound(container, "audio", limits)
        except av.FFmpegError as error:
            raise _invalid("audio", f"cannot be decoded: {error}") from error
    if sound is None:
        raise _invalid("audio", "has no sound")
    return sound


def decode_film(source: str | bytes, settings: FilmSettings, limits: MediaLimits) -> DecodedFilm:
    """A film's frames, each the one shown at multiples of 1 / fps, and its sound.

    Raises :class:`OmniError` ``invalid_value``, ``param`` ``videos``.
    """
    try:
        with _container(source, "video", limits) as container:
            sound = _sound(container, "video", limits)
        with _container(source, "video", limits) as container:
            frames, fps = _sampled(container, settings, limits)
    except av.FFmpegError as error:
        raise _invalid("video", f"cannot be decoded: {error}") from error
    return DecodedFilm(frames, settings.patches.temporal_patch_size / fps, sound)


def _sampled(container: InputContainer, settings: FilmSettings, limits: MediaLimits) -> tuple[list[Image.Image], float]:
    """Frames shown at k / fps for k = 0, 1, ... up to the film's end, and fps."""
    if not container.streams.video:
        raise _invalid("video", "has no pictures")
    seconds = _duration(container)
    if seconds > limits.max_seconds:
        raise _invalid("video", f"is longer than {limits.max_seconds:g} seconds")
    fps = settings.fps if seconds * settings.fps <= settings.max_frames else settings.max_frames / seconds
    frames: list[Image.Image] = []
    shown: av.VideoFrame | None = None
    for time, frame in _timed(container, limits):
        while shown is not None and len(frames) / fps < time and len(frames) < settings.max_frames:
            frames.append(_image(shown, settings.patches))
        shown = frame
    if shown is None:
        raise _invalid("video", "has no pictures")
    while len(frames) < min(settings.max_frames, max(1, round(seconds * fps))):
        frames.append(_image(shown, settings.patches))
    return frames, fps


def _image(frame: av.VideoFrame, settings: PatchSettings) -> Image.Image:
    height, width = fitted_size(frame.height, frame.width, settings)
    image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
    return image.resize((width, height), Image.Resampling.BICUBIC)


def _timed(container: InputContainer, limits: MediaLimits) -> Iterator[tuple[float, av.VideoFrame]]:
    """Each frame with its time in seconds from the first."""
    start: float | None = None
    for frame in container.decode(video=0):
        if frame.width * frame.height > limits.max_pixels:
            raise _invalid("video", f"has {frame.width} x {frame.height} pixels: too many")
        time = float(frame.time or 0.0)
        start = time if start is None else start
        if time - start > limits.max_seconds:
            raise _invalid("video", f"is longer than {limits.max_seconds:g} seconds")
        yield time - start, frame


def _duration(container: InputContainer) -> float:
    stream = container.streams.video[0]
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return float(Fraction(container.duration or 0, av.time_base))


def _sound(container: InputContainer, kind: str, limits: MediaLimits) -> Samples | None:
    if not container.streams.audio:
        return None
    # Channels are averaged here: the resampler's own mixture makes a mono recording in stereo louder, and may clip.
    resampler = av.AudioResampler(format="fltp", rate=SAMPLE_RATE)
    parts: list[Samples] = []
    left = int(limits.max_seconds * SAMPLE_RATE)
    for frame in (*container.decode(audio=0), None):
        for resampled in resampler.resample(frame):
            part = np.asarray(resampled.to_ndarray().mean(axis=0), np.float32)
            left -= len(part)
            if left < 0:
                raise _invalid(kind, f"is longer than {limits.max_seconds:g} seconds")
            parts.append(part)
    return np.concatenate(parts) if parts else None


def _container(source: str | bytes, kind: str, limits: MediaLimits) -> InputContainer:
    try:
        return av.open(io.BytesIO(_bytes(source, kind, limits)), mode="r")
    except av.FFmpegError as error:
        raise _invalid(kind, f"cannot be decoded: {error}") from error


def _bytes(source: str | bytes, kind: str, limits: MediaLimits) -> bytes:
    if isinstance(source, str):
        head, comma, body = source.partition(",")
        if not (head.startswith("data:") and head.endswith(";base64") and comma):
            raise _invalid(kind, "is no data URI in base64")
        try:
            source = base64.b64decode(body, validate=True)
        except binascii.Error as error:
            raise _invalid(kind, f"is not in base64: {error}") from error
    if len(source) > limits.max_bytes:
        raise _invalid(kind, f"has {len(source)} bytes, allowed are {limits.max_bytes}")
    return source


def _invalid(kind: str, what: str) -> OmniError:
    return OmniError("invalid_value", f"the {kind} {what}", param=_PARAMS[kind])
