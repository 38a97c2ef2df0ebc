"""What the Python clients' drivers share: the scenario, the steps, and waiting for what a client exposes.

A driver runs where its client is installed and knows nothing of this project. It prints one line of JSON for each step:
``{"step": name, "error": null or what went wrong}``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

RATE = 24000
STEP_S = 20.0
FASTER = 2.0
"""Speech is sent this much faster than it was spoken."""

Event = TypeVar("Event")


class Anything(Any):
    """Equal to any words and to any length but none."""

    def __eq__(self, other: object) -> bool:
        return bool(other.strip() if isinstance(other, str) else other)

    def __round__(self, digits: int = 0) -> Anything:
        return self

    def __repr__(self) -> str:
        return "anything"

    __hash__ = None


ANYTHING = Anything()


class Setup:
    """``http``, ``https``: where the server listens. ``said``: 16-bit 24 kHz recordings by the part they belong to.

    What the scenario leaves open, because a model answers, equals anything that is not empty. ``steps``: those to go
    through.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.http: str = values["http"]
        self.https: str = values["https"]
        self.scenario: dict[str, Any] = {
            part: {name: ANYTHING if value is None else value for name, value in fields.items()}
            for part, fields in values["scenario"].items()
        }
        self.steps: list[str] = values["steps"]
        self.word_seconds: float = values["word_seconds"]
        self.said = {name: Path(path).read_bytes() for name, path in values["recordings"].items()}

    async def speech(self, part: str, milliseconds: int = 20) -> AsyncIterator[bytes]:
        """A recording in pieces, as a microphone would deliver it."""
        size = RATE * 2 * milliseconds // 1000
        recording = self.said[part]
        for start in range(0, len(recording), size):
            yield recording[start : start + size]
            await asyncio.sleep(milliseconds / 1000 / FASTER)

    def seconds(self, answer: str) -> float:
        """How long the server speaks ``answer``."""
        if isinstance(answer, Anything):
            return answer
        return len(answer.split()) * self.word_seconds


class Driver(Protocol):
    async def connect(self) -> None: ...
    async def session_update(self) -> None: ...
    async def spoken_turn(self) -> None: ...
    async def text_turn(self) -> None: ...
    async def tool_call(self) -> None: ...
    async def interruption(self) -> None: ...
    async def error(self) -> None: ...
    async def close(self) -> None: ...


class Seen(list[Event]):
    """What a client has shown so far."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def add(self, event: Event) -> None:
        self.append(event)
        self._more.set()

    async def until(self, matches: Callable[[Event], Any], since: int = 0) -> Event:
        """The first event from the ``since``-th on that matches; waits for it."""
        while True:
            for event in self[since:]:
                if matches(event):
                    return event
            self._more.clear()
            await self._more.wait()

    async def holds(self, condition: Callable[[], Any]) -> None:
        """Wait until ``condition``, which is looked at after each event, is true."""
        while not condition():
            self._more.clear()
            await self._more.wait()


def check(condition: object, what: str) -> None:
    """``what`` is wrong when ``condition`` does not hold."""
    if not condition:
        raise AssertionError(what)


def same(actual: object, expected: object) -> None:
    check(actual == expected, f"{actual!r} instead of {expected!r}")


def heard(text: str, answer: str, least: int, most: int) -> None:
    """``text`` is the beginning of ``answer``: between ``least`` and ``most`` of its words."""
    words, whole = text.split(), answer.split()
    check(words == whole[: len(words)] and least <= len(words) <= most, f"what was heard is {text!r}")


async def _step(step: Callable[[], Awaitable[None]]) -> str | None:
    try:
        async with asyncio.timeout(STEP_S):
            await step()
    except TimeoutError as error:
        return f"{_place(error.__cause__ or error)}: never came"
    except Exception as error:  # noqa: BLE001 - the next steps are of interest all the same
        return f"{_place(error)}: {type(error).__name__}: {error}"
    return None


def _place(error: BaseException) -> str:
    """Where in the driver it happened, and what it was doing there."""
    own = Path(sys.argv[0]).name
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == own]
    return f"{own}:{frames[0].lineno}: {frames[0].line}" if frames else own


async def _run(make: Callable[[Setup], Driver]) -> None:
    setup = Setup(json.loads(sys.argv[1]))
    driver = make(setup)
    for name in setup.steps:
        error = await _step(getattr(driver, name))
        sys.stdout.write(json.dumps({"step": name, "error": error}) + "\n")


def main(make: Callable[[Setup], Driver]) -> None:
    asyncio.run(_run(make))
