"""The stage ``preprocess``: a conversation to the thinker's prompt, and its media to what the encoders read.

Opens with a request's ``inputs``. Stream output: to the thinker the prompt (:data:`~.wire.PROMPT`), to the image
encoder frames (:data:`~.wire.FRAMES`), to the audio encoder recordings (:data:`~.wire.SOUND`), and, for a text that is
only spoken, to the talker what the thinker would have told it. Result: nothing.

Media are decoded one in each call, so that nobody waits for another one's film.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from PIL import Image

from voice_omni.engines.interface import Piece
from voice_omni.model_runner.interface import Emit, Outcome, Work
from voice_omni.models.qwen3_omni.audio_tower import row_count
from voice_omni.models.qwen3_omni.chat import MEDIA_TYPES
from voice_omni.models.qwen3_omni.config import OmniConfig
from voice_omni.models.qwen3_omni.media import FilmSettings, MediaLimits, decode_film, decode_picture, decode_sound
from voice_omni.models.qwen3_omni.mel import HOP, SAMPLE_RATE, Samples
from voice_omni.models.qwen3_omni.options import PreprocessOptions
from voice_omni.models.qwen3_omni.patches import Grid, PatchSettings, fitted_size
from voice_omni.models.qwen3_omni.placeholders import Film, Medium, Picture, Sound
from voice_omni.models.qwen3_omni.prompt import Prompt, PromptWriter
from voice_omni.models.qwen3_omni.prompt_segments import segments
from voice_omni.models.qwen3_omni.requests import HEARING, SPEAK, TRANSCRIBE, forced_start, params_of, tools_of
from voice_omni.models.qwen3_omni.talker_view import TalkerView
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.models.qwen3_omni.wire import ENDED, FRAMES, MEDIUM, PROMPT, SOUND, SPOKEN, USER
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, OmniRequest, StagePayload
from voice_omni.proto.vocabulary import AUDIOS, FOLLOWING, IMAGES, MESSAGES, TEXT

_SOUND_PART: Final = 30 * SAMPLE_RATE
"""Samples of one chunk."""


class PreprocessParams(msgspec.Struct, frozen=True):
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """``frames``: uint8 ``[n, height, width, 3]``; ``sound``: float32 ``[n]`` at 16 kHz."""

    medium: Medium
    frames: Sequence[Any] = ()
    sound: Samples | None = None


@dataclass(slots=True)
class Conversation:
    """One request. ``sources``: the media that are still to be decoded, in the order of the messages."""

    request: OmniRequest
    messages: list[Data]
    sources: deque[tuple[str, Any]]
    decoded: list[Decoded] = field(default_factory=list)


class PreprocessRunner:
    """A :class:`~voice_omni.model_runner.interface.BatchRunner`."""

    def __init__(
        self,
        config: OmniConfig,
        options: PreprocessOptions,
        writer: PromptWriter,
        tokenizer: Tokenizer,
        patches: PatchSettings,
    ) -> None:
        self._config = config
        self._options = options
        self._writer = writer
        self._tokenizer = tokenizer
        self._patches = patches
        self._limits = MediaLimits(max_bytes=options.max_media_mb * 2**20, max_seconds=options.max_media_s)
        self._film = FilmSettings(fps=options.film_fps, max_frames=options.film_frames)

    def open(self, payload: StagePayload) -> Conversation:
        """Raises :class:`OmniError` ``invalid_value``."""
        request = payload.request
        messages = self._messages(request)
        return Conversation(request, messages, deque(_sources(messages)))

    def cost(self, work: Work[Conversation]) -> float:
        return 1.0

    def run(self, batch: Sequence[Work[Conversation]]) -> Sequence[Outcome]:
        return [self._next(work.state) for work in batch]

    def close(self, state: Conversation) -> None:
        """Nothing outlives the state itself."""

    def _next(self, state: Conversation) -> Outcome:
        try:
            if state.sources:
                state.decoded.append(self._decode(*state.sources.popleft()))
                return Outcome(more=True)
            if state.request.route == SPEAK:
                return Outcome(list(self._spoken(state)), result={})
            return Outcome(list(self._emits(state)), result={})
        except OmniError as error:
            return Outcome(error=error)

    # -- the conversation ------------------------------------------------------------------------------------------

    def _messages(self, request: OmniRequest) -> list[Data]:
        """All that the template is to render; the sound that is streamed in is an ``AUDIOS`` of None."""
        options, inputs = self._options, request.inputs
        if request.route == TRANSCRIBE:
            return [{"role": "user", "content": options.transcribe_prompt, AUDIOS: [None]}]
        if request.route == SPEAK:
            return [{"role": "user", "content": options.speak_prompt}]
        instructions = params_of(request, PreprocessParams).instructions
        system = options.system_prompt if instructions is None else instructions
        messages: list[Data] = [{"role": "system", "content": system}] if system else []
        messages += inputs.get(MESSAGES, ())
        if request.route in HEARING:
            messages.append({"role": "user", "content": "", AUDIOS: [None]})
        return messages + list(inputs.get(FOLLOWING, ()))

    def _emits(self, state: Conversation) -> Iterator[Emit]:
        prompt, live, dropped = self._written(state)
        start = self._tokenizer.encode(forced_start(state.request))
        if start:
            first = prompt.next_position + np.arange(len(start), dtype=np.float32)
            positions = np.concatenate((prompt.positions, np.broadcast_to(first, (3, len(start)))), axis=1)
            prompt = Prompt([*prompt.tokens, *start], positions, prompt.media, prompt.at)
        parts = [msgspec.structs.asdict(part) for part in segments(self._config.thinker, prompt, live)]
        yield Emit({PROMPT: parts, ENDED: True}, ("thinker",))
        for number, decoded in enumerate(state.decoded[dropped:]):
            pair = self._patches.temporal_patch_size
            for first_frame in range(0, len(decoded.frames), pair):
                frames = np.stack([np.asarray(frame) for frame in decoded.frames[first_frame : first_frame + pair]])
                yield Emit({FRAMES: frames, MEDIUM: number}, ("image_encoder",))
            if decoded.sound is not None:
                for begin in range(0, len(decoded.sound), _SOUND_PART):
                    end = begin + _SOUND_PART
                    part = {SOUND: decoded.sound[begin:end], MEDIUM: number, ENDED: end >= len(decoded.sound)}
                    yield Emit(part, ("audio_encoder",))

    def _written(self, state: Conversation) -> tuple[Prompt, int | None, int]:
        """The prompt, which of its media is streamed in, and how many of the conversation's media it leaves out.

        The oldest messages are left out until the rest fits. Raises :class:`OmniError` ``invalid_value`` if the last
        one alone does not.
        """
        messages, media, dropped = state.messages, state.decoded, 0
        tools = tools_of(state.request)
        while True:
            prompt = self._writer.write(messages, [each.medium for each in media], tools)
            if len(prompt.tokens) <= self._options.context_tokens:
                live = next((number for number, (_, source) in enumerate(_sources(messages)) if source is None), None)
                return prompt, live, dropped
            first = 1 if messages and messages[0]["role"] == "system" else 0
            # In steps of a quarter, so that prompts of consecutive turns begin alike, and never inside of a call.
            cut = first + max(1, (len(messages) - first) // 4)
            while cut < len(messages) and messages[cut]["role"] != "user":
                cut += 1
            if cut >= len(messages):
                limit = self._options.context_tokens
                raise OmniError("invalid_value", f"the last message does not fit into {limit} tokens", param="messages")
            gone = sum(1 for _ in _sources(messages[first:cut]))
            messages, media, dropped = [*messages[:first], *messages[cut:]], media[gone:], dropped + gone

    def _spoken(self, state: Conversation) -> Iterator[Emit]:
        """What the talker would have been told if the thinker had answered with this text."""
        prompt = self._writer.write(state.messages)
        view = TalkerView(self._config)
        width = self._config.thinker.text.hidden_size
        piece = Piece(prompt.tokens, positions=prompt.positions)
        if part := view.read(piece, np.empty((0, width), np.float32)):
            yield Emit({USER: part.data()}, ("talker",))
        text = self._tokenizer.encode(self._tokenizer.plain(str(state.request.inputs[TEXT])))
        yield Emit({SPOKEN: [*view.close(), *text]}, ("talker",))

    # -- media -----------------------------------------------------------------------------------------------------

    def _decode(self, kind: str, source: Any) -> Decoded:
        """Raises :class:`OmniError` ``invalid_value``."""
        if kind == AUDIOS:
            if source is None:
                return Decoded(Sound(1))
            sound = source if isinstance(source, np.ndarray) else decode_sound(source, self._limits)
            return Decoded(Sound(row_count(len(sound) // HOP)), sound=sound)
        if kind == IMAGES:
            frames = [self._fitted(decode_picture(source, self._limits))]
            return Decoded(Picture(self._grid(frames)), frames)
        film = decode_film(source, self._film, self._limits)
        rows = None if film.sound is None else row_count(len(film.sound) // HOP)
        frames = [self._fitted(frame) for frame in film.frames]
        return Decoded(Film(self._grid(frames), film.grid_seconds, rows), frames, film.sound)

    def _fitted(self, picture: Image.Image) -> Image.Image:
        height, width = fitted_size(picture.height, picture.width, self._patches)
        return picture.resize((width, height), Image.Resampling.BICUBIC)

    def _grid(self, frames: Sequence[Image.Image]) -> Grid:
        pairs = -(-len(frames) // self._patches.temporal_patch_size)
        side = self._patches.patch_size
        return Grid(pairs, frames[0].height // side, frames[0].width // side)


def _sources(messages: Sequence[Data]) -> Iterator[tuple[str, Any]]:
    """The media of messages in the order in which the template names them."""
    for message in messages:
        for kind in MEDIA_TYPES:
            for source in message.get(kind, ()):
                yield kind, source
