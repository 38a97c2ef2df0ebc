"""Conversations to the text that the thinker reads, through the checkpoint's own chat template.

A template is a Jinja program that comes with the weights: it runs in a sandbox that can only read what it is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data
from voice_omni.proto.vocabulary import AUDIOS, CALL_ID, IMAGES, TOOL_CALLS, VIDEOS

MEDIA_TYPES: Final = {AUDIOS: "audio", IMAGES: "image", VIDEOS: "video"}
"""A message's media stand before its text, in this order."""

_DEFAULT: Final = Path(__file__).with_name("chat_template.jinja")


class ChatTemplate:
    """Renders conversations. ``plain`` makes a text from outside harmless: no control token may be found in it."""

    def __init__(self, source: str, plain: Callable[[str], str]) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise OmniError("weights_corrupt", f"the chat template cannot be read: {error}") from error
        self._plain = plain

    @classmethod
    def load(cls, folder: Path, plain: Callable[[str], str]) -> ChatTemplate:
        """From ``chat_template.jinja``, ``chat_template.json`` or ``tokenizer_config.json``; without them, Qwen3's.

        Raises :class:`OmniError` ``weights_corrupt`` for files that cannot be read.
        """
        file = folder / "chat_template.jinja"
        if file.exists():
            return cls(file.read_text(), plain)
        for name in ("chat_template.json", "tokenizer_config.json"):
            if (folder / name).exists():
                try:
                    source = json.loads((folder / name).read_bytes()).get("chat_template")
                except (ValueError, AttributeError) as error:
                    raise OmniError("weights_corrupt", f"{folder / name}: {error}") from error
                if isinstance(source, str):
                    return cls(source, plain)
        return cls(_DEFAULT.read_text(), plain)

    def render(self, messages: Sequence[Data], tools: Sequence[Data] = (), *, answer: bool = True) -> str:
        """The conversation as text, with one placeholder token for each sound, picture and film.

        ``messages`` and ``tools`` as in :mod:`voice_omni.proto.vocabulary`. ``answer``: end where the assistant's
        answer begins. Raises :class:`OmniError` ``invalid_value`` if the template refuses the conversation.
        """
        try:
            return self._template.render(
                messages=[self._message(message) for message in messages],
                tools=[{"type": "function", "function": self._safe(tool)} for tool in tools] or None,
                add_generation_prompt=answer,
            )
        except jinja2.TemplateError as error:
            raise OmniError("invalid_value", f"the chat template refuses this: {error}", param="messages") from error

    def _message(self, message: Data) -> Data:
        text = self._safe(message["content"])
        media = [{"type": kind} for name, kind in MEDIA_TYPES.items() for _ in message.get(name, ())]
        written: Data = {"role": message["role"], "content": text}
        if media:
            written["content"] = [*media, {"type": "text", "text": text}] if text else media
        if calls := message.get(TOOL_CALLS):
            written["tool_calls"] = [
                {"type": "function", "id": call[CALL_ID], "function": self._call(call)} for call in calls
            ]
        return written

    def _call(self, call: Data) -> Data:
        return {"name": self._safe(call["name"]), "arguments": self._safe(call["arguments"] or "{}")}

    def _safe(self, value: Any) -> Any:
        """The same tree with every text in it made harmless."""
        if isinstance(value, str):
            return self._plain(value)
        if isinstance(value, dict):
            return {self._plain(name): self._safe(each) for name, each in value.items()}
        if isinstance(value, Iterable):
            return [self._safe(each) for each in value]
        return value


def _to_json(value: Any, **options: Any) -> str:
    """Not Jinja's own, which escapes for HTML."""
    return json.dumps(value, ensure_ascii=False, **options)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
