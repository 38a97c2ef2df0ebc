"""Fuzzing a session in this process, in virtual time, with another one beside it that must not notice."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.fuzz.mutations import Fuzzer, Message
from tests.support.promises import check_conversation, check_responses
from tests.support.scripted import Script, ScriptedClient
from tests.support.talk import Event, Talk
from voice_omni.client.interface import GenerateRequest
from voice_omni.proto.errors import OmniError
from voice_omni.realtime.connection import PLAIN, Connection
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

_SETTLE_S = 300.0
"""Virtual seconds after which nothing that a client has set off is still going on."""
_OPTIONS = SessionOptions(max_duration_s=1_000_000)


@dataclass
class Tally:
    """What came of the messages. ``answers``: the error codes, and ``accepted``."""

    messages: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    closes: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    responses: int = 0

    def count(self, message: Message, answer: str) -> None:
        self.messages[message.kind] += 1
        self.answers[answer] += 1


def misbehaving(rng: random.Random) -> ScriptedClient:
    """A pipeline that answers, fails, refuses and hears nothing."""
    scripts = (
        Script(),
        Script(),
        Script(silent=True),
        Script(die_after=1),
        Script(answer="word " * 40),
        Script(transcript=""),
        Script(refuse=OmniError("overloaded", "full", retryable=True)),
        Script(refuse=OmniError("unsupported_route", "cannot", retryable=False)),
    )

    def script(request: GenerateRequest, number: int) -> Script:
        if WITNESSED in repr(request.messages):
            return Script()
        return rng.choice(scripts)

    return ScriptedClient(script)


WITNESSED = "Are you all right?"


class Witness:
    """A well-behaved client of another session."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def turn(self) -> None:
        """One exchange outside the conversation, which is answered in full."""
        content = [{"type": "input_text", "text": WITNESSED}]
        item = {"type": "message", "role": "user", "content": content}
        await self._talk.send("response.create", response={"conversation": "none", "input": [item]})
        done = await self._talk.until("response.done")
        assert done["response"]["status"] == "completed"
        [answer] = done["response"]["output"]
        assert answer["content"][0]["transcript"] == "The capital of France is Paris."
        assert self._talk.all("error") == []
        self._talk.events.clear()
        self._talk.times.clear()


async def fuzz_session(
    client: ScriptedClient,
    silero: SileroModel,
    messages: int,
    rng: random.Random,
    tally: Tally,
    connection: Connection = PLAIN,
) -> None:
    """One session that is sent ``messages`` of them and then left. Raises ``AssertionError``, with the message."""
    others = asyncio.all_tasks()
    talk = Talk(client, silero, _OPTIONS, connection=connection)
    fuzzer = Fuzzer(rng, binary_audio=connection.binary_audio)
    seen = 0
    async with talk:
        for _ in range(messages):
            message = fuzzer.message()
            answer = await _judged(talk, message)
            tally.count(message, answer)
            if rng.random() < 0.05:
                await asyncio.sleep(rng.choice((0.0, 0.01, 0.3, 3.0)))
            for event in talk.events[seen:]:
                fuzzer.saw(event)
            seen = len(talk.events)
        if rng.random() < 0.7:
            await asyncio.sleep(_SETTLE_S)
            check_responses(talk.events)
            check_conversation(talk.events)
    tally.sessions += 1
    tally.responses += len(talk.all("response.created"))
    # What a session has been given is let go of with it, in the middle of a reply or after it.
    await asyncio.sleep(_SETTLE_S)
    assert client.alive == []
    assert asyncio.all_tasks() <= others
    client.replies.clear()
    gone = weakref.ref(talk.session)
    del talk
    gc.collect()
    assert gone() is None


async def judge_all(client: ScriptedClient, silero: SileroModel, events: Iterable[Event], tally: Tally) -> None:
    """Each event on its own, after one another, in one session."""
    async with Talk(client, silero, _OPTIONS) as talk:
        for event in events:
            message = Message("one field", json.dumps(event))
            tally.count(message, await _judged(talk, message))
            talk.events.clear()


async def _judged(talk: Talk, message: Message) -> str:
    """Send it; the code of the error that answers it, or ``accepted``."""
    before = _state(talk)
    known = len(talk.events)
    try:
        await talk.session.receive(message.data)
    except Exception as error:
        error.add_note(f"the message was {_shown(message)}")
        raise
    after = _state(talk)
    await talk.read_all()
    errors = [event["error"] for event in talk.events[known:] if event["type"] == "error"]
    assert len(errors) <= 1, _shown(message)
    if not errors:
        assert not message.bad, f"not answered: {_shown(message)}"
        return "accepted"
    [error] = errors
    assert error["type"] == "invalid_request_error", _shown(message)
    assert error["message"], _shown(message)
    assert error["event_id"] == _event_id(message.data), _shown(message)
    assert after == before, f"refused and yet obeyed: {_shown(message)}"
    code: str = error["code"]
    return code


def _state(talk: Talk) -> tuple[object, ...]:
    """What a refused event must not change."""
    return talk.core.session, talk.core.conversation.last_id


def _event_id(data: str | bytes) -> str | None:
    """The id that an error about this message has to carry."""
    if isinstance(data, bytes):
        return None
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return None
    event_id = event.get("event_id") if isinstance(event, dict) else None
    return event_id if isinstance(event_id, str) and len(event_id) <= 512 and _encodable(event_id) else None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(message: Message) -> str:
    return f"{message.kind} {message.data[:2000]!r}"
