"""However sound comes in, whatever runs beside it and whoever goes away: the same is said, and nothing stays behind."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.models.qwen3_omni.compare import TOLERANCE, distance
from tests.models.qwen3_omni.sounds import voice
from tests.models.qwen3_omni.talking import Question, Said, ask, collect, launched, observed, settings
from tests.models.qwen3_omni.test_media import png, uri
from voice_omni.engines.torch_prefix import Context
from voice_omni.models.qwen3_omni.thinker import Thinker
from voice_omni.proto.errors import OmniError

few = hypothesis_settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

BRIEF = {"thinker": {"max_new_tokens": 6}, "talker": {"max_new_tokens": 12}}
LONGER = {"talker": {"max_new_tokens": 25}}
SAMPLED = {
    "thinker": {"max_new_tokens": 6, "temperature": 1.0},
    "talker": {"max_new_tokens": 12, "temperature": 0.9},
    "audio_encoder": {"window_s": 1},
}


def user(text: str, **media: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **media}


def spoken(seconds: float = 3.3, **params: Any) -> Question:
    return Question([user("Hi"), {"role": "assistant", "content": "Yes?"}], voice(round(seconds * 16_000)), (), params)


def same(one: Said, other: Said) -> bool:
    return one.text == other.text and distance(one.samples, other.samples) <= TOLERANCE


async def said(model: Path, run_base: Path, question: Question, options: Any, **how: Any) -> tuple[Said, Any, Any]:
    with observed() as (tokens, frames):
        async with launched(settings(model, options, **how.pop("schedulers", {})), run_base) as pipeline:
            reply = await ask(pipeline, question, **how)
    return reply, tokens["r"], frames["r"]


@pytest.fixture(scope="module", params=[1, 2], ids="windows of {} s".format)
def uncut(request: pytest.FixtureRequest, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """Options, and what is said with them to a sound that comes whole; its tokens and frames."""
    options = {**BRIEF, "audio_encoder": {"window_s": request.param}}
    return options, *asyncio.run(said(tiny, tmp_path_factory.mktemp("u"), spoken(), options))


@pytest.fixture(scope="module")
def plain(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Said:
    """What is said in chunks of the sizes that are set unless told otherwise."""
    return asyncio.run(said(tiny, tmp_path_factory.mktemp("p"), Question([user("Hello")]), LONGER))[0]


@few
@given(cuts=st.lists(st.integers(0, 52_800), max_size=12))
def test_any_cut_of_the_sound_gives_the_same_answer(
    tiny: Path, tmp_path: Path, uncut: tuple[Any, ...], cuts: list[int]
) -> None:
    options, whole, tokens, frames = uncut
    part, part_tokens, part_frames = asyncio.run(said(tiny, tmp_path, spoken(), options, cuts=cuts))
    assert (part_tokens, part_frames) == (tokens, frames)
    assert same(part, whole)


@few
@given(first=st.integers(1, 4), most=st.integers(4, 30))
def test_any_chunking_of_the_sound_that_comes_out_gives_the_same_samples(
    tiny: Path, tmp_path: Path, plain: Said, first: int, most: int
) -> None:
    chunking = {"first_frames": first, "max_frames": most}
    other, _, _ = asyncio.run(said(tiny, tmp_path, Question([user("Hello")]), LONGER, schedulers=chunking))
    assert same(plain, other)
    assert len(plain.pieces[0]) == 1920 - 555


async def test_the_prompt_is_computed_while_the_person_speaks(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the sound ends, its last window and what follows are left to compute, however much was heard before."""
    computed: list[int] = []
    compute = Context._compute

    def counted(self: Context, model: Any, keys: Any, inputs: Any) -> Any:
        if isinstance(model, Thinker):
            computed.append(len(keys))
        return compute(self, model, keys, inputs)

    monkeypatch.setattr(Context, "_compute", counted)
    # Nothing later is louder than its beginning, so nothing is taken back.
    noise = np.random.default_rng(3).normal(size=52_800) * np.linspace(0.2, 0.05, 52_800)
    question = Question([user("Hi")], noise.astype(np.float32))
    options = {**BRIEF, "audio_encoder": {"window_s": 1}}
    whole = (await said(tiny, tmp_path, question, options))[0].results["decode"]["usage"]
    async with launched(settings(tiny, options), tmp_path) as pipeline:
        computed.clear()  # what a stage computes before it is ready
        handle = await pipeline.coordinator.submit(question.request("r"))
        collecting = asyncio.create_task(collect(handle))
        assert question.sound is not None
        await handle.append({"audio": question.sound[:49_000]})
        async with asyncio.timeout(120):
            while sum(computed) < whole["input_tokens"] - 20:
                await asyncio.sleep(0.01)
        assert not collecting.done()
        await handle.append({"audio": question.sound[49_000:]})
        await handle.end_input()
        await collecting
    assert sum(computed) == whole["input_tokens"] + whole["output_tokens"] - 1


