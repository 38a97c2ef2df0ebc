"""A spoken conversation over the real pipeline: sound in, sound out, the words beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import numpy as np
import torch

from tests.models.qwen3_omni.talking import Question, ask, launched, settings
from tests.models.qwen3_omni.test_media import png, uri, wav
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from voice_omni.audio.pcm import Samples
from voice_omni.client.interface import GenerateRequest, Message
from voice_omni.client.pipeline import PipelineClient, PipelineReply
from voice_omni.engines import torch_engine
from voice_omni.engines.interface import Sampling
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.pipeline import PIPELINE
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.pipeline.launcher import Launcher
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

HEARD = "what is the capital of France"
ANSWER = "The capital of France is Paris, and it has been so for a very long time."
SPEECH = {"thinker": {"max_new_tokens": 200}, "talker": {"max_new_tokens": 60, "temperature": 0.0}}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


class Asked:
    """A client that remembers what it was asked, and can keep transcripts back."""

    def __init__(self, client: PipelineClient) -> None:
        self._client = client
        self.input_sample_rate = client.input_sample_rate
        self.output_sample_rate = client.output_sample_rate
        self.requests: list[GenerateRequest] = []
        self.may_transcribe = asyncio.Event()
        self.may_transcribe.set()

    @property
    def answers(self) -> list[GenerateRequest]:
        return [request for request in self.requests if request.output != "transcript"]

    async def open(self, request: GenerateRequest) -> PipelineReply:
        self.requests.append(request)
        if request.output == "transcript":
            await self.may_transcribe.wait()
        return await self._client.open(request)


@contextmanager
def saying(checkpoint: Checkpoint, *answers: str) -> Iterator[None]:
    """The thinker of inline stages answers with these texts in turn, and always hears the same."""
    tokenizer, end = Tokenizer.load(checkpoint.folder), checkpoint.config.im_end_token_id
    vocabulary = checkpoint.config.thinker.text.vocab_size
    texts = {text: [*tokenizer.encode(text), end] for text in (*answers, HEARD)}
    begun: dict[int, str] = {}
    left = list(answers)
    choose = torch_engine.choose

    def scripted(logits: torch.Tensor, tokens: list[int], sampling: Sampling, chance: float) -> int:
        if len(logits) != vocabulary:
            return choose(logits, tokens, sampling, chance)
        # Every answer has a seed of its own, and a transcript none.
        if sampling.seed not in begun:
            begun[sampling.seed] = left.pop(0) if len(left) > 1 else left[0]
        text = begun[sampling.seed] if sampling.seed else HEARD
        return texts[text][len(tokens)]

    begun[0] = HEARD
    torch_engine.choose = scripted  # type: ignore[assignment]
    try:
        yield
    finally:
        torch_engine.choose = choose


@asynccontextmanager
async def talking(
    tiny: Path, run_base: Path, silero: SileroModel, options: SessionOptions | None = None
) -> AsyncIterator[tuple[Talk, Asked, Launcher]]:
    async with launched(settings(tiny, SPEECH), run_base) as pipeline:
        client = Asked(PipelineClient.of(pipeline))
        async with Talk(client, silero, options, transcribes=False, images=True, voices=PIPELINE.voices) as talk:
            await talk.send("session.update", session={"audio": {"input": {"transcription": {"model": "any"}}}})
            yield talk, client, pipeline


def question() -> Samples:
    each = recording("question-10")
    return each.samples(RATE)[int((each.speech_start - 0.2) * RATE) : int((each.speech_end + 0.2) * RATE)]


async def test_a_turn_is_answered_from_its_sound_and_written_down_beside(
    talkative: Path, tmp_path: Path, silero: SileroModel, checkpoint: Checkpoint
) -> None:
    with saying(checkpoint, ANSWER):
        async with talking(talkative, tmp_path, silero) as (talk, client, _):
            client.may_transcribe.clear()
            await talk.say(question(), quiet(1.0))
            done = await talk.until("response.done")
            # Nobody has waited for the words.
            assert "conversation.item.input_audio_transcription.completed" not in talk.counts()
            client.may_transcribe.set()
            heard = await talk.until("conversation.item.input_audio_transcription.completed")
    assert done["response"]["status"] == "completed", done["response"]["status_details"]
    assert done["response"]["output"][0]["content"][0]["transcript"] == ANSWER
    assert len(talk.sound()) == 59 * 1920 - 555
    assert heard["transcript"] == HEARD
    assert heard["item_id"] == talk.all("input_audio_buffer.committed")[0]["item_id"]
    [answer] = client.answers
    assert (answer.input, answer.output, answer.messages) == ("speech", "audio", ())
    assert [request.output for request in client.requests].count("transcript") == 1


async def test_the_answer_is_being_made_before_the_turn_is_over(
    talkative: Path, tmp_path: Path, silero: SileroModel, checkpoint: Checkpoint
) -> None:
    options = SessionOptions(silence_duration_ms=1500)
    with saying(checkpoint, ANSWER):
        async with talking(talkative, tmp_path, silero, options) as (talk, client, pipeline):
            await talk.say(question(), quiet(0.3))
            async with asyncio.timeout(20):
                while not pipeline.health()["processes"]["main"]["stages"]["code2wav"]["open"]:
                    await asyncio.sleep(0.01)
            assert "input_audio_buffer.speech_stopped" not in talk.counts()
            assert "response.created" not in talk.counts()
            await talk.say(quiet(2.0))
            await talk.until("response.done")
            assert len(client.answers) == 1


async def test_of_an_interrupted_answer_the_conversation_keeps_what_was_heard(
    talkative: Path, tmp_path: Path, silero: SileroModel, checkpoint: Checkpoint
) -> None:
    with saying(checkpoint, ANSWER, "Yes."):
        async with talking(talkative, tmp_path, silero, SessionOptions(max_lead_ms=1000)) as (talk, client, _):
            await talk.say(question(), quiet(0.6))
            await talk.until("response.output_audio.delta")
            await talk.say(quiet(1.2), question(), quiet(1.0))
            await talk.until("response.done", 2)
    first, second = talk.all("response.done")
    assert first["response"]["status"] == "cancelled"
    assert second["response"]["status"] == "completed"
    user, said = client.answers[-1].messages[:2]
    assert user == Message("user", HEARD)
    assert said.role == "assistant"
    assert ANSWER.startswith(said.content)
    # Less than three seconds of the five were played, of which text for no more than these can have been spoken.
    assert 0 < len(said.content) < 3 * 15


async def test_a_call_is_made_and_not_spoken_and_its_result_stands_behind_the_sound(
    talkative: Path, tmp_path: Path, silero: SileroModel, checkpoint: Checkpoint
) -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    with saying(checkpoint, call, "It is sunny."):
        async with talking(talkative, tmp_path, silero) as (talk, client, _):
            client.may_transcribe.clear()
            await talk.send("session.update", session={"tools": [WEATHER]})
            await talk.say(question(), quiet(1.0))
            done = await talk.until("response.done")
            [item] = done["response"]["output"]
            assert (item["type"], item["name"], item["arguments"]) == (
                "function_call",
                "get_weather",
                '{"city": "Paris"}',
            )
            assert len(talk.sound()) == 0
            output = {"type": "function_call_output", "call_id": item["call_id"], "output": "sunny"}
            await talk.send("conversation.item.create", item=output)
            await talk.send("response.create")
            told = await talk.until("response.done", 2)
            client.may_transcribe.set()
            await talk.until("conversation.item.input_audio_transcription.completed")
    assert told["response"]["output"][0]["content"][0]["transcript"] == "It is sunny."
    asked, again = client.answers[-2:]
    assert (again.input, again.utterance_id) == ("speech", asked.utterance_id)
    assert [message.role for message in again.following] == ["assistant", "tool"]
    assert again.following[0].tool_calls[0].arguments == '{"city": "Paris"}'
    assert len(talk.sound()) > 0


async def test_pictures_are_part_of_the_conversation(
    talkative: Path, tmp_path: Path, silero: SileroModel, checkpoint: Checkpoint
) -> None:
    picture = uri(png(size=(64, 64)))
    with saying(checkpoint, ANSWER):
        async with talking(talkative, tmp_path, silero) as (talk, client, _):
            content = [{"type": "input_image", "image_url": picture}]
            await talk.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
            await talk.say(question(), quiet(1.0))
            await talk.until("response.done")
    assert client.answers[-1].messages == (Message("user", "", images=(picture,)),)


async def test_an_answer_after_a_call_does_not_depend_on_whether_the_sound_stood_last(
    tiny: Path, tmp_path: Path
) -> None:
    """The same prompt, streamed in or as a recording in its place."""
    sound = np.sin(np.arange(24_000) * 0.05).astype(np.float32) * 0.1
    after = [{"role": "assistant", "content": "One moment."}, {"role": "user", "content": "Well?"}]
    async with launched(settings(tiny), tmp_path) as pipeline:
        streamed = await ask(pipeline, Question([], sound, after))
        recorded = {"role": "user", "content": "", "audios": [uri(wav(sound, 16_000), "audio/wav")]}
        stored = await ask(pipeline, Question([recorded, *after]), "other")
    assert streamed.text == stored.text
