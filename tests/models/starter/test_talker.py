"""Text in pieces to latent frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.starter.speaking import marks_of, payload, talk
from voice_omni.model_runner.interface import Chunk, Work
from voice_omni.models.starter.options import TalkerOptions
from voice_omni.models.starter.talker import PIECE_FRAMES, TalkerRunner, build
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data

TEXT = "Hello there, it costs $3.50 (e.g. for Dr. Smith). 😀 **Good!** Is that all?\n\n- Yes, it is.\n"


@pytest.fixture(scope="module")
def talker() -> TalkerRunner:
    return build(StageContext("talker", TalkerOptions(), "cpu", 1))


@pytest.fixture(scope="module")
def reference(talker: TalkerRunner) -> list[Data]:
    return talk(talker, [TEXT])[0]


def same(some: list[Data], others: list[Data]) -> bool:
    return len(some) == len(others) and all(
        np.array_equal(one["latents"], other["latents"]) and {**one, "latents": None} == {**other, "latents": None}
        for one, other in zip(some, others, strict=True)
    )


@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=30).map(sorted))
def test_any_cut_of_the_text_gives_the_same_frames(
    cuts: list[int], talker: TalkerRunner, reference: list[Data]
) -> None:
    pieces = [TEXT[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(TEXT)], strict=True)]
    emitted, result = talk(talker, pieces)
    assert same(emitted, reference)
    assert result == {"text": TEXT}


def test_a_text_given_whole_in_the_request_gives_the_same_frames(talker: TalkerRunner, reference: list[Data]) -> None:
    state = talker.open(payload(TEXT))
    emitted: list[Data] = []
    result = None
    while result is None:
        (outcome,) = talker.run([Work("r", state, [], True)])
        emitted += [emit.data for emit in outcome.emits]
        result = outcome.result
    assert same(emitted, reference)
    assert result == {"text": TEXT}


def test_the_marks_carry_the_whole_text(reference: list[Data]) -> None:
    assert marks_of(reference) == TEXT
    assert [text for chunk in reference for _, text in chunk["marks"]][:4] == ["Hello ", "there, ", "it ", "costs "]


def test_chunks_are_small_and_well_formed(reference: list[Data]) -> None:
    for chunk in reference:
        frames, channels = chunk["latents"].shape
        assert frames <= PIECE_FRAMES
        assert channels == 192
        assert chunk["latents"].dtype == np.float32
        assert chunk["pause"] == 0 or chunk["end"]
        assert all(0 <= offset < max(frames, 1) for offset, _ in chunk["marks"])
    assert reference[-1]["end"]


def test_one_call_speaks_one_clause(talker: TalkerRunner) -> None:
    state = talker.open(payload("One is here. Two is here. Three is here."))
    spoken = []
    while True:
        (outcome,) = talker.run([Work("r", state, [], True)])
        if outcome.result is not None:
            break
        assert outcome.more
        spoken.append(marks_of(emit.data for emit in outcome.emits))
        assert [emit.data["end"] for emit in outcome.emits].count(True) == 1
    assert spoken == ["One is here. ", "Two is here. ", "Three is here."]


def test_a_clause_is_spoken_before_the_text_has_ended(talker: TalkerRunner) -> None:
    state = talker.open(payload())
    (outcome,) = talker.run([Work("r", state, [Chunk("thinker", {"text": "Hello. H"})], False)])
    assert marks_of(emit.data for emit in outcome.emits) == "Hello. "
    (outcome,) = talker.run([Work("r", state, [], False)])
    assert not outcome.emits
    assert not outcome.more
    assert outcome.result is None


def test_sentences_and_paragraphs_are_followed_by_silence(talker: TalkerRunner) -> None:
    chunks, _ = talk(talker, ["It rained. It poured.\n\nIt stopped."])
    sentence, paragraph, end = [chunk["pause"] for chunk in chunks if chunk["end"]]
    assert 0 == end < sentence < paragraph
    assert sentence % 256 == 0
    fast, _ = talk(talker, ["It rained. It poured."], speed=2.0)
    assert next(chunk["pause"] for chunk in fast if chunk["end"]) < sentence


@pytest.mark.parametrize("text", ["😀", " \n ", "---\n", "**"])
def test_what_cannot_be_said_still_passes(text: str, talker: TalkerRunner) -> None:
    chunks, result = talk(talker, [text])
    assert marks_of(chunks) == text
    assert all(len(chunk["latents"]) == 0 and chunk["end"] and chunk["pause"] > 0 for chunk in chunks)
    assert result == {"text": text}


def test_no_text_is_no_chunks(talker: TalkerRunner) -> None:
    assert talk(talker, []) == ([], {"text": ""})


def frames_of(chunks: list[Data]) -> int:
    return sum(len(chunk["latents"]) for chunk in chunks)


def test_a_request_chooses_speed_and_seed(talker: TalkerRunner) -> None:
    usual, _ = talk(talker, ["How are you today?"])
    fast, _ = talk(talker, ["How are you today?"], speed=2)
    other, _ = talk(talker, ["How are you today?"], seed=7)
    assert frames_of(fast) < 0.75 * frames_of(usual)
    assert not same(usual, other)
    assert same(other, talk(talker, ["How are you today?"], seed=7)[0])


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("speed", 0),
        ("speed", 9.5),
        ("speed", "fast"),
        ("speed", True),
        ("seed", -1),
        ("seed", 1.5),
        ("voice", "marvin"),
    ],
)
def test_a_wrong_parameter_is_named(param: str, value: object, talker: TalkerRunner) -> None:
    with pytest.raises(OmniError) as failure:
        talker.open(payload("Hello.", **{param: value}))
    assert failure.value.info.code == "invalid_value"
    assert failure.value.info.param == param
