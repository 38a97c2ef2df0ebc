"""The responses under way: at most one writes the conversation, any number run beside it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import msgspec

from voice_omni.client.interface import ToolCallDelta
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.client_events import ResponseOptions
from voice_omni.realtime.conversation import Conversation
from voice_omni.realtime.errors import unknown_parameter
from voice_omni.realtime.events import EventWriter, ServerEvent
from voice_omni.realtime.ids import IdFactory
from voice_omni.realtime.response import CancelReason, Response, ResponseSettings
from voice_omni.realtime.settings import CustomVoice, Session, check_prompt, check_rate
from voice_omni.realtime.tools import check_tools, requested, requested_choice


def voice_name(voice: str | CustomVoice | None) -> str | None:
    return voice.id if isinstance(voice, CustomVoice) else voice


def settings_for(session: Session, options: ResponseOptions) -> ResponseSettings:
    """The session's settings, with what one response changes of them."""
    audio = options.audio.output
    modality = options.output_modalities or session.output_modalities
    limit = options.max_output_tokens
    parallel = options.parallel_tool_calls
    temperature = session.temperature if options.temperature is msgspec.UNSET else options.temperature
    return ResponseSettings(
        output="transcript" if session.type == "transcription" else modality[0],
        instructions=session.instructions if options.instructions is None else options.instructions,
        voice=voice_name(audio.voice) or session.voice,
        speed=audio.speed or session.audio.output.speed,
        output_format=audio.format or session.audio.output.format,
        max_output_tokens=session.max_output_tokens if limit is None else limit,
        tools=requested(session.tools if options.tools is None else options.tools),
        tool_choice=requested_choice(options.tool_choice or session.tool_choice),
        parallel_tool_calls=(session.parallel_tool_calls if parallel is None else parallel) is not False,
        temperature=None if temperature is msgspec.UNSET else temperature,
        metadata=options.metadata,
        interruptible=options.interruptible,
    )


def check_options(options: ResponseOptions, session: Session, rates: Collection[int], *, beta: bool = False) -> None:
    """``rates``: that ``audio/pcm`` may have. ``beta``: whether the options come from that dialect.

    Raises :class:`ProtocolError` (``unknown_parameter``, ``invalid_value``).
    """
    if not beta and options.temperature is not msgspec.UNSET:
        raise unknown_parameter("response.temperature")
    check_prompt(options.prompt, "response.prompt")
    check_rate(options.audio.output.format, rates, "response.audio.output.format")
    if options.tools is not None or options.tool_choice is not None:
        tools = session.tools if options.tools is None else options.tools
        check_tools(tools, options.tool_choice or session.tool_choice, "response")


class Responses:
    """Responses by id, from their creation until they are done. A response that is done has no events left."""

    def __init__(self, sample_rate: int, ids: IdFactory, write: EventWriter) -> None:
        """``sample_rate``: Hz, of the samples that :meth:`speak` counts."""
        self._rate = sample_rate
        self._ids = ids
        self._write = write
        self._open: dict[str, Response] = {}
        self.spoke = False
        """Whether any sound has been answered in this session."""

    @property
    def active(self) -> Response | None:
        """The response that writes the conversation at present."""
        return next((response for response in self._open.values() if response.in_conversation), None)

    def get(self, response_id: str) -> Response | None:
        """The response under way with this id; None once it is done."""
        return self._open.get(response_id)

    def begin(self, settings: ResponseSettings, conversation: Conversation | None) -> Response:
        response = Response(self._ids("resp"), settings, conversation, self._rate, self._ids, self._write)
        self._open[response.id] = response
        return response

    def say(self, response_id: str, text: str) -> list[ServerEvent]:
        """The next piece of the answer's words."""
        response = self._open.get(response_id)
        return response.say(text) if response else []

    def call(self, response_id: str, delta: ToolCallDelta) -> list[ServerEvent]:
        """The next piece of a function call."""
        response = self._open.get(response_id)
        return response.call(delta) if response else []

    def speak(
        self, response_id: str, data: bytes, samples: int, marks: tuple[tuple[int, str], ...]
    ) -> list[ServerEvent]:
        """Sound of the answer; ``data`` is in its output format, ``samples`` and ``marks`` count the source's.

        ``data`` is empty where the client is not sent any.
        """
        response = self._open.get(response_id)
        self.spoke = self.spoke or (response is not None and bool(data or samples))
        return response.speak(data, samples, marks) if response else []

    def complete(
        self,
        response_id: str,
        finish_reason: Literal["stop", "length"],
        tokens: tuple[int, int],
        *,
        spoken_input: bool,
        extra: dict[str, Any] | None = None,
    ) -> list[ServerEvent]:
        """The answer is whole. ``tokens``: of the input and the output. ``extra`` goes into ``response.done``."""
        response = self._open.pop(response_id, None)
        if response is None:
            return []
        return response.complete(finish_reason, *tokens, spoken_input=spoken_input, extra=extra)

    def fail(self, response_id: str, error: ErrorInfo) -> list[ServerEvent]:
        response = self._open.pop(response_id, None)
        return response.fail(error) if response else []

    def cancel(self, response_id: str, reason: CancelReason) -> list[ServerEvent]:
        response = self._open.pop(response_id, None)
        return response.cancel(reason) if response else []
