"""A session in this process against three thousand random messages, and every wrong type of every field."""

from __future__ import annotations

import logging
import random

import pytest

from tests.fuzz.mutations import wrong_types
from tests.fuzz.session import Tally, Witness, fuzz_session, judge_all, misbehaving
from tests.fuzz.variants import VARIANTS
from tests.support.scripted import ScriptedClient
from tests.support.talk import Talk
from tests.support.virtual_time import in_virtual_time
from voice_omni.session.silero import SileroModel

MESSAGES = 100


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(4))
def test_random_messages(silero: SileroModel, caplog: pytest.LogCaptureFixture, seed: int, variant: str) -> None:
    tally = Tally()

    @in_virtual_time
    async def scenario() -> None:
        rng = random.Random(f"{variant} {seed}")
        client = misbehaving(rng)
        async with Talk(client, silero) as beside:
            await fuzz_session(client, silero, MESSAGES, rng, tally, VARIANTS[variant].connection)
            await Witness(beside).turn()

    scenario()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info] == []
    assert tally.messages.total() == tally.answers.total() == MESSAGES


def test_every_wrong_type_of_every_field_of_every_event(silero: SileroModel, caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()

    @in_virtual_time
    async def scenario() -> None:
        await judge_all(ScriptedClient(), silero, wrong_types(), tally)

    scenario()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info] == []
    assert tally.answers.total() > 10_000
    assert tally.answers["invalid_value"] > tally.answers["accepted"] > 0
