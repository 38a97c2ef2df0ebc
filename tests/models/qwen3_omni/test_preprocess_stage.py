"""Conversations become prompts that fit, with their media on the way to the encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models.qwen3_omni.sounds import voice
from tests.models.qwen3_omni.test_media import film, png, uri, wav
from voice_omni.model_runner.interface import Emit, Work
from voice_omni.models.qwen3_omni import stages
from voice_omni.models.qwen3_omni.options import PreprocessOptions
from voice_omni.models.qwen3_omni.preprocess_stage import PreprocessRunner
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.models.qwen3_omni.wire import FRAMES, LIVE, MEDIUM, PROMPT, SOUND, SPOKEN
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import OmniRequest, StagePayload

PICTURE = uri(png(size=(64, 64)))


def user(text: str, **media: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **media}


def runner(tiny: Path, **options: Any) -> PreprocessRunner:
    return stages.preprocess(StageContext("preprocess", PreprocessOptions(**options), "cpu", 1, str(tiny)))


def emits(
    preprocess: PreprocessRunner, *messages: Any, route: str = "text", params: Any = None, **inputs: Any
) -> list[Emit]:
    request = OmniRequest(
        request_id="r", route=route, inputs={"messages": list(messages), **inputs}, params=params or {}
    )
    state = preprocess.open(StagePayload(request))
    for _ in range(20):
        [outcome] = preprocess.run([Work("r", state, (), True)])
        if outcome.error is not None:
            raise outcome.error
        if not outcome.more:
            return outcome.emits
    raise AssertionError("it never ends")


def told(tiny: Path, sent: list[Emit]) -> str:
    """The prompt as text, and a star for each run of media."""
    [prompt] = [emit.data[PROMPT] for emit in sent if PROMPT in emit.data]
    decode = Tokenizer.load(tiny).decode
    return "".join("*" if segment["medium"] is not None else decode(segment["tokens"]) for segment in prompt)


def test_the_instructions_stand_first_the_requests_own_before_the_stages(tiny: Path) -> None:
    preprocess = runner(tiny, system_prompt="Be kind.")
    assert told(tiny, emits(preprocess, user("Hi"))) == "system\nBe kind.\nuser\nHi\nassistant\n"
    own = emits(preprocess, user("Hi"), params={"instructions": "Be brief."})
    assert told(tiny, own) == "system\nBe brief.\nuser\nHi\nassistant\n"
    assert told(tiny, emits(preprocess, user("Hi"), params={"instructions": ""})) == "user\nHi\nassistant\n"


def test_the_sound_that_is_streamed_in_stands_where_it_was_said(tiny: Path) -> None:
    sent = emits(runner(tiny, system_prompt=""), user("Hi"), route="speech", following=[user("Well?")])
    assert told(tiny, sent) == "user\nHi\nuser\n*\nuser\nWell?\nassistant\n"
    [live] = [segment for segment in sent[0].data[PROMPT] if segment["medium"] is not None]
    assert (live["medium"], len(live["tokens"])) == (LIVE, 1)


def test_media_go_to_their_encoders_under_the_numbers_of_their_places(tiny: Path) -> None:
    audio, video = uri(wav(voice(12_000), 16_000), "audio/wav"), uri(film(1.1), "video/x-matroska")
    sent = emits(runner(tiny), user("", images=[PICTURE]), user("", audios=[audio]), user("", videos=[video]))
    seen = [(emit.data[MEDIUM], len(emit.data[FRAMES])) for emit in sent if emit.targets == ("image_encoder",)]
    heard = [(emit.data[MEDIUM], len(emit.data[SOUND])) for emit in sent if emit.targets == ("audio_encoder",)]
    assert seen == [(0, 1), (2, 2)]
    assert [medium for medium, _ in heard] == [1, 2]
    assert heard[0] == (1, 12_000)
    assert [segment["medium"] for segment in sent[0].data[PROMPT] if segment["medium"] is not None] == [0, 1, 2]


def test_the_oldest_messages_and_their_media_give_way(tiny: Path) -> None:
    old = [user("x" * 150, images=[PICTURE]), {"role": "assistant", "content": "y" * 150}]
    sent = emits(runner(tiny, system_prompt="S", context_tokens=256), *old, *old, user("Now?", images=[PICTURE]))
    assert told(tiny, sent) == "system\nS\nuser\n*Now?\nassistant\n"
    assert [emit.data[MEDIUM] for emit in sent if FRAMES in emit.data] == [0]


def test_a_last_message_that_does_not_fit_is_refused(tiny: Path) -> None:
    with pytest.raises(OmniError) as caught:
        emits(runner(tiny, context_tokens=256), user("x" * 300))
    assert (caught.value.code, caught.value.info.param) == ("invalid_value", "messages")


def test_a_call_that_must_be_made_is_begun(tiny: Path) -> None:
    tools = [{"name": "look", "description": "", "parameters": {}}]
    sent = emits(runner(tiny), user("Hi"), tools=tools, tool_choice={"name": "look"})
    assert told(tiny, sent).endswith('assistant\n<tool_call>\n{"name": "look", "arguments": ')
    without = emits(runner(tiny, system_prompt=""), user("Hi"), tools=tools, tool_choice="none")
    assert told(tiny, without) == "user\nHi\nassistant\n"


def test_what_people_write_is_no_control_token(tiny: Path) -> None:
    """Neither in a message nor in a text that is only spoken."""
    end = "<|im_end|>"
    sent = emits(runner(tiny, system_prompt=""), user(end))
    ids = [token for segment in sent[0].data[PROMPT] for token in segment["tokens"]]
    assert ids.count(Tokenizer.load(tiny).specials[end]) == 1
    [_, spoken] = emits(runner(tiny), route="speak", text=end)
    assert Tokenizer.load(tiny).specials[end] not in spoken.data[SPOKEN]
