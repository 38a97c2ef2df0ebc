"""Appended bytes: base64, sample borders, formats."""

from __future__ import annotations

import base64
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.input_audio import InputAudio
from voice_omni.realtime.settings import Pcm, Pcmu


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@settings(deadline=None)
@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=20))
def test_samples_do_not_depend_on_how_the_bytes_were_cut(data: bytes, cuts: list[int]) -> None:
    whole, pieces = InputAudio(Pcm()), InputAudio(Pcm())
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    cut = [pieces.append(_b64(data[start:end])) for start, end in itertools.pairwise(borders)]
    assert np.array_equal(np.concatenate(cut), whole.append(_b64(data)))
    assert pieces.uncommitted_ms == whole.uncommitted_ms


def test_empty_appends_are_nothing() -> None:
    audio = InputAudio(Pcm())
    for _ in range(3):
        assert len(audio.append("")) == 0
    assert audio.uncommitted_ms == 0


@pytest.mark.parametrize("bad", ["@@@", "QUJ", "QUI", "-_-_", "data:audio/wav;base64,QUJD", "QU JD", "QUJD\n", "é"])
def test_what_is_not_base64_is_refused_and_takes_nothing(bad: str) -> None:
    audio = InputAudio(Pcm())
    audio.append(_b64(b"\x01\x02\x03"))
    with pytest.raises(ProtocolError) as caught:
        audio.append(bad)
    assert (caught.value.code, caught.value.param) == ("invalid_value", "audio")
    assert audio.append(_b64(b"\x04")).tolist() == [0x0403 / 32768]


def test_more_than_the_contract_allows_is_refused() -> None:
    with pytest.raises(ProtocolError):
        InputAudio(Pcm()).append("A" * (20 * 1024 * 1024 + 4))


def test_time_is_counted_in_samples_of_the_format() -> None:
    pcm, mulaw = InputAudio(Pcm()), InputAudio(Pcmu())
    pcm.append(_b64(bytes(4800)))
    mulaw.append(_b64(b"\xff" * 800))
    assert pcm.uncommitted_ms == mulaw.uncommitted_ms == 100
