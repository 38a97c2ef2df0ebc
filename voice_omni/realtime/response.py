"""One response: its events, in the contract's order, from ``response.created`` to exactly one ``response.done``."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from voice_omni.client.interface import Tool, ToolCallDelta, ToolChoice
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.conversation import Conversation
from voice_omni.realtime.events import EventWriter, ServerEvent, usage
from voice_omni.realtime.ids import IdFactory
from voice_omni.realtime.items import FunctionCall, MessageItem
from voice_omni.realtime.outputs import CallOutput, MessageOutput, Output, Slot
from voice_omni.realtime.settings import AudioFormat, TokenLimit

Modality = Literal["audio", "text", "transcript"]
CancelReason = Literal["turn_detected", "client_cancelled"]


class ResponseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one response: the session's settings with the request's own changes.

    ``output`` ``transcript`` is what there is instead of a response in a transcription session. Without
    ``parallel_tool_calls`` only the first call is made. ``temperature`` None is the model's own.
    """

    output: Modality
    instructions: str
    voice: str
    speed: float
    output_format: AudioFormat
    max_output_tokens: TokenLimit
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    temperature: float | None = None
    metadata: dict[str, str] | None = None
    interruptible: bool = True


class Response:
    """Writes one answer. Once it is done, nothing more comes out of it.

    ``conversation`` None keeps its items out of the conversation. Each item appears with its first content, so that a
    response which fails or is cancelled before it says anything leaves none behind.

    Function calls follow the message that precedes them. While that is being spoken they are held back: a client that
    has a call's result asks for the next response at once, which it may only do when this one is done.
    """

    def __init__(
        self,
        response_id: str,
        settings: ResponseSettings,
        conversation: Conversation | None,
        sample_rate: int,
        ids: IdFactory,
        write: EventWriter,
    ) -> None:
        """``sample_rate``: Hz, of the samples that :meth:`speak` counts."""
        self.id = response_id
        self.settings = settings
        self._conversation = conversation
        self._rate = sample_rate
        self._ids = ids
        self._write = write
        self._outputs: list[Output] = []
        self._message: MessageOutput | None = None
        self._calls: dict[int, CallOutput] = {}
        self._held: list[ToolCallDelta] = []
        self._status = "in_progress"
        self._details: dict[str, Any] | None = None
        self._usage: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        return self._status != "in_progress"

    @property
    def in_conversation(self) -> bool:
        return self._conversation is not None

    @property
    def item(self) -> MessageItem | None:
        """Its message, the last one if there are several."""
        return self._message.item if self._message is not None else None

    def created(self) -> ServerEvent:
        return self._write("response.created", response=self.to_json())

    def say(self, text: str) -> list[ServerEvent]:
        """The next piece of the answer's words: its transcript, or its text when nothing is spoken."""
        if self.done or not text:
            return []
        message, events = self._open_message()
        return [*events, message.say(text)]

    def speak(self, data: bytes, samples: int, marks: tuple[tuple[int, str], ...]) -> list[ServerEvent]:
        """Sound of the answer; ``data`` is what the client gets, ``samples`` and ``marks`` count the source's."""
        if self.done:
            return []
        message, events = self._open_message()
        return [*events, *message.speak(data, samples, marks)]

    def call(self, delta: ToolCallDelta) -> list[ServerEvent]:
        """The next piece of a function call."""
        if self.done or (delta.call > 0 and not self.settings.parallel_tool_calls):
            return []
        message = self._message
        if message is None or not message.open:
            return self._call(delta)
        if self.settings.output == "audio":
            self._held.append(delta)
            return []
        return [*message.close("completed", whole=True), *self._call(delta)]

    def complete(
        self,
        finish_reason: Literal["stop", "length"],
        input_tokens: int,
        output_tokens: int,
        *,
        spoken_input: bool,
        extra: dict[str, Any] | None = None,
    ) -> list[ServerEvent]:
        """The answer is whole, or ended at the token limit."""
        if self.done:
            return []
        whole = finish_reason == "stop" or bool(self._held)
        events = self._close_message("completed" if whole else "incomplete", whole=True)
        for delta in self._held:
            events += self._call(delta)
        spoken_output = self.settings.output == "audio" and self._message is not None
        counted = usage(input_tokens, output_tokens, spoken_input=spoken_input, spoken_output=spoken_output)
        details = None if finish_reason == "stop" else {"type": "incomplete", "reason": "max_output_tokens"}
        return [*events, *self._finish("completed" if details is None else "incomplete", details, counted, extra)]

    def cancel(self, reason: CancelReason) -> list[ServerEvent]:
        return self._break_off("cancelled", {"type": "cancelled", "reason": reason})

    def fail(self, error: ErrorInfo) -> list[ServerEvent]:
        kind = "invalid_request_error" if error.code in ("invalid_value", "unsupported_route") else "server_error"
        failure = {"type": kind, "code": error.code, "message": error.message}
        return self._break_off("failed", {"type": "failed", "error": failure})

    def to_json(self) -> dict[str, Any]:
        settings = self.settings
        of_beta = {} if settings.temperature is None else {"temperature": settings.temperature}
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": self._status,
            "status_details": self._details,
            "output": [output.item.to_json() for output in self._outputs],
            "conversation_id": self._conversation.id if self._conversation is not None else None,
            "output_modalities": [settings.output],
            "max_output_tokens": settings.max_output_tokens,
            "audio": {"output": {"format": msgspec.to_builtins(settings.output_format), "voice": settings.voice}},
            "metadata": settings.metadata,
            "usage": self._usage,
            **of_beta,
        }

    def _open_message(self) -> tuple[MessageOutput, list[ServerEvent]]:
        """The message that goes on, or a new one and the events that precede its first content."""
        message = self._message
        if message is not None and message.open:
            return message, []
        message = MessageOutput(self._ids("item"), self._slot(), self._rate if self._spoken else None)
        self._message = message
        self._outputs.append(message)
        return message, message.begin()

    def _call(self, delta: ToolCallDelta) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        call = self._calls.get(delta.call)
        if call is None:
            item = FunctionCall(self._ids("item"), self._ids("call"), delta.name, status="in_progress")
            call = self._calls[delta.call] = CallOutput(item, self._slot())
            self._outputs.append(call)
            events += call.begin()
        events += call.write(delta.arguments)
        return [*events, *call.complete()] if delta.final else events

    @property
    def _spoken(self) -> bool:
        return self.settings.output == "audio"

    def _slot(self) -> Slot:
        return Slot(self.id, len(self._outputs), self._conversation, self._write)

    def _close_message(self, status: Literal["completed", "incomplete"], *, whole: bool) -> list[ServerEvent]:
        message = self._message
        return message.close(status, whole=whole) if message is not None and message.open else []

    def _break_off(self, status: str, details: dict[str, Any]) -> list[ServerEvent]:
        if self.done:
            return []
        if self._message is not None and self._message.open:
            self._message.stop_at_sent()
        return [*self._close_message("incomplete", whole=False), *self._finish(status, details, usage(), None)]

    def _finish(
        self, status: str, details: dict[str, Any] | None, counted: dict[str, Any], extra: dict[str, Any] | None
    ) -> list[ServerEvent]:
        self._status, self._details, self._usage = status, details, counted
        events = [event for call in self._calls.values() if call.open for event in call.cut()]
        return [*events, self._write("response.done", response={**self.to_json(), **(extra or {})})]
