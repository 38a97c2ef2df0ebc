"""From valid events to messages that are wrong in every way: types, encodings, sizes, binary frames."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tests.fuzz.corpus import EVENTS, Json, filled

Kind = Literal["valid", "one field", "several fields", "text", "nonsense", "binary"]
KINDS: tuple[Kind, ...] = ("valid", "one field", "several fields", "text", "nonsense", "binary")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """``bad``: certainly no client event, so that it must be answered by an ``error``; otherwise it may be one."""

    kind: Kind
    data: str | bytes
    bad: bool = False


def _deep(depth: int, leaf: Any = 0) -> Any:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


NASTY: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    -0.0,
    1e308,
    2**31,
    2**53 + 1,
    -(2**63),
    2**64,
    10**100,
    10**4000,
    "",
    " ",
    "0",
    "inf",
    "null",
    "root",
    "auto",
    "\x00",
    "\ud800",
    "\udfff\ud800",
    "\u202e\u200b\ufeff",
    "𝕊🜁é",
    "'; DROP TABLE items; --",
    "../../etc/passwd",
    "data:audio/pcm;base64,AAAA",
    "AAA",
    "AA-_",
    "@@@",
    "x" * 513,
    "x" * 20_000,
    [],
    [None],
    [[]],
    [{}],
    ["x"] * 1000,
    {},
    {"": ""},
    {"type": None},
    {"type": "message"},
    {"x": {"x": {"x": {}}}},
    _deep(40),
    {f"key{n}": n for n in range(200)},
)
"""Wrong for most fields, and right for some."""

_NONSENSE: tuple[Callable[[random.Random], str], ...] = (
    lambda rng: "",
    lambda rng: " \n\t",
    lambda rng: "\x00" * rng.randrange(1, 50),
    lambda rng: "[" * rng.randrange(1, 100_000),
    lambda rng: '{"type":' * rng.randrange(1, 50_000),
    lambda rng: '{"a":' * 5000 + "1" + "}" * 5000,
    lambda rng: rng.choice(["null", "true", "[]", "{}", '""', "1", "-", "NaN", "Infinity", '"\\ud800"', "{]"]),
    lambda rng: "".join(chr(rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)))) for _ in range(30)),
    lambda rng: '{"type": "response.create", "response": {"max_output_tokens": 1e99999}}',
    lambda rng: '{"type": "input_audio_buffer.append", "audio": "' + "A" * rng.randrange(200_000),
    lambda rng: '\ufeff{"type": "response.cancel"}',
    lambda rng: '{"type": "nonsense", "event_id": "mine"}',
    lambda rng: '{"type": "session.updated", "session": {}}',
    lambda rng: '{"event_id": "mine"}',
    lambda rng: "{'type': 'response.cancel'}",
    lambda rng: '{"type": "response.cancel"} {"type": "response.cancel"}',
    lambda rng: '{"type": "response.create", "event_id": ' + json.dumps("x" * 600) + "}",
)


class Fuzzer:
    """Makes messages for one session. The same seed and the same ids seen make the same messages."""

    def __init__(self, rng: random.Random, *, binary_audio: bool = False) -> None:
        """``binary_audio``: binary frames are sound, and not bad."""
        self._rng = rng
        self._binary_audio = binary_audio
        self.items: list[str] = []
        self.responses: list[str] = []

    def saw(self, event: Json) -> None:
        """A server event has arrived: its ids can be used from now on."""
        if event["type"] in ("conversation.item.added", "conversation.item.created"):
            self.items.append(event["item"]["id"])
        elif event["type"] == "response.created":
            self.responses.append(event["response"]["id"])

    def message(self) -> Message:
        rng = self._rng
        kind = rng.choices(KINDS, weights=(30, 25, 15, 12, 13, 5))[0]
        if kind == "binary":
            return Message(kind, rng.randbytes(rng.choice((0, 1, 2, 100, 10_000))), bad=not self._binary_audio)
        if kind == "nonsense":
            return Message(kind, rng.choice(_NONSENSE)(rng), bad=True)
        event = filled(rng.choice(EVENTS), rng, self.items, self.responses)
        if rng.random() < 0.5:
            event["event_id"] = f"client_{rng.randrange(10**6)}"
        if kind == "text":
            return Message(kind, self._garbled(json.dumps(event, ensure_ascii=rng.random() < 0.5)))
        for _ in range({"valid": 0, "one field": 1, "several fields": rng.randrange(2, 6)}[kind]):
            event = self._changed(event)
        return Message(kind, encoded(event))

    def _changed(self, event: Json) -> Json:
        rng = self._rng
        path = rng.choice([path for path in paths(event) if path] or [("type",)])
        match rng.randrange(10):
            case 0:
                return replaced(event, path, DELETED)
            case 1:
                return replaced(event, (*path[:-1], "surplus"), rng.choice(NASTY))
            case 2:  # something right, in the wrong place
                donor = filled(rng.choice(EVENTS), rng, self.items, self.responses)
                return replaced(event, path, value_at(donor, rng.choice(list(paths(donor)))))
            case 3:
                return {**event, "event_id": rng.choice(NASTY)}
            case _:
                return replaced(event, path, rng.choice(NASTY))

    def _garbled(self, text: str) -> str:
        rng = self._rng
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text) + 1)
            match rng.randrange(4):
                case 0:
                    text = text[:at]
                case 1:
                    text = text[:at] + text[at + rng.randrange(1, 20) :]
                case 2:
                    text = (
                        text[:at]
                        + rng.choice(('"', "{", "}", "[", ",", "\\", "\\u", "\n", "\x00", "é", "9"))
                        + text[at:]
                    )
                case _:
                    text = text[:at] + text[max(0, at - rng.randrange(1, 50)) :]
        return text


DELETED = object()
"""In the place of a value: the key is not there."""


def encoded(event: Any) -> str:
    """JSON, with numbers of any length."""
    return json.dumps(event)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """The places of all values, the whole one first."""
    yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from paths(each, (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from paths(each, (*path, index))


def value_at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy with another value, or none, at ``path``; a key that is not there yet is added."""
    if not path:
        return new
    step, *rest = path
    if isinstance(value, list) and isinstance(step, int):
        middle = [] if not rest and new is DELETED else [replaced(value[step], tuple(rest), new)]
        return [*value[:step], *middle, *value[step + 1 :]]
    if not isinstance(value, dict):
        return value
    if not rest and new is DELETED:
        return {name: each for name, each in value.items() if name != step}
    return {**value, str(step): replaced(value.get(step), tuple(rest), new)}


def wrong_types() -> Iterator[Json]:
    """Every field of every client event, each with every nasty value and without itself: no chance involved."""
    rng = random.Random(0)
    for event in EVENTS:
        event = filled(event, rng, ["item_1"], ["resp_1"])
        for path in paths(event):
            if path:
                yield replaced(event, path, DELETED)
                yield from (replaced(event, path, value) for value in NASTY)