async def test_louder_speech_later_takes_back_what_was_computed(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quiet sound, prefilled already, has another spectrum once something far louder follows."""
    sound = voice(56_000).copy()
    sound[:20_000] *= 1e-5
    sound[-8_000:] = np.clip(30 * sound[-8_000:], -1, 1)
    question = Question((), sound)
    options = {**BRIEF, "audio_encoder": {"window_s": 1}}
    whole, tokens, frames = await said(tiny, tmp_path, question, options)
    taken_back: list[int] = []
    rewind = Context.rewind

    def counted(self: Context, length: int) -> None:
        taken_back.append(length)
        rewind(self, length)

    monkeypatch.setattr(Context, "rewind", counted)
    with observed() as (parts, shapes):
        async with launched(settings(tiny, options), tmp_path) as pipeline:
            handle = await pipeline.coordinator.submit(question.request("r"))
            collecting = asyncio.create_task(collect(handle))
            for part in np.split(sound, range(4_000, 56_000, 4_000)):
                await handle.append({"audio": part})
                await asyncio.sleep(0.03)
            await handle.end_input()
            streamed = await collecting
    assert len(taken_back) >= 2  # by the thinker and by the talker
    assert (parts["r"], shapes["r"]) == (tokens, frames)
    assert same(streamed, whole)


async def test_neighbours_and_aborts_change_nothing_and_leave_nothing(tiny: Path, tmp_path: Path) -> None:
    """Questions of all kinds at once with seeds, some of them aborted at any moment."""
    picture = uri(png(size=(64, 64), color=(9, 99, 199)))
    questions = {
        "text": Question([user("Hello")], params={"seed": 1}),
        "sound": spoken(2.2, seed=2),
        "long sound": spoken(5.1, seed=3),
        "picture": Question([user("And?", images=[picture])], params={"seed": 4}),
        "both": Question([user("", images=[picture])], voice(9_000), (), {"seed": 5}),
    }
    alone = {name: (await said(tiny, tmp_path, question, SAMPLED))[0] for name, question in questions.items()}
    chance = random.Random(11)
    async with launched(settings(tiny, SAMPLED, max_rows=4), tmp_path) as pipeline:

        async def given_up(name: str, number: int) -> None:
            question = questions[name]
            handle = await pipeline.coordinator.submit(question.request(f"{name} {number}"))
            if question.sound is not None:
                await handle.append({"audio": question.sound[: chance.randrange(1, len(question.sound))]})
            if chance.random() < 0.5:
                await handle.end_input()
            await asyncio.sleep(chance.random() * 0.5)
            await handle.abort()

        async def kept(name: str) -> None:
            await asyncio.sleep(chance.random() * 0.3)
            assert same(await ask(pipeline, questions[name], f"kept {name}"), alone[name]), name

        kinds = list(questions)
        await asyncio.gather(*map(kept, kinds), *(given_up(chance.choice(kinds), number) for number in range(12)))


async def test_the_next_turn_of_a_session_is_answered_as_if_it_were_the_first(tiny: Path, tmp_path: Path) -> None:
    """What was computed for the turn before, or for an answer that was given up, changes nothing."""
    question = spoken(2.7)
    fresh, _, _ = await said(tiny, tmp_path, question, BRIEF)
    async with launched(settings(tiny, BRIEF), tmp_path) as pipeline:
        await ask(pipeline, Question(question.messages[:1]), "before", session="s")
        handle = await pipeline.coordinator.submit(question.request("given up", session="s"))
        assert question.sound is not None
        await handle.append({"audio": question.sound[:30_000]})
        await handle.abort()
        again = await ask(pipeline, question, "again", session="s", cuts=(20_000,))
    assert same(again, fresh)


async def test_faults_are_the_requests_own(tiny: Path, tmp_path: Path) -> None:
    silence, broken = (
        Question((), np.zeros(10, np.float32)),
        Question([user("", images=["data:image/png;base64,AA=="])]),
    )
    async with launched(settings(tiny, BRIEF), tmp_path) as pipeline:
        good = asyncio.create_task(ask(pipeline, Question([user("Hello")]), "good"))
        for name, question, code in (("silence", silence, "no_speech"), ("broken", broken, "invalid_value")):
            with pytest.raises(OmniError) as caught:
                await ask(pipeline, question, name)
            assert caught.value.code == code
        assert (await good).pieces
