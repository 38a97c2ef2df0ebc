"""Tokens to text as they come; calls are told apart from what is said."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.model_runner.interface import Chunk, Work
from voice_omni.models.qwen3_omni.decode_stage import DecodeRunner
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.models.qwen3_omni.wire import TOKENS
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, OmniRequest, StagePayload

CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "Zürich 🦙"}}\n</tool_call>'
TOOLS = [{"name": "look", "description": "", "parameters": {}}, {"name": "hear", "description": "", "parameters": {}}]
TOLD = {"finish_reason": "stop", "usage": {"input_tokens": 3, "output_tokens": 4}}


@pytest.fixture(scope="module")
def tokenizer(tiny: Path) -> Tokenizer:
    return Tokenizer.load(tiny)


def decode(
    tokenizer: Tokenizer,
    text: str,
    cuts: list[int] | None = None,
    route: str = "text",
    told: Data = TOLD,
    **inputs: Any,
) -> tuple[list[Data], Data]:
    runner = DecodeRunner(tokenizer.bytes)
    state = runner.open(StagePayload(OmniRequest(request_id="r", route=route, inputs=inputs)))
    tokens = tokenizer.encode(text)
    said: list[Data] = []
    bounds = [0, *sorted(min(cut, len(tokens)) for cut in cuts or ()), len(tokens)]
    for start, stop in pairwise(bounds):
        [outcome] = runner.run([Work("r", state, [Chunk("thinker", {TOKENS: tokens[start:stop]})], False)])
        if outcome.error is not None:
            raise outcome.error
        said += [emit.data for emit in outcome.emits]
    [outcome] = runner.run([Work("r", state, [Chunk("thinker", {TOKENS: [], **TOLD})], True)])
    if outcome.error is not None:
        raise outcome.error
    assert outcome.result is not None
    return said + [emit.data for emit in outcome.emits], outcome.result


@given(cuts=st.lists(st.integers(0, 200), max_size=20))
def test_text_and_calls_do_not_depend_on_when_tokens_come(tokenizer: Tokenizer, cuts: list[int]) -> None:
    said, result = decode(tokenizer, f"Grüße, 你好!{CALL}", cuts, tools=TOOLS, tool_choice="auto")
    assert "".join(data.get("text", "") for data in said) == "Grüße, 你好!"
    calls = [data["tool_call"] for data in said if "tool_call" in data]
    assert json.loads("".join(call["arguments"] for call in calls)) == {"at": "Zürich 🦙"}
    assert [call["final"] for call in calls].count(True) == 1
    assert result == {"text": "Grüße, 你好!", **TOLD}


def test_without_functions_everything_is_said(tokenizer: Tokenizer) -> None:
    _, result = decode(tokenizer, CALL)
    assert result["text"] == CALL


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ({"name": "hear"}, '{"at": "sea"}}\n</tool_call>'),
        ("required", 'hear", "arguments": {"at": "sea"}}\n</tool_call>'),
    ],
)
def test_a_forced_call_goes_on_where_the_prompt_has_begun_it(tokenizer: Tokenizer, choice: Any, written: str) -> None:
    said, result = decode(tokenizer, written, tools=TOOLS, tool_choice=choice)
    [call] = [data["tool_call"] for data in said]
    assert (call["name"], json.loads(call["arguments"]), call["final"]) == ("hear", {"at": "sea"}, True)
    assert result["text"] == ""


def test_a_call_that_makes_no_sense_fails_its_request(tokenizer: Tokenizer) -> None:
    with pytest.raises(OmniError) as caught:
        decode(tokenizer, '<tool_call>{"name": "nobody"}</tool_call>', tools=TOOLS, tool_choice="auto")
    assert caught.value.code == "invalid_tool_call"


def test_half_a_character_at_the_end_is_told_as_such(tokenizer: Tokenizer) -> None:
    runner = DecodeRunner(tokenizer.bytes)
    state = runner.open(StagePayload(OmniRequest(request_id="r", route="text")))
    half = tokenizer.encode("é")[:1]
    [outcome] = runner.run([Work("r", state, [Chunk("thinker", {TOKENS: half})], False)])
    assert outcome.emits == []
    [outcome] = runner.run([Work("r", state, [], True)])
    assert [emit.data for emit in outcome.emits] == [{"text": "\ufffd"}]


def test_a_transcript_is_all_that_is_known_so_far(tokenizer: Tokenizer) -> None:
    said, result = decode(tokenizer, " Well, yes.", [6], route="transcribe")
    assert said == [
        {"transcript": "Well,", "final": False},
        {"transcript": "Well, yes.", "final": False},
        {"transcript": "Well, yes.", "final": True},
    ]
    assert result["transcript"] == " Well, yes."
