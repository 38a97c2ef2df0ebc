"""The whole pipeline against the published implementation: what is asked goes in, text and sound come out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from tests.models.qwen3_omni.generating import LIMITS, World, ending, written
from tests.models.qwen3_omni.oracle import Answer
from tests.models.qwen3_omni.sounds import voice
from tests.models.qwen3_omni.talking import (
    STAGES,
    Asker,
    Question,
    Said,
    ask,
    collect,
    edited,
    launched,
    observed,
    settings,
    waveform,
)
from tests.models.qwen3_omni.test_media import film, png, uri, wav
from voice_omni.config.settings import ProcessSettings
from voice_omni.models.qwen3_omni.pipeline import PIPELINE
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.pipeline.topology import find_faults
from voice_omni.proto.payload import OmniRequest


def user(text: str, **media: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **media}


def seconds(count: float) -> np.ndarray:
    return voice(round(count * 16_000))


ANSWERED = {"role": "assistant", "content": "Yes, what is it?"}

QUESTIONS: dict[str, Callable[[], Question]] = {
    "text": lambda: Question([user("Hello there")]),
    "0.6 s of sound": lambda: Question(sound=seconds(0.6)),
    "1 s of sound": lambda: Question(sound=seconds(1)),
    "2.37 s of sound": lambda: Question(sound=seconds(2.37)),
    "9.4 s of sound": lambda: Question(sound=seconds(9.4)),
    "a picture": lambda: Question([user("What is this?", images=[uri(png(size=(96, 64), color=(200, 10, 90)))])]),
    "a picture, and a question about it": lambda: Question(
        [user("", images=[uri(png(size=(64, 96), color=(0, 120, 90)))])], seconds(1.3)
    ),
    "a film with its sound": lambda: Question([user("What happens?", videos=[uri(film(2.4), "video/x-matroska")])]),
    "a silent film": lambda: Question([user("And here?", videos=[uri(film(1.2, sound=False), "video/x-matroska")])]),
    "two turns around an answer": lambda: Question([user("Hello there"), ANSWERED, user("And now?")]),
    "two turns of sound around an answer": lambda: Question(
        [user("", audios=[uri(wav(seconds(1.7), 16_000), "audio/wav")]), ANSWERED], voice(20_000, start=90_000)
    ),
    "sound, and a message behind it": lambda: Question([user("Hello")], seconds(1.5), [user("I mean this one")]),
}

EXACT = {"audio_encoder": {"window_s": 0}}
"""The windows of the checkpoint: what the published implementation computes offline."""


@pytest.fixture(scope="module")
def asker(tiny: Path, world: World) -> Asker:
    return Asker(tiny, world.config)


@pytest.fixture(scope="module")
def theirs(world: World, asker: Asker) -> Callable[..., Answer]:
    known: dict[tuple[str, int], Answer] = {}

    def answer(name: str, window: int = 800) -> Answer:
        key = (name, window)
        if key not in known:
            tower = world.oracle.model.thinker.model.audio_tower
            before, tower.n_window_infer = tower.n_window_infer, window
            try:
                known[key] = world.oracle.answer(asker.case(QUESTIONS[name]()), **LIMITS)
            finally:
                tower.n_window_infer = before
        return known[key]

    return answer


async def one(model: Path, run_base: Path, question: Question, options: Any = EXACT, **how: Any) -> Any:
    """One request alone: what was said, its tokens and its frames."""
    with observed() as (tokens, frames):
        async with launched(settings(model, options), run_base) as pipeline:
            said = await ask(pipeline, question, **how)
        return said, tokens["r"], frames["r"]


def check(said: Said, tokens: list[int], frames: list[list[int]], theirs: Answer, published: Any) -> None:
    assert tokens == theirs.tokens
    assert frames == theirs.frames
    if theirs.frames:
        assert distance(said.samples, waveform(published, theirs.frames)) <= TOLERANCE
    else:
        assert len(said.samples) == 0
    assert said.results["decode"]["usage"]["output_tokens"] == len(tokens)
    assert said.results["code2wav"] == {"samples": len(said.samples)}


def test_the_declaration_is_valid_and_every_route_has_a_client_to_answer() -> None:
    assert find_faults(PIPELINE) == []
    assert set(PIPELINE.routes) == {"speech", "text", "speech_text", "text_text", "speak", "transcribe"}


@pytest.mark.parametrize("name", QUESTIONS)
async def test_text_codes_and_sound_are_those_of_the_oracle(
    tiny: Path, tmp_path: Path, theirs: Callable[..., Answer], published: Any, name: str
) -> None:
    said, tokens, frames = await one(tiny, tmp_path, QUESTIONS[name]())
    check(said, tokens, frames, theirs(name), published)
    assert said.results["decode"]["finish_reason"] == "length"


@pytest.mark.parametrize("window_s", [1, 2])
async def test_shorter_windows_are_those_of_an_oracle_with_such_windows(
    tiny: Path, tmp_path: Path, theirs: Callable[..., Answer], published: Any, window_s: int
) -> None:
    name = "9.4 s of sound"
    said, tokens, frames = await one(
        tiny, tmp_path, QUESTIONS[name](), {"audio_encoder": {"window_s": window_s}}, cuts=range(800, 150_400, 800)
    )
    check(said, tokens, frames, theirs(name, 100 * window_s), published)


async def test_an_answer_of_one_token_is_spoken(
    tiny: Path, tmp_path: Path, world: World, asker: Asker, theirs: Callable[..., Answer], published: Any
) -> None:
    """The thinker's head is changed so that the answer ends at its second step, in both."""
    question, free = QUESTIONS["2.37 s of sound"](), theirs("2.37 s of sound")
    end, head = world.config.im_end_token_id, world.oracle.model.thinker.lm_head.weight
    with ending(free.thinker_last[:2], head, token=end):
        model = edited(tiny, tmp_path / "model", {"thinker.lm_head.weight": (end, head[end].detach().clone())})
        ended = world.oracle.answer(asker.case(question), **LIMITS)
    said, tokens, frames = await one(model, tmp_path, question)
    assert tokens == ended.tokens == free.tokens[:1]
    assert frames == ended.frames
    assert len(frames) > 4
    assert said.results["decode"]["finish_reason"] == "stop"
    assert distance(said.samples, waveform(published, frames)) <= TOLERANCE


