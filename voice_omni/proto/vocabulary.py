"""The words that pipelines and clients share, so that nothing above the stages knows a model.

Inputs (``OmniRequest.inputs``)
    ``messages``: list of ``{"role": "system" | "user" | "assistant" | "tool", "content": str}``, oldest first. An
    assistant message that called functions has ``tool_calls``: list of ``{"call_id": str, "name": str, "arguments":
    str}``; a tool message has the ``call_id`` that it answers; a message with pictures, recordings or films has
    ``images``, ``audios`` or ``videos``: lists of data URIs.
    ``following``: messages that come after the sound that is streamed in, absent when there are none.
    ``tools``: list of ``{"name": str, "description": str, "parameters": dict}``, absent when there are none.
    ``tool_choice``: ``"auto"``, ``"none"``, ``"required"`` or ``{"name": str}``; only beside ``tools``.
    ``text``: the text to speak, for a route that only speaks.

Input stream (chunks from the client to a stage that declares ``input_stream``)
    :data:`AUDIO`: float32 ``[samples]``, mono, at the pipeline's ``input_sample_rate``, in [-1, 1].

Outputs (chunks and results from terminal stages to the client)
    A chunk is a dictionary with one of these keys:

    :data:`TRANSCRIPT`: str, all that is known of what the person said; with ``final``: bool.
    :data:`TEXT`: str, the next piece of the answer's text.
    :data:`TOOL_CALL`: ``{"call": int, "name": str, "arguments": str, "final": bool}``, the next piece of a function
    call: ``call`` counts those of the answer from 0, ``arguments`` is more of their JSON text.
    :data:`AUDIO`: float32 ``[samples]``, mono, at the pipeline's ``output_sample_rate``, in [-1, 1]; with
    ``marks``: list of ``[offset, text]``: the piece of text whose speech begins ``offset`` samples after the start of
    this chunk. All pieces of a stream, joined, give the text that was spoken.

    Results: ``{"transcript": str}``, ``{"text": str, "finish_reason": "stop" | "length"}``, ``{"samples": int}``;
    each may carry ``usage``: ``{"input_tokens": int, "output_tokens": int}``.
"""

from __future__ import annotations

from typing import Final

MESSAGES: Final = "messages"
FOLLOWING: Final = "following"
TOOLS: Final = "tools"
TOOL_CHOICE: Final = "tool_choice"
TOOL_CALLS: Final = "tool_calls"
CALL_ID: Final = "call_id"
IMAGES: Final = "images"
AUDIOS: Final = "audios"
VIDEOS: Final = "videos"
TEXT: Final = "text"
TOOL_CALL: Final = "tool_call"
TRANSCRIPT: Final = "transcript"
FINAL: Final = "final"
AUDIO: Final = "audio"
MARKS: Final = "marks"
SAMPLES: Final = "samples"
FINISH_REASON: Final = "finish_reason"
USAGE: Final = "usage"
