"""Media are decoded within bounds, and what cannot be decoded is the request's own error."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from PIL import Image

from tests.models.qwen3_omni.sounds import voice
from voice_omni.models.qwen3_omni.media import FilmSettings, MediaLimits, decode_film, decode_picture, decode_sound
from voice_omni.models.qwen3_omni.patches import PatchSettings
from voice_omni.proto.errors import OmniError

LIMITS = MediaLimits(max_bytes=2**21, max_pixels=100_000, max_seconds=20)
SMALL = PatchSettings(min_pixels=32 * 32, max_pixels=64 * 64)


def png(mode: str = "RGB", size: tuple[int, int] = (40, 30), **options: Any) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, **options).save(out, "png")
    return out.getvalue()


def film(seconds: float, *, fps: int = 10, sound: bool = True) -> bytes:
    """Frames whose red tells their number, perhaps with sound at 48 kHz in stereo."""
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as container:
        pictures = container.add_stream("ffv1", rate=fps, width=64, height=48, pix_fmt="bgr0")
        heard = container.add_stream("pcm_s16le", rate=48_000, layout="stereo") if sound else None
        for index in range(round(seconds * fps)):
            pixels = np.zeros((48, 64, 3), np.uint8)
            pixels[..., 0] = index
            container.mux(pictures.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(pictures.encode())
        if heard is not None:
            tone = (np.sin(np.arange(round(48_000 * seconds)) * 0.05) * 8000).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(np.repeat(tone, 2)[None], format="s16", layout="stereo")
            frame.sample_rate = 48_000
            container.mux(heard.encode(frame))
            container.mux(heard.encode())
    return out.getvalue()


def wav(samples: np.ndarray, rate: int) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format="WAV", subtype="FLOAT")
    return out.getvalue()


def uri(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1"])
def test_pictures_of_all_kinds_are_rgb(mode: str) -> None:
    picture = decode_picture(uri(png(mode)), LIMITS)
    assert (picture.mode, picture.size) == ("RGB", (40, 30))
    assert decode_picture(png(mode), LIMITS).size == (40, 30)


def test_a_photograph_stands_upright() -> None:
    out = io.BytesIO()
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (40, 30)).save(out, "jpeg", exif=turned)
    assert decode_picture(out.getvalue(), LIMITS).size == (30, 40)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("https://example.com/a.png", "is no data URI"),
        ("data:image/png,abc", "is no data URI"),
        ("data:image/png;base64,***", "is not in base64"),
        (b"no picture", "cannot be decoded"),
        (png()[:60], "cannot be decoded"),
        (png(size=(400, 300)), "400 x 300 pixels"),
        (b"\0" * (2**21 + 1), "2097153 bytes"),
    ],
)
def test_what_is_no_picture_is_refused(source: str | bytes, why: str) -> None:
    with pytest.raises(OmniError, match=why) as caught:
        decode_picture(source, LIMITS)
    assert (caught.value.code, caught.value.info.param) == ("invalid_value", "images")


def test_frames_are_those_shown_at_even_times() -> None:
    decoded = decode_film(film(3.0), FilmSettings(fps=2, patches=SMALL), LIMITS)
    assert decoded.grid_seconds == 1.0
    assert [np.asarray(frame)[0, 0, 0] for frame in decoded.frames] == [0, 5, 10, 15, 20, 25]
    assert {frame.size for frame in decoded.frames} == {(64, 64)}


def test_a_long_film_gives_fewer_frames_of_each_second() -> None:
    decoded = decode_film(film(8.0), FilmSettings(fps=2, max_frames=4, patches=SMALL), LIMITS)
    assert decoded.grid_seconds == pytest.approx(4.0)
    assert [np.asarray(frame)[0, 0, 0] for frame in decoded.frames] == [0, 20, 40, 60]


def test_a_film_brings_its_sound() -> None:
    sound = decode_film(film(3.0), FilmSettings(patches=SMALL), LIMITS).sound
    assert sound is not None
    assert (sound.dtype, len(sound)) == (np.float32, 48_000)
    assert np.abs(sound[1000:-1000]).max() == pytest.approx(8000 / 2**15, rel=0.02)
    assert decode_film(film(1.0, sound=False), FilmSettings(patches=SMALL), LIMITS).sound is None


def test_a_recording_is_brought_to_16_khz() -> None:
    sound = voice(16_000)
    np.testing.assert_allclose(decode_sound(wav(sound, 16_000), LIMITS), sound, atol=1e-6)
    assert abs(len(decode_sound(uri(wav(sound, 8_000), "audio/wav"), LIMITS)) - 32_000) < 50


@pytest.mark.parametrize(
    ("decode", "source", "why", "param"),
    [
        (lambda data: decode_film(data, FilmSettings(), LIMITS), b"no film", "cannot be decoded", "videos"),
        (lambda data: decode_film(data, FilmSettings(), LIMITS), wav(voice(9000), 16_000), "no pictures", "videos"),
        (lambda data: decode_sound(data, LIMITS), b"no sound", "cannot be decoded", "audios"),
        (lambda data: decode_sound(data, LIMITS), film(0.5, sound=False), "has no sound", "audios"),
        (lambda data: decode_sound(data, MediaLimits(max_seconds=1)), wav(voice(16_100), 16_000), "longer", "audios"),
        (lambda data: decode_film(data, FilmSettings(), MediaLimits(max_seconds=1)), film(1.5), "longer", "videos"),
        (lambda data: decode_film(data, FilmSettings(), MediaLimits(max_pixels=99)), film(0.5), "64 x 48", "videos"),
    ],
)
def test_what_is_no_film_or_sound_is_refused(
    decode: Callable[[bytes], object], source: bytes, why: str, param: str
) -> None:
    with pytest.raises(OmniError, match=why) as caught:
        decode(source)
    assert (caught.value.code, caught.value.info.param) == ("invalid_value", param)
