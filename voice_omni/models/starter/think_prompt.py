"""The thinker's prompt: ChatML as SmolLM2-Instruct was trained on, cut to what fits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data

EXAMPLES: Final = (
    ("Hello!", "Hello! How can I help you today?"),
    ("Who painted the Mona Lisa?", "The Mona Lisa was painted by Leonardo da Vinci."),
    ("What is three plus four?", "Three plus four is seven."),
    ("Who are you?", "I am a voice assistant. You can ask me a question, or just talk with me."),
    (
        "Tell me something interesting about the moon.",
        "The moon is slowly moving away from the Earth, by about four centimeters every year.",
    ),
    ("Please open the window.", "I am sorry, I cannot do that. But I can answer your questions."),
    ("Thank you, that is all.", "You are welcome. Talk to you soon!"),
)
"""A conversation that shows so small a model what it is told in vain: to give short answers that can be spoken."""

Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids; the first ``prefix_len``, all before the person's last message, are likely to come again."""

    tokens: list[int]
    prefix_len: int


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """In tokens. ``history``: earlier messages; ``message``: the last one; ``context``: the prompt and the answer."""

    history: int
    message: int
    context: int


class PromptWriter:
    """Renders conversations. ``encode`` takes text without control tokens; ``start`` and ``end`` enclose a message."""

    def __init__(self, encode: Encode, *, start: int, end: int, limits: PromptLimits) -> None:
        self._encode = encode
        self._start = start
        self._end = end
        self._limits = limits
        self._newline = encode("\n")
        self._cue = [start, *encode("assistant\n")]

    def opening(self, system: str, examples: Sequence[tuple[str, str]] = ()) -> list[int]:
        """What stands before every conversation; kept whole."""
        tokens = self._message({"role": "system", "content": system})
        for question, answer in examples:
            tokens += self._message({"role": "user", "content": question})
            tokens += self._message({"role": "assistant", "content": answer})
        return tokens

    def write(self, opening: Sequence[int], messages: Sequence[Data], max_new_tokens: int, start: str = "") -> Prompt:
        """A prompt that the assistant's answer to the last of ``messages`` continues; without any, its greeting.

        ``start``: how the answer begins. The oldest messages are left out when the history is too long, the beginning
        of the last one when that is. Raises :class:`OmniError`: ``invalid_value`` (a system prompt that leaves no
        room).
        """
        prefix = self.prefix(opening, messages[:-1])
        last = self._message(messages[-1], self._limits.message) if messages else []
        tokens = [*prefix, *last, *self._cue, *(self._encode(start) if start else ())]
        if len(tokens) + max_new_tokens > self._limits.context:
            raise OmniError(
                "invalid_value",
                f"the instructions and the answer take {len(tokens) + max_new_tokens} tokens, "
                f"the model has room for {self._limits.context}",
                param="instructions",
            )
        return Prompt(tokens, len(prefix))

    def prefix(self, opening: Sequence[int], history: Sequence[Data]) -> list[int]:
        """How every prompt begins that answers a message after ``history``."""
        rendered = [self._message(message) for message in history]
        start = first_kept([len(message) for message in rendered], self._limits.history)
        return [*opening, *(token for message in rendered[start:] for token in message)]

    def _message(self, message: Data, limit: int | None = None) -> list[int]:
        role, content = self._encode(f"{message['role']}\n"), message["content"]
        body = self._encode(f"{message['role']}\n{content}")
        if limit is not None and len(body) > limit:
            body = [*role, *body[-limit:]]
        return [self._start, *body, self._end, *self._newline]


def first_kept(lengths: Sequence[int], limit: int) -> int:
    """The index of the first message to keep so that at most ``limit`` tokens remain.

    The cut moves in steps of about half the limit, counted from the conversation's start: between two steps prompts
    begin with the same tokens, whose KV cache can be used again.
    """
    total = sum(lengths)
    if total <= limit:
        return 0
    step = max(1, limit // 2)
    excess = total - limit
    cut = -(-excess // step) * step
    dropped = 0
    for index, length in enumerate(lengths):
        if dropped >= cut:
            return index
        dropped += length
    return len(lengths)
