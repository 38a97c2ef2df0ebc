"""The stage ``audio_encoder``: sound to rows for the thinker while it is being spoken (see :mod:`.audio_encoder`).

Input stream ``{"audio": float32 [n]}``, 16 kHz, and recordings from preprocessing (:data:`~.wire.SOUND`). Stream
output: :data:`~.wire.ROWS`. Result: nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import torch

from voice_omni.model_runner.interface import Chunk, Emit, Outcome, Work
from voice_omni.models.qwen3_omni.audio_encoder import AudioStream, encode_due
from voice_omni.models.qwen3_omni.audio_tower import CHUNK, AudioEncoder, MelWindow
from voice_omni.models.qwen3_omni.mel import FRAMES_PER_SECOND, SAMPLE_RATE, SHORTEST
from voice_omni.models.qwen3_omni.options import AudioEncoderOptions
from voice_omni.models.qwen3_omni.requests import HEARING
from voice_omni.models.qwen3_omni.wire import ENDED, LIVE, MEDIUM, ROWS, SOUND
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import CLIENT, StagePayload
from voice_omni.proto.vocabulary import AUDIO


class WindowMemory:
    """An encoder that remembers the latest windows by their content, so that it cannot change a result.

    A person who goes on after a false pause is heard again from the start of the turn, and once more for the
    transcript: what was encoded then costs nothing.
    """

    def __init__(self, encoder: AudioEncoder, size: int) -> None:
        self.config = encoder.config
        self._encoder = encoder
        self._size = size
        self._known: OrderedDict[bytes, torch.Tensor] = OrderedDict()

    def encode(self, windows: Sequence[MelWindow]) -> list[torch.Tensor]:
        """As :meth:`.audio_tower.AudioEncoder.encode`."""
        keys = [_key(window) for window in windows]
        missing = {key: window for key, window in zip(keys, windows, strict=True) if key not in self._known}
        fresh = dict(zip(missing, self._encoder.encode(list(missing.values())), strict=True)) if missing else {}
        rows = []
        for key in keys:
            if key in self._known:
                self._known.move_to_end(key)
            rows.append(fresh[key] if key in fresh else self._known[key])
        self._known |= fresh
        while len(self._known) > self._size:
            self._known.popitem(last=False)
        return rows


def _key(window: MelWindow) -> bytes:
    digest = blake2b(window.mel.numpy().tobytes(), digest_size=16)
    digest.update(b"%d" % window.padded)
    return digest.digest()


@dataclass(slots=True)
class Hearing:
    """One request's sounds by their media. ``length``: samples of the live one."""

    sounds: dict[int, AudioStream] = field(default_factory=dict)
    length: int = 0


class AudioRunner:
    """A :class:`~voice_omni.model_runner.interface.BatchRunner`; costs are seconds of sound.

    ``window_samples``: how much is encoded together, ``window_chunks`` seconds.
    """

    def __init__(self, encoder: AudioEncoder, options: AudioEncoderOptions) -> None:
        self._encoder = WindowMemory(encoder, options.remembered_windows)
        self._options = options
        seconds = options.window_s * FRAMES_PER_SECOND
        self._window_frames = seconds or encoder.config.n_window_infer
        self.window_chunks = self._window_frames // CHUNK
        self.window_samples = self._window_frames * SAMPLE_RATE // FRAMES_PER_SECOND

    def open(self, payload: StagePayload) -> Hearing:
        state = Hearing()
        if payload.request.route in HEARING:
            state.sounds[LIVE] = self._stream()
        return state

    def cost(self, work: Work[Hearing]) -> float:
        return sum(len(chunk.data[SOUND if SOUND in chunk.data else AUDIO]) for chunk in work.chunks) / SAMPLE_RATE

    def run(self, batch: Sequence[Work[Hearing]]) -> Sequence[Outcome]:
        outcomes = [Outcome() for _ in batch]
        heard: list[tuple[Outcome, int, AudioStream]] = []
        for work, outcome in zip(batch, outcomes, strict=True):
            try:
                ended = self._push(work)
            except OmniError as error:
                outcome.error = error
                continue
            heard += [(outcome, medium, stream) for medium, stream in work.state.sounds.items()]
            for medium in ended:
                work.state.sounds.pop(medium, None)
        changes = encode_due(self._encoder, [stream for _, _, stream in heard])
        for (outcome, medium, stream), changed in zip(heard, changes, strict=True):
            if changed:
                first = min(row for row, _ in changed)
                rows = stream.rows()[first:].numpy()
                outcome.emits.append(Emit({ROWS: {"medium": medium, "heard": rows, "first": first}}))
        for work, outcome in zip(batch, outcomes, strict=True):
            if work.ended and outcome.error is None:
                self._end(work.state, outcome)
        return outcomes

    def close(self, state: Hearing) -> None:
        state.sounds.clear()

    def _push(self, work: Work[Hearing]) -> list[int]:
        """Take the sound in; the media of which that was all. Raises :class:`OmniError`: ``invalid_value``,
        ``no_speech``."""
        state = work.state
        ended = [medium for chunk in work.chunks if (medium := self._take(state, chunk)) is not None]
        if work.ended and (live := state.sounds.get(LIVE)) is not None:
            if state.length < SHORTEST:
                raise OmniError("no_speech", "there was no sound")
            live.finish()
        return ended

    def _take(self, state: Hearing, chunk: Chunk) -> int | None:
        if chunk.source == CLIENT:
            state.length += len(chunk.data[AUDIO])
            state.sounds[LIVE].push(chunk.data[AUDIO])
            return None
        medium: int = chunk.data[MEDIUM]
        stream = state.sounds.setdefault(medium, self._stream())
        stream.push(chunk.data[SOUND])
        if not chunk.data[ENDED]:
            return None
        stream.finish()
        return medium

    def _end(self, state: Hearing, outcome: Outcome) -> None:
        outcome.result = {}
        if LIVE not in state.sounds:
            return
        last = next((emit.data[ROWS] for emit in outcome.emits if emit.data[ROWS]["medium"] == LIVE), None)
        if last is not None:
            last[ENDED] = True
        else:
            outcome.emits.append(Emit({ROWS: {"medium": LIVE, ENDED: True}}))

    def _stream(self) -> AudioStream:
        return AudioStream(
            bands=self._encoder.config.num_mel_bins,
            window_frames=self._window_frames,
            tolerance=self._options.tolerance_db / 10,
            max_seconds=self._options.max_seconds,
        )
