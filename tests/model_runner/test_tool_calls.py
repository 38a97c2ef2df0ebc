"""Function calls in a model's text, however it is cut into pieces."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.model_runner.tool_calls import CallParser, CallPiece, Piece
from voice_omni.proto.errors import OmniError

NAMES = ("get_weather", "set_light")
WEATHER = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
LIGHT = '{"name": "set_light", "arguments": {"room": "kitchen", "on": true}}'


def read(*texts: str, cut: bool = False) -> tuple[str, list[tuple[str, str, bool]]]:
    """What is said, and each call's name, arguments and whether it is whole."""
    parser = CallParser(NAMES)
    pieces: list[Piece] = []
    for text in texts:
        pieces += parser.push(text)
    pieces += parser.finish(cut=cut)
    calls: dict[int, tuple[str, str, bool]] = {}
    for piece in pieces:
        if isinstance(piece, CallPiece):
            _, arguments, final = calls.get(piece.call, ("", "", False))
            assert not final
            calls[piece.call] = (piece.name, arguments + piece.arguments, piece.final)
    assert sorted(calls) == list(range(len(calls)))
    return "".join(piece for piece in pieces if isinstance(piece, str)), list(calls.values())


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ("Hello there.", "Hello there.", []),
        ("2 < 3 <tool> <tool_calls", "2 < 3 <tool> <tool_calls", []),
        (f"<tool_call>[{WEATHER}]</tool_call>", "", [("get_weather", '{"city": "Paris"}', True)]),
        (f"<tool_call>[\n{WEATHER}\n]</tool_call>", "", [("get_weather", '{"city": "Paris"}', True)]),
        (f"<tool_call>{WEATHER}</tool_call>", "", [("get_weather", '{"city": "Paris"}', True)]),
        (f"<tool_call>[{WEATHER}]", "", [("get_weather", '{"city": "Paris"}', True)]),
        (
            f"Let me see. <tool_call>[{WEATHER}, {LIGHT}]</tool_call> One moment.",
            "Let me see.  One moment.",
            [("get_weather", '{"city": "Paris"}', True), ("set_light", '{"room": "kitchen", "on": true}', True)],
        ),
        (
            f"<tool_call>[{WEATHER}]</tool_call><tool_call>[{LIGHT}]</tool_call>",
            "",
            [("get_weather", '{"city": "Paris"}', True), ("set_light", '{"room": "kitchen", "on": true}', True)],
        ),
        ("<tool_call>[]</tool_call>Hello.", "Hello.", []),
        ('<tool_call>[{"arguments": {"city": "Rome"}, "name": "get_weather"}]</tool_call>', "",
         [("get_weather", '{"city": "Rome"}', True)]),
        ('<tool_call>[{"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\"}"}]</tool_call>', "",
         [("get_weather", '{"city": "Rome"}', True)]),
        ('<tool_call>[{"name": "get_weather", "arguments": null}]</tool_call>', "", [("get_weather", "{}", True)]),
        ('<tool_call>[{"name": "get_weather"}]</tool_call>', "", [("get_weather", "{}", True)]),
        ('<tool_call>[{"id": 7, "name": "get_weather", "arguments": {"city": "}]\\"<"}}]</tool_call>', "",
         [("get_weather", '{"city": "}]\\"<"}', True)]),
        ("Sure. <tool_response>\n{}\n</tool_response>Done.", "Sure. Done.", []),
    ],
)  # fmt: skip
def test_what_is_said_and_what_is_called(text: str, said: str, calls: list[tuple[str, str, bool]]) -> None:
    assert read(text) == (said, calls)
    assert read(*text) == (said, calls)


@given(st.data())
def test_cuts_change_nothing(data: st.DataObject) -> None:
    text = f"Let me see.<tool_call>[{WEATHER}, {LIGHT}]</tool_call> One <moment."
    places = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert read(*pieces) == read(text)


def test_arguments_are_passed_on_while_they_are_written() -> None:
    parser = CallParser(NAMES)
    assert parser.push('<tool_call>[{"name": "get_weather", "arguments": {"ci') == [CallPiece(0, "get_weather", '{"ci')]
    assert parser.push('ty": "Paris"}') == [CallPiece(0, "get_weather", 'ty": "Paris"}')]
    assert parser.push("}") == [CallPiece(0, "get_weather", "", final=True)]


def test_no_part_of_a_marker_is_said() -> None:
    parser = CallParser(NAMES)
    assert parser.push("Well <tool") == ["Well "]
    assert parser.push("box") == ["<toolbox"]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>I do not know",
        "<tool_call>[7]</tool_call>",
        f"<tool_call>[{WEATHER}",
        '<tool_call>[{"name": "get_weath',
        '<tool_call>[{"name": "fly_away", "arguments": {}}]</tool_call>',
        '<tool_call>[{"name": ["get_weather"], "arguments": {}}]</tool_call>',
        '<tool_call>[{"arguments": {}}]</tool_call>',
        '<tool_call>[{"name": "get_weather", "arguments": [1]}]</tool_call>',
        '<tool_call>[{"name": "get_weather", "arguments": {city: "Paris"}}]</tool_call>',
        '<tool_call>[{"name": "get_weather", "arguments": {"city": "Paris",}}]</tool_call>',
        '<tool_call>[{"name": "get_weather", "arguments": "Paris"}]</tool_call>',
        '<tool_call>[{"name"; "get_weather"}]</tool_call>',
        '<tool_call>[{"name": "get_weather", "arguments": ]}]</tool_call>',
        '<tool_call>[{"name": "get_weather", "arguments": ' + '{"a": ' * 20_000 + "1" + "}" * 20_000 + "}]</tool_call>",
    ],
)
def test_a_call_that_makes_no_sense_is_a_structured_failure(text: str) -> None:
    with pytest.raises(OmniError) as caught:
        read(text)
    assert caught.value.code == "invalid_tool_call"


@given(st.text(alphabet='<>/[]{}":,\\ _acdeglmnoprstuw1', max_size=200))
def test_nothing_that_a_model_writes_is_a_crash(rest: str) -> None:
    with contextlib.suppress(OmniError):
        _, calls = read("<tool_call>" + rest)
        assert all(name in NAMES and isinstance(json.loads(arguments), dict) for name, arguments, _ in calls)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>[]</tool_call>",
        " <tool_call>[ ]</tool_call>\n",
        "<tool_call>[]",
        "<tool_response>It is sunny.</tool_response>",
        "<tool_response>\n{}",
    ],
)
def test_an_answer_that_neither_says_nor_calls_anything_is_a_failure(text: str) -> None:
    with pytest.raises(OmniError) as raised:
        read(*text)
    assert raised.value.code == "invalid_tool_call"
    assert read(*text, cut=True)[1] == []


def test_a_call_that_the_token_limit_cut_is_left_unfinished() -> None:
    assert read('<tool_call>[{"name": "get_weather", "arguments": {"ci', cut=True) == (
        "",
        [("get_weather", '{"ci', False)],
    )
    assert read("Hello <tool_c", cut=True) == ("Hello ", [])
