"""A small pipeline whose every result can be computed by hand: real schedulers, processes and relay, no weights.

``listen`` counts the samples it hears; ``think`` says that many words (or those of the last message); ``speak`` turns
each letter into codec frames; ``vocode`` integrates them, so that its samples depend on everything before them.
Parameters of a request make a stage misbehave: see :class:`Mischief`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Engine, Row, RowOutput
from voice_omni.model_runner.interface import Chunk, Emit, Outcome, Work
from voice_omni.pipeline.spec import PipelineSpec, StageContext, StageSpec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, StagePayload

FRAME_SAMPLES = 10
SAMPLE_RATE = 1000
FRAMES_PER_LETTER = 4


DEADLOCK = "import ctypes; ctypes.PyDLL(None).sleep(600)"
"""A call into C that keeps the interpreter's lock and waits for what does not come."""
ENDLESS_LOOP = "import re; re.match('(a+)+$', 'a' * 99 + 'b')"
"""A computation in C that keeps the interpreter's lock and does not end."""


class ToyOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``delay_ms``: how long each batch of the stage takes."""

    delay_ms: float = 0.0


class Mischief:
    """What a request's parameters do to a stage: ``{"at": stage, "do": one of the cases below}``."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def __call__(self, params: Data) -> None:
        if params.get("at") != self._stage:
            return
        match params["do"]:
            case "raise":
                raise ValueError("as asked")
            case "refuse":
                raise OmniError("invalid_value", "as asked", param="text")
            case "exit":
                os._exit(7)
            case "sleep":
                time.sleep(60)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "deadlock":
                exec(DEADLOCK)
            case "loop":
                exec(ENDLESS_LOOP)


T = TypeVar("T")


def apart(run: Callable[[T], Outcome], work: T) -> Outcome:
    """One item of a batch, whose failure is its own."""
    try:
        return run(work)
    except (ValueError, OmniError) as error:
        return Outcome(error=error)


@dataclass
class Heard:
    params: Data
    samples: int = 0


class Listen:
    def __init__(self, context: StageContext) -> None:
        self._delay = context.options.delay_ms / 1000
        self._mischief = Mischief("listen")

    def open(self, payload: StagePayload) -> Heard:
        return Heard(payload.request.params)

    def cost(self, work: Work[Heard]) -> float:
        return 1.0

    def run(self, batch: Sequence[Work[Heard]]) -> Sequence[Outcome]:
        time.sleep(self._delay)
        return [apart(self._one, work) for work in batch]

    def _one(self, work: Work[Heard]) -> Outcome:
        self._mischief(work.state.params)
        work.state.samples += sum(len(chunk.data["audio"]) for chunk in work.chunks)
        text = f"{work.state.samples} samples"
        emits = [Emit({"transcript": text, "final": work.ended}, ("client",))]
        return Outcome(emits, {"transcript": text} if work.ended else None)

    def close(self, state: Heard) -> None:
        pass


class CountingEngine(Engine):
    """Synchronous: one token for each row that runs, from 0 up."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._next: dict[str, int] = {}
        self._rows: dict[str, Row] = {}
        self._paused: set[str] = set()
        self._removed: list[str] = []

    def start(self, wake: Callable[[], None]) -> None:
        pass

    def add(self, row: Row) -> None:
        self._rows[row.row_id] = row
        self._next[row.row_id] = 0

    def pause(self, row_id: str) -> None:
        self._paused.add(row_id)

    def resume(self, row_id: str) -> None:
        self._paused.discard(row_id)

    def remove(self, row_id: str) -> None:
        self._removed.append(row_id)
        self._drop(row_id)

    def _drop(self, row_id: str) -> None:
        del self._rows[row_id], self._next[row_id]
        self._paused.discard(row_id)

    @property
    def busy(self) -> bool:
        return bool(self._removed) or len(self._rows) > len(self._paused)

    def step(self) -> list[RowOutput]:
        time.sleep(self._delay)
        outputs = [RowOutput(row_id, [], "removed") for row_id in self._removed]
        self._removed.clear()
        for row_id in [row_id for row_id in self._rows if row_id not in self._paused]:
            token = self._next[row_id]
            self._next[row_id] += 1
            done = token + 1 == self._rows[row_id].max_new_tokens
            outputs.append(RowOutput(row_id, [token], "length" if done else None))
            if done:
                self._drop(row_id)
        return outputs

    def stop(self) -> None:
        for row_id in list(self._rows):
            self._drop(row_id)

    def stats(self) -> dict[str, int]:
        return {"rows": len(self._rows), "paused": len(self._paused)}


@dataclass
class Thought:
    params: Data
    words: list[str]


class Think:
    def __init__(self) -> None:
        self._mischief = Mischief("think")

    def open(self, payload: StagePayload) -> tuple[Thought, Row]:
        request = payload.request
        said = request.inputs["messages"][-1]["content"] if request.inputs.get("messages") else ""
        words = said.split() or payload.results["listen"]["transcript"].split()
        limit = request.params.get("max_output_tokens", len(words))
        return Thought(request.params, words), Row(payload.request_id, [1], limit, frozenset())

    def advance(self, state: Thought, output: RowOutput) -> Outcome:
        self._mischief(state.params)
        emits = [Emit({"text": f"{state.words[token % len(state.words)]} "}) for token in output.tokens]
        return Outcome(emits, {"text": " ".join(state.words), "finish_reason": "stop"} if output.finish else None)

    def close(self, state: Thought) -> None:
        pass


@dataclass
class Utterance:
    params: Data
    given: str
    text: str = ""


class Speak:
    """One letter for each call, so that the scheduler's turns are seen."""

    def __init__(self, context: StageContext) -> None:
        self._delay = context.options.delay_ms / 1000
        self._mischief = Mischief("speak")

    def open(self, payload: StagePayload) -> Utterance:
        return Utterance(payload.request.params, payload.request.inputs.get("text", ""))

    def cost(self, work: Work[Utterance]) -> float:
        return 1.0

    def run(self, batch: Sequence[Work[Utterance]]) -> Sequence[Outcome]:
        time.sleep(self._delay)
        return [apart(self._one, work) for work in batch]

    def _one(self, work: Work[Utterance]) -> Outcome:
        state = work.state
        self._mischief(state.params)
        state.text += state.given + "".join(chunk.data["text"] for chunk in work.chunks)
        state.given = ""
        if not state.text:
            return Outcome(result={} if work.ended else None)
        letter, state.text = state.text[0], state.text[1:]
        frames = letter_frames(letter, state.params.get("width", 4))
        last = work.ended and not state.text
        emit = Emit({"frames": frames, "letter": letter})
        return Outcome([emit], {} if last else None, more=bool(state.text))

    def close(self, state: Utterance) -> None:
        pass


