"""Speech through the codecs of a call: it arrives, losses are bridged, and silence is silent."""

from __future__ import annotations

import av
import numpy as np
import pytest
import soxr
from hypothesis import given
from hypothesis import strategies as st

from tests.support.speech import recordings
from voice_omni.audio.pcm import Samples
from voice_omni.transports.webrtc.codecs import (
    PLAY_FRAME,
    Decoder,
    OpusDecoder,
    OpusEncoder,
    make_decoder,
    make_encoder,
)
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE, Codec

CODECS: list[Codec] = ["opus", "PCMU", "PCMA"]


def speech(seconds: float = 3.0) -> Samples:
    return recordings()[0].samples(PLAY_RATE)[: int(seconds * 50) * PLAY_FRAME]


def encoded(codec: Codec, sound: Samples) -> list[bytes]:
    encoder = make_encoder(codec, 32_000, 1, 5)
    return [encoder.encode(sound[start : start + PLAY_FRAME]) for start in range(0, len(sound), PLAY_FRAME)]


def decoded(decoder: Decoder, payloads: list[bytes | None]) -> Samples:
    """None: lost."""
    frame = decoder.clock_rate // 50
    pieces = [decoder.conceal(frame) if payload is None else decoder.decode(payload) for payload in payloads]
    return np.concatenate([piece for piece in pieces if piece is not None])


def likeness(heard: Samples, sound: Samples, rate: int) -> float:
    """Correlation at the lag, up to 20 ms, at which it is greatest, of what telephone and wide band have in common."""
    heard = soxr.resample(heard, rate, 8000)
    sound = soxr.resample(sound, PLAY_RATE, 8000)
    return max(float(np.corrcoef(heard[lag:], sound[: len(sound) - lag])[0, 1]) for lag in range(0, 160))


@pytest.mark.parametrize("codec", CODECS)
def test_speech_arrives_as_it_was(codec: Codec) -> None:
    sound, decoder = speech(), make_decoder(codec)
    payloads = encoded(codec, sound)
    assert all(decoder.duration(payload) == decoder.clock_rate // 50 for payload in payloads)
    heard = decoded(decoder, list(payloads))
    assert len(heard) == len(sound) * decoder.clock_rate // PLAY_RATE
    assert likeness(heard, sound, decoder.clock_rate) > 0.9


@pytest.mark.parametrize("codec", CODECS)
def test_the_last_packet_of_silence_can_be_sent_again_and_again(codec: Codec) -> None:
    silence = np.zeros(3 * PLAY_FRAME, np.float32)
    payloads = encoded(codec, np.concatenate([speech(1.0), silence]))
    decoder = make_decoder(codec)
    decoded(decoder, list(payloads))
    heard = decoded(decoder, [payloads[-1]] * 500)
    assert np.abs(heard).max() < 0.001
    again = decoded(decoder, list(encoded(codec, speech(1.0))))
    assert likeness(again, speech(1.0), decoder.clock_rate) > 0.9


@pytest.mark.parametrize("codec", CODECS)
def test_a_lost_frame_is_bridged_with_something_like_it(codec: Codec) -> None:
    """Lost frames of voice have less in common with silence than with what is put in their place."""
    sound = speech()
    payloads = encoded(codec, sound)
    frame = make_decoder(codec).clock_rate // 50
    whole = decoded(make_decoder(codec), list(payloads))
    levels = [float(np.std(whole[index * frame : (index + 1) * frame])) for index in range(len(payloads))]
    voiced = [index for index in range(10, len(levels) - 1) if min(levels[index - 1 : index + 2]) > 0.5 * max(levels)]
    assert len(voiced) >= 5
    errors = []
    for index in voiced:
        with_loss: list[bytes | None] = list(payloads)
        with_loss[index] = None
        heard = decoded(make_decoder(codec), with_loss)
        lost = slice(index * frame, (index + 1) * frame)
        errors.append(float(np.std(heard[lost] - whole[lost])) / levels[index])
        assert len(heard) == len(whole)
    assert np.median(errors) < 0.9


@pytest.mark.parametrize("codec", CODECS)
def test_a_long_loss_fades_to_silence(codec: Codec) -> None:
    decoder = make_decoder(codec)
    decoded(decoder, list(encoded(codec, speech(1.0))))
    bridged = decoded(decoder, [None] * 20)
    assert len(bridged) == 20 * decoder.clock_rate // 50
    assert not bridged[len(bridged) // 2 :].any()


@pytest.mark.parametrize("count", [1, 100, 959, 961, 4000])
def test_any_number_of_samples_can_be_concealed(count: int) -> None:
    decoder = OpusDecoder()
    assert len(decoder.conceal(count)) == count
    decoded(decoder, list(encoded("opus", speech(0.2))))
    assert len(decoder.conceal(count)) == count


def test_redundancy_costs_bits_of_the_same_budget() -> None:
    """In-band FEC is set: the same sound is encoded otherwise, and the bitrate stays."""
    sound = speech()
    sizes = {}
    for percent in (0, 20):
        encoder = OpusEncoder(32_000, 1, percent)
        payloads = [encoder.encode(sound[start : start + PLAY_FRAME]) for start in range(0, len(sound), PLAY_FRAME)]
        sizes[percent] = sum(map(len, payloads)) * 8 / (len(sound) / PLAY_RATE)
    assert sizes[0] != sizes[20]
    assert all(20_000 < size < 36_000 for size in sizes.values())


@given(payload=st.binary(max_size=40))
def test_the_duration_of_any_payload_is_what_it_decodes_to_or_it_is_broken(payload: bytes) -> None:
    decoder = OpusDecoder()
    duration = decoder.duration(payload)
    assert 0 <= duration <= 5760
    if duration:
        sound = decoder.decode(payload)
        assert sound is None or len(sound) == duration


@pytest.mark.parametrize("milliseconds", ["2.5", "5", "10", "20", "40", "60"])
@pytest.mark.parametrize("application", ["voip", "audio", "lowdelay"])
def test_frames_of_all_lengths_and_modes_are_decoded_and_concealed(milliseconds: str, application: str) -> None:
    context = av.CodecContext.create("libopus", "w")
    assert isinstance(context, av.AudioCodecContext)
    context.format, context.layout, context.sample_rate = av.AudioFormat("s16"), "stereo", 48_000
    context.options = {"frame_duration": milliseconds, "application": application}
    decoder = OpusDecoder()
    context.open()
    count = context.frame_size
    for number in range(5):
        frame = av.AudioFrame("s16", "stereo", count)
        frame.sample_rate, frame.pts = 48_000, number * count
        frame.planes[0].update(np.full(2 * count, 1000, np.int16).tobytes())
        for packet in context.encode(frame):
            assert decoder.duration(bytes(packet)) == count
            sound = decoder.decode(bytes(packet))
            assert sound is not None
            assert len(sound) == count
    assert len(decoder.conceal(960)) == 960


def test_an_opus_packet_without_content_announces_a_pause() -> None:
    assert OpusDecoder().pausing(b"\x08")
    assert not OpusDecoder().pausing(encoded("opus", speech(0.2))[5])


def test_what_g711_pads_with_is_silence() -> None:
    for codec, byte in (("PCMU", 0xFF), ("PCMA", 0xD5)):
        assert set(encoded(codec, np.zeros(PLAY_FRAME, np.float32))[0]) <= {byte, byte ^ 0x80}
        assert np.abs(make_decoder(codec).decode(bytes([byte] * 160))).max() < 0.001