@pytest.mark.parametrize("count", [0, 3])
async def test_speech_ends_before_the_frame_whose_first_code_ends_it(
    tiny: Path, tmp_path: Path, world: World, theirs: Callable[..., Answer], published: Any, count: int
) -> None:
    """At once, or after a few frames."""
    question, free = QUESTIONS["text"](), theirs("text")
    end, head = world.speech.codec_eos_token_id, world.oracle.model.talker.codec_head.weight
    with ending(free.talker_last[: count + 1], head, token=end):
        model = edited(tiny, tmp_path / "model", {"talker.codec_head.weight": (end, head[end].detach().clone())})
    said, tokens, frames = await one(model, tmp_path, question)
    assert tokens == free.tokens
    assert frames == free.frames[:count]
    assert len(said.samples) == max(0, 1920 * count - 555)
    if count:
        assert distance(said.samples, waveform(published, frames)) <= TOLERANCE


async def test_an_answer_of_no_token_is_silent(
    tiny: Path, tmp_path: Path, world: World, theirs: Callable[..., Answer]
) -> None:
    question, free = QUESTIONS["text"](), theirs("text")
    end, head = world.config.im_end_token_id, world.oracle.model.thinker.lm_head.weight
    with ending(free.thinker_last[:1], head, token=end):
        model = edited(tiny, tmp_path / "model", {"thinker.lm_head.weight": (end, head[end].detach().clone())})
    said, tokens, frames = await one(model, tmp_path, question)
    assert (said.text, tokens, frames, len(said.samples)) == ("", [], [], 0)
    assert said.results["decode"]["finish_reason"] == "stop"


async def test_lengths_are_limited_as_the_request_says(
    tiny: Path, tmp_path: Path, world: World, asker: Asker, published: Any
) -> None:
    question = replace(QUESTIONS["text"](), params={"max_output_tokens": 5})
    theirs = world.oracle.answer(asker.case(question), thinker_max_new_tokens=5, talker_max_new_tokens=8)
    said, tokens, frames = await one(tiny, tmp_path, question, {"talker": {"max_new_tokens": 8}})
    check(said, tokens, frames, theirs, published)
    assert (len(tokens), len(frames)) == (5, 7)
    assert said.results["decode"]["finish_reason"] == "length"