@dataclass
class Wave:
    params: Data
    frames: list[NDArray[np.float32]] = field(default_factory=list)
    level: float = 0.0
    samples: int = 0


class Vocode:
    sample_rate = SAMPLE_RATE
    frame_samples = FRAME_SAMPLES

    def __init__(self, context: StageContext) -> None:
        self._delay = context.options.delay_ms / 1000
        self._mischief = Mischief("vocode")

    def open(self, payload: StagePayload) -> Wave:
        return Wave(payload.request.params)

    def push(self, state: Wave, chunk: Chunk) -> None:
        state.frames.extend(chunk.data["frames"])

    def ready(self, state: Wave, ended: bool) -> int:
        return len(state.frames)

    def decode(self, batch: Sequence[tuple[Wave, int]]) -> Sequence[Data | Exception]:
        time.sleep(self._delay)
        return [self._one(state, frames) for state, frames in batch]

    def _one(self, state: Wave, frames: int) -> Data | Exception:
        try:
            self._mischief(state.params)
        except (ValueError, OmniError) as error:
            return error
        taken, state.frames = state.frames[:frames], state.frames[frames:]
        sums = state.level + np.cumsum([float(frame[0]) for frame in taken])
        state.level = float(sums[-1])
        samples = np.repeat(sums, FRAME_SAMPLES).astype(np.float32)
        state.samples += len(samples)
        return {"audio": samples, "marks": []}

    def result(self, state: Wave) -> Data:
        return {"samples": state.samples}

    def close(self, state: Wave) -> None:
        pass


def letter_frames(letter: str, width: int = 4) -> NDArray[np.float32]:
    return np.full((FRAMES_PER_LETTER, width), ord(letter), dtype=np.float32)


def expected_samples(text: str) -> NDArray[np.float32]:
    """What speaking ``text`` must give."""
    levels = np.cumsum(np.repeat([float(ord(letter)) for letter in text], FRAMES_PER_LETTER))
    return np.repeat(levels, FRAME_SAMPLES).astype(np.float32)


def build_listen(context: StageContext) -> Listen:
    return Listen(context)


def build_think(context: StageContext) -> tuple[Think, Any]:
    return Think(), CountingEngine(context.options.delay_ms / 1000)


def build_speak(context: StageContext) -> Speak:
    return Speak(context)


def build_vocode(context: StageContext) -> Vocode:
    return Vocode(context)


_HERE = "tests.support.toy"

PIPELINE = PipelineSpec(
    name="toy",
    module=_HERE,
    description="counts and sings",
    stages=(
        StageSpec(
            name="listen",
            scheduler="simple",
            runner=f"{_HERE}:build_listen",
            options=ToyOptions,
            payload_to=("think",),
            terminal=True,
            input_stream=True,
        ),
        StageSpec(
            name="think",
            scheduler="omni",
            runner=f"{_HERE}:build_think",
            options=ToyOptions,
            stream_to=("speak",),
            terminal=True,
            credits=256,
        ),
        StageSpec(
            name="speak", scheduler="simple", runner=f"{_HERE}:build_speak", options=ToyOptions, stream_to=("vocode",)
        ),
        StageSpec(
            name="vocode", scheduler="code2wav", runner=f"{_HERE}:build_vocode", options=ToyOptions, terminal=True
        ),
    ),
    routes={
        "speech": ("listen", "think", "speak", "vocode"),
        "text": ("think", "speak", "vocode"),
        "text_text": ("think",),
        "speak": ("speak", "vocode"),
        "transcribe": ("listen",),
    },
    input_sample_rate=SAMPLE_RATE,
    output_sample_rate=SAMPLE_RATE,
)
