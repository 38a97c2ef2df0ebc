"""From a conversation and a response's settings to the request for its answer."""

from __future__ import annotations

from collections.abc import Collection

from voice_omni.client.interface import GenerateRequest, Message
from voice_omni.realtime.response import ResponseSettings
from voice_omni.session.utterance import Utterance


def build_request(
    settings: ResponseSettings,
    messages: tuple[Message, ...],
    utterance: Utterance | None,
    *,
    session_id: str,
    voices: Collection[str],
    following: tuple[Message, ...] = (),
) -> GenerateRequest:
    """With an utterance, its sound was said after ``messages`` and before ``following``; without, ``messages`` are all.

    ``voices``: the pipeline's own; any other name that the protocol let through stands for its default voice. Two
    equal requests ask for the same answer, so that one which was begun early can serve for the other.
    """
    return GenerateRequest(
        input="text" if utterance is None else "speech",
        output=settings.output,
        messages=messages,
        following=following,
        instructions=settings.instructions or None,
        tools=settings.tools,
        tool_choice=settings.tool_choice,
        voice=settings.voice if settings.voice in voices else None,
        temperature=settings.temperature,
        speed=None if settings.speed == 1.0 else settings.speed,
        max_output_tokens=None if settings.max_output_tokens == "inf" else settings.max_output_tokens,
        session_id=session_id,
        utterance_id=utterance.id if utterance is not None else None,
    )


def transcript_request(utterance: Utterance) -> GenerateRequest:
    """To write down what was said. It belongs to no session, whose next answer would find other things computed."""
    return GenerateRequest(input="speech", output="transcript", utterance_id=utterance.id)