async def test_more_than_300_frames_are_those_of_one_decode(
    talkative: Path, tmp_path: Path, world: World, asker: Asker, published: Any
) -> None:
    """The published chunked decoding loses samples at every border of its chunks; the whole one does not."""
    question = QUESTIONS["text"]()
    end, head = world.speech.codec_eos_token_id, world.oracle.model.talker.codec_head.weight
    with written(torch.zeros(head.shape[1]), head, token=end):
        theirs = world.oracle.answer(asker.case(question), thinker_max_new_tokens=12, talker_max_new_tokens=303)
    said, _, frames = await one(talkative, tmp_path, question, {"talker": {"max_new_tokens": 303}})
    assert frames == theirs.frames
    assert len(said.samples) == 302 * 1920 - 555
    assert distance(said.samples, waveform(published, frames)) <= TOLERANCE


async def test_every_voice_is_the_oracles(tiny: Path, tmp_path: Path, world: World, asker: Asker) -> None:
    question = QUESTIONS["text"]()
    with observed() as (_, frames):
        async with launched(settings(tiny, EXACT), tmp_path) as pipeline:
            for name in PIPELINE.voices:
                await ask(pipeline, replace(question, params={"voice": name}), name)
    for name in PIPELINE.voices:
        theirs = world.oracle.answer(asker.case(question), speaker=name.title(), **LIMITS)
        assert frames[name] == theirs.frames


async def test_the_text_routes_write_what_the_spoken_ones_say(tiny: Path, tmp_path: Path) -> None:
    written_down = {"text": "text_text", "2.37 s of sound": "speech_text"}
    async with launched(settings(tiny, EXACT), tmp_path) as pipeline:
        for name, route in written_down.items():
            spoken = await ask(pipeline, QUESTIONS[name](), f"{name} spoken")
            silent = await ask(pipeline, QUESTIONS[name](), f"{name} written", route=route)
            assert (silent.text, silent.pieces) == (spoken.text, [])
            assert silent.results["decode"] == spoken.results["decode"]


async def test_a_transcript_grows_and_is_final_once(tiny: Path, tmp_path: Path) -> None:
    async with launched(settings(tiny, EXACT), tmp_path) as pipeline:
        said = await ask(pipeline, Question(sound=seconds(1.2)), route="transcribe")
    assert said.text == ""
    assert [heard["final"] for heard in said.transcripts].count(True) == 1
    assert said.transcripts[-1] == {"transcript": said.results["decode"]["transcript"].strip(), "final": True}


async def test_a_text_is_spoken_as_the_oracle_speaks_an_answer_with_it(
    tiny: Path, tmp_path: Path, world: World, asker: Asker, published: Any
) -> None:
    """The published talker, given the same turn of the person and the same text of an answer."""
    tokenizer = Tokenizer.load(tiny)
    text = "Good morning"
    theirs = world.oracle.spoken(asker.spoken(), tokenizer.encode(text), **LIMITS)
    with observed() as (tokens, frames):
        async with launched(settings(tiny, EXACT), tmp_path) as pipeline:
            request = OmniRequest(request_id="r", route="speak", inputs={"text": text})
            said = await collect(await pipeline.coordinator.submit(request))
    assert "r" not in tokens
    assert frames["r"] == theirs.frames
    assert distance(said.samples, waveform(published, theirs.frames)) <= TOLERANCE


async def test_many_at_once_in_processes_of_their_own(
    tiny: Path, tmp_path: Path, theirs: Callable[..., Answer], published: Any
) -> None:
    """One process for each stage, as it is served; each is answered as if it were alone."""
    apart = {name: ProcessSettings(stages=(name,), threads=1) for name in STAGES}
    async with launched(settings(tiny, EXACT, apart), tmp_path) as pipeline:
        replies = await asyncio.gather(*(ask(pipeline, make(), name) for name, make in QUESTIONS.items()))
    for name, said in zip(QUESTIONS, replies, strict=True):
        assert distance(said.samples, waveform(published, theirs(name).frames)) <= TOLERANCE, name
