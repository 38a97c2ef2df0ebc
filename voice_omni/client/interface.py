"""What transports and sessions see of the pipeline: open a reply, feed it sound, read its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from voice_omni.proto.errors import ErrorInfo

Samples = NDArray[np.float32]


class Tool(msgspec.Struct, frozen=True):
    """A function that the model may call. ``parameters``: the JSON Schema of its arguments, an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class NamedTool(msgspec.Struct, frozen=True):
    """As a tool choice: this function, and no other, must be called."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the model made. ``arguments``: JSON text, as the model wrote it."""

    call_id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True):
    """One earlier message of the conversation, as text.

    ``tool_calls``: what an assistant message called, beside what it said or instead. A ``tool`` message is the result
    of the call ``call_id``. ``images``, ``audios``, ``videos``: data URIs, for models that take them.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    images: tuple[str, ...] = ()
    audios: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reply to generate, before it has an id and a route.

    ``messages`` is the conversation so far, oldest first. With ``input="speech"`` the person's turn is streamed in as
    audio and comes after them, and before ``following``. ``input="speak"`` speaks ``text`` and asks no thinker.
    ``instructions`` None means the pipeline's own system prompt. ``output="transcript"`` only writes down what was
    said. Without any message the model speaks first. ``tool_choice`` is honoured as far as the model can be made to.
    """

    input: Literal["speech", "text", "speak"] = "speech"
    output: Literal["audio", "text", "transcript"] = "audio"
    messages: tuple[Message, ...] = ()
    following: tuple[Message, ...] = ()
    text: str = ""
    instructions: str | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    voice: str | None = None
    speed: Annotated[float, msgspec.Meta(ge=0.25, le=4.0)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0.0, le=2.0)] | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=4096)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0, lt=1 << 63)] | None = None
    session_id: str | None = None
    utterance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """What the person is understood to have said so far; replaces the one before it."""

    text: str
    final: bool


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The next piece of a function call; it is neither said nor shown as text.

    ``call``: which one of the reply, from 0. ``arguments``: more of their JSON text. ``final``: that was all of it, and
    the text is valid JSON. Without ``final`` the call was cut off by the token limit.
    """

    call: int
    name: str
    arguments: str = ""
    final: bool = False


@dataclass(frozen=True, slots=True)
class AudioDelta:
    """Sound of the answer: float32 ``[samples]``, mono, [-1, 1], at the client's ``output_sample_rate``.

    ``marks``: ``(offset, text)``, the text whose speech begins so many samples after the start of this chunk.
    """

    samples: Samples
    marks: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StageTiming:
    """Moments of one request at one stage, seconds on the host's monotonic clock; None where nothing happened."""

    opened: float
    input_ended: float | None
    first_output: float | None
    finished: float


@dataclass(frozen=True, slots=True)
class Done:
    """The reply is complete. ``finish_reason`` tells why its text ended."""

    finish_reason: Literal["stop", "length"] = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    timings: Mapping[str, StageTiming] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """The reply ended early; nothing follows.

    ``code`` ``no_speech``: the input held no words; ``invalid_tool_call``: the model wrote a call that makes no sense.
    """

    error: ErrorInfo


ReplyEvent = Transcript | TextDelta | ToolCallDelta | AudioDelta | Done | Failed


class Reply(Protocol):
    """One reply in flight. Iterating it ends after ``Done`` or ``Failed``; an aborted reply just ends.

    Taking an event returns the credit of its chunk: a consumer that stops reading pauses the stages behind it.
    """

    request_id: str

    async def send_audio(self, samples: Samples) -> None:
        """The person's sound, float32 mono at ``input_sample_rate``; waits while the pipeline is behind.

        Read the events meanwhile: a stage whose output nobody takes stops taking input.
        """
        ...

    async def end_audio(self) -> None: ...

    def __aiter__(self) -> AsyncIterator[ReplyEvent]: ...

    async def abort(self) -> None:
        """Stop it everywhere. The iteration ends at once; returns when every stage has acknowledged."""
        ...


class VoiceClient(Protocol):
    """Opens replies on a running pipeline."""

    input_sample_rate: int
    output_sample_rate: int

    async def open(self, request: GenerateRequest) -> Reply:
        """Raises :class:`~voice_omni.proto.errors.OmniError`: ``overloaded`` (retryable), ``unsupported_route``."""
        ...
