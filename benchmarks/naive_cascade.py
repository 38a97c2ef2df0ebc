"""What most people build first: wait for silence, transcribe, generate everything, speak everything, then send.

The same models through the same runners as the server's stages, called one after the other in this process.
"""

from __future__ import annotations

import importlib
import os
import queue
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from voice_omni.engines.interface import RowOutput
from voice_omni.model_runner.interface import Chunk, Work
from voice_omni.models.starter.pipeline import PIPELINE
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.payload import OmniRequest, StagePayload

SILENCE_S = 0.5
_AUDIBLE = 0.01


@dataclass(frozen=True)
class Answer:
    """``seconds`` of sound, of which the first ``silence`` are quiet."""

    text: str
    seconds: float
    silence: float


class NaiveCascade:
    """Loads every model into this process."""

    def __init__(self) -> None:
        self._listen = _build("encoder")
        self._think, self._engine = _build("thinker")
        self._talk = _build("talker")
        self._vocode = _build("code2wav")
        self._rows: dict[str, queue.SimpleQueue[RowOutput]] = {}
        self._woken = threading.Event()
        self._engine_lock = threading.Lock()
        self._model_locks = {name: threading.Lock() for name in ("encoder", "talker", "code2wav")}
        self._engine.start(self._woken.set)
        threading.Thread(target=self._pump, daemon=True).start()
        self._count = 0

    def until_silence(self, samples: NDArray[np.float32], rate: int) -> float:
        """Seconds into the recording at which half a second of silence has been heard after speech.

        By level, which is exact on these recordings: their quiet is clean.
        """
        window = rate // 100
        level = np.abs(samples[: len(samples) // window * window].reshape(-1, window)).max(axis=1)
        last = int(np.flatnonzero(level > _AUDIBLE)[-1])
        return (last + 1) / 100 + SILENCE_S

    def answer(self, samples: NDArray[np.float32], rate: int) -> Answer:
        """From a whole utterance to a whole answer; blocks until all of it is spoken."""
        self._count += 1
        request = OmniRequest(request_id=f"naive{self._count}", route="speech", inputs={"messages": []})
        heard = soxr.resample(samples, rate, PIPELINE.input_sample_rate)
        with self._model_locks["encoder"]:
            transcript = self._run(self._listen, request, {}, [Chunk("client", {"audio": heard})])[1]
        text = self._generate(request, transcript)
        with self._model_locks["talker"]:
            frames = self._run(self._talk, request, {}, [Chunk("thinker", {"text": text})])[0]
        with self._model_locks["code2wav"]:
            sound = self._decode(request, frames)
        loud = np.flatnonzero(np.abs(sound) > _AUDIBLE)
        rate_out = PIPELINE.output_sample_rate
        return Answer(text, len(sound) / rate_out, (int(loud[0]) if len(loud) else 0) / rate_out)

    def _run(
        self, runner: Any, request: OmniRequest, results: dict[str, Any], chunks: list[Chunk]
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A whole request through a batch runner: what it streams out, and its result."""
        state = runner.open(StagePayload(request, results))
        emitted: list[dict[str, Any]] = []
        try:
            while True:
                [outcome] = runner.run([Work(request.request_id, state, chunks, True)])
                if outcome.error is not None:
                    raise outcome.error
                emitted += [emit.data for emit in outcome.emits]
                if outcome.result is not None:
                    return emitted, outcome.result
                chunks = []
        finally:
            runner.close(state)

    def _generate(self, request: OmniRequest, transcript: dict[str, Any]) -> str:
        state, row = self._think.open(StagePayload(request, {"encoder": transcript}))
        outputs: queue.SimpleQueue[RowOutput] = queue.SimpleQueue()
        self._rows[row.row_id] = outputs
        with self._engine_lock:
            self._engine.add(row)
        text = ""
        while True:
            output = outputs.get()
            if output.error is not None:
                raise output.error
            outcome = self._think.advance(state, output)
            text += "".join(emit.data["text"] for emit in outcome.emits)
            if outcome.result is not None:
                self._think.close(state)
                return text

    def _pump(self) -> None:
        """Hand the engine's tokens to whoever waits for them."""
        while True:
            self._woken.wait()
            self._woken.clear()
            with self._engine_lock:
                outputs = self._engine.step()
            for output in outputs:
                self._rows[output.row_id].put(output)

    def _decode(self, request: OmniRequest, frames: list[dict[str, Any]]) -> NDArray[np.float32]:
        state = self._vocode.open(StagePayload(request))
        sound = []
        for chunk in frames:
            self._vocode.push(state, Chunk("talker", chunk))
        while ready := self._vocode.ready(state, True):
            [output] = self._vocode.decode([(state, ready)])
            sound.append(output["audio"])
        self._vocode.close(state)
        return np.concatenate(sound) if sound else np.zeros(0, np.float32)


def _build(stage: str) -> Any:
    spec = PIPELINE.stage(stage)
    module, _, function = spec.runner.partition(":")
    context = StageContext(stage, spec.options(), "cpu", os.cpu_count() or 1)
    return getattr(importlib.import_module(module), function)(context)
