"""The client of a pipeline: gives a validated request its id and its route, and types what comes back."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
import numpy as np

from voice_omni.client.interface import (
    AudioDelta,
    Done,
    Failed,
    GenerateRequest,
    Message,
    NamedTool,
    ReplyEvent,
    Samples,
    StageTiming,
    TextDelta,
    ToolCallDelta,
    Transcript,
)
from voice_omni.pipeline.coordinator import Coordinator, RequestHandle
from voice_omni.pipeline.launcher import Launcher
from voice_omni.pipeline.request import RequestRecord, RequestState, StageOutput
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.proto import vocabulary
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import StageDone
from voice_omni.proto.payload import Data, OmniRequest

_ROUTES: Final = {
    ("speech", "audio"): "speech",
    ("speech", "text"): "speech_text",
    ("speech", "transcript"): "transcribe",
    ("text", "audio"): "text",
    ("text", "text"): "text_text",
    ("speak", "audio"): "speak",
}


def new_request_id() -> str:
    return f"req_{uuid.uuid4().hex}"


class PipelineClient:
    """The :class:`~voice_omni.client.interface.VoiceClient` of a running pipeline."""

    def __init__(
        self, spec: PipelineSpec, coordinator: Coordinator, new_id: Callable[[], str] = new_request_id
    ) -> None:
        self._spec = spec
        self._coordinator = coordinator
        self._new_id = new_id
        self.input_sample_rate = spec.input_sample_rate
        self.output_sample_rate = spec.output_sample_rate

    @classmethod
    def of(cls, pipeline: Launcher) -> PipelineClient:
        """The client of a pipeline that has been entered."""
        return cls(pipeline.spec, pipeline.coordinator)

    async def open(self, request: GenerateRequest) -> PipelineReply:
        omni = to_omni_request(self._spec, request, self._new_id())
        reply = PipelineReply(await self._coordinator.submit(omni))
        if request.input != "speech":
            # A stage that takes sound may be on this route for the sake of messages that hold some.
            await reply.end_audio()
        return reply


def to_omni_request(spec: PipelineSpec, request: GenerateRequest, request_id: str) -> OmniRequest:
    """Choose the route and check what the pipeline alone can check.

    Raises :class:`OmniError`: ``unsupported_route``, or ``invalid_value`` with the parameter's name.
    """
    route = _ROUTES.get((request.input, request.output))
    if route is None or route not in spec.routes:
        raise OmniError(
            "unsupported_route", f"the pipeline '{spec.name}' does not turn {request.input} into {request.output}"
        )
    if request.voice is not None and request.voice not in spec.voices:
        raise OmniError("invalid_value", f"voice '{request.voice}' is none of: {', '.join(spec.voices)}", param="voice")
    if request.input == "speak" and not request.text.strip():
        raise OmniError("invalid_value", "there is no text to speak", param="text")
    inputs: Data = {vocabulary.MESSAGES: [_message(message) for message in request.messages], **_tools(request)}
    if request.following:
        inputs[vocabulary.FOLLOWING] = [_message(message) for message in request.following]
    if request.input == "speak":
        inputs[vocabulary.TEXT] = request.text
    params = {
        "instructions": request.instructions,
        "voice": request.voice,
        "speed": request.speed,
        "temperature": request.temperature,
        "max_output_tokens": request.max_output_tokens,
        "seed": request.seed,
    }
    return OmniRequest(
        request_id=request_id,
        route=route,
        inputs=inputs,
        params={name: value for name, value in params.items() if value is not None},
        session_id=request.session_id,
        utterance_id=request.utterance_id,
    )


def _message(message: Message) -> Data:
    data: Data = {"role": message.role, "content": message.content}
    if message.tool_calls:
        data[vocabulary.TOOL_CALLS] = [msgspec.to_builtins(call) for call in message.tool_calls]
    if message.call_id is not None:
        data[vocabulary.CALL_ID] = message.call_id
    for name, media in (
        (vocabulary.IMAGES, message.images),
        (vocabulary.AUDIOS, message.audios),
        (vocabulary.VIDEOS, message.videos),
    ):
        if media:
            data[name] = list(media)
    return data


def _tools(request: GenerateRequest) -> Data:
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name not in {tool.name for tool in request.tools}:
        raise OmniError("invalid_value", f"there is no tool '{choice.name}' to call", param="tool_choice")
    if not request.tools:
        return {}
    return {
        vocabulary.TOOLS: [msgspec.to_builtins(tool) for tool in request.tools],
        vocabulary.TOOL_CHOICE: msgspec.to_builtins(choice),
    }


class PipelineReply:
    """The :class:`~voice_omni.client.interface.Reply` over a coordinator's handle."""

    def __init__(self, handle: RequestHandle) -> None:
        self._handle = handle
        self.request_id = handle.request_id

    async def send_audio(self, samples: Samples) -> None:
        await self._handle.append({vocabulary.AUDIO: samples})

    async def end_audio(self) -> None:
        await self._handle.end_input()

    async def __aiter__(self) -> AsyncIterator[ReplyEvent]:
        try:
            async for output in self._handle:
                event = to_event(output)
                if event is not None:
                    yield event
        except OmniError as error:
            yield Failed(error.info)
            return
        if self._handle.record.state is RequestState.COMPLETED:
            yield to_done(self._handle.record)

    async def abort(self) -> None:
        await self._handle.abort()


def to_event(output: StageOutput) -> ReplyEvent | None:
    """A chunk in the shared vocabulary as an event; None for a chunk that says nothing to a client."""
    data = output.data
    if vocabulary.AUDIO in data:
        marks = tuple((int(offset), str(text)) for offset, text in data.get(vocabulary.MARKS, ()))
        return AudioDelta(np.asarray(data[vocabulary.AUDIO], dtype=np.float32), marks)
    if vocabulary.TRANSCRIPT in data:
        return Transcript(data[vocabulary.TRANSCRIPT], bool(data.get(vocabulary.FINAL, False)))
    if vocabulary.TOOL_CALL in data:
        return ToolCallDelta(**data[vocabulary.TOOL_CALL])
    if vocabulary.TEXT in data:
        return TextDelta(data[vocabulary.TEXT])
    return None


def to_done(record: RequestRecord) -> Done:
    """Sum up the terminal stages' results."""
    results = list(record.results.values())
    usages: list[dict[str, Any]] = [result[vocabulary.USAGE] for result in results if vocabulary.USAGE in result]
    reasons = [result[vocabulary.FINISH_REASON] for result in results if vocabulary.FINISH_REASON in result]
    return Done(
        finish_reason=reasons[0] if reasons else "stop",
        input_tokens=sum(usage.get("input_tokens", 0) for usage in usages),
        output_tokens=sum(usage.get("output_tokens", 0) for usage in usages),
        timings={stage: _timing(done) for stage, done in record.done.items()},
    )


def _timing(done: StageDone) -> StageTiming:
    return StageTiming(done.opened, done.input_ended or None, done.first_output or None, done.finished)
