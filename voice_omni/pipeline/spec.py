"""How a model package declares its pipeline: once, as data, without saying where anything runs.

A *payload edge* carries one result, when the stage before has finished. A *stream edge* carries chunks while it
works, bounded by credits. A *route* is the subset of the stages that one kind of request runs through; the edges are
those of the pipeline whose both ends lie in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SchedulerKind = Literal["simple", "omni", "code2wav"]


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage.

    ``runner`` is ``"package.module:function"``; it is imported and called in the stage's own process as
    ``function(StageContext)`` and returns the runner that the scheduler kind asks for (for ``omni``: a tuple of
    runner and engine). ``options`` is the msgspec Struct class with the stage's own settings and their defaults.
    ``terminal``: its chunks and its result go to the client. ``input_stream``: the client streams chunks into it.
    ``credits``: how many chunks may be on the way on each stream edge out of it; the bound of every queue behind it.
    ``scheduler_defaults``: settings of the scheduler that have another default at this stage.
    ``device_tensors``: where its process is on a device it puts out torch tensors of it, which processes on devices get
    without the host (see :mod:`voice_omni.proto.payload`). They need torch then.
    """

    name: str
    scheduler: SchedulerKind
    runner: str
    options: type[Any]
    payload_to: tuple[str, ...] = ()
    stream_to: tuple[str, ...] = ()
    terminal: bool = False
    input_stream: bool = False
    credits: int = 16
    scheduler_defaults: Mapping[str, Any] = field(default_factory=dict)
    device_tensors: bool = False


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A model's stages and routes. ``routes`` maps a kind of request to the names of its stages.

    ``module`` is the module that holds the declaration as ``PIPELINE``: a stage's process imports it from there.

    The routes that the server asks for by name: ``speech`` (audio in, spoken answer), ``text`` (messages in, spoken
    answer), ``speech_text`` and ``text_text`` (written answers), ``speak`` (text in, its speech out) and
    ``transcribe``. A pipeline has those that it can do.

    ``checkpoint``: which of ``weights`` the setting ``model`` replaces; None: none. ``images``: whether messages may
    have pictures. ``transcribes``: whether an answer to speech also says what was heard; where it does not, the server
    asks for a transcript beside the answer. ``extra``: of this package, which has the libraries that the base install
    lacks.
    """

    name: str
    description: str
    stages: tuple[StageSpec, ...]
    routes: Mapping[str, tuple[str, ...]]
    input_sample_rate: int
    output_sample_rate: int
    weights: tuple[str, ...] = ()
    voices: tuple[str, ...] = field(default=("default",))
    module: str = ""
    checkpoint: str | None = None
    images: bool = False
    transcribes: bool = True
    extra: str | None = None

    def stage(self, name: str) -> StageSpec:
        return next(stage for stage in self.stages if stage.name == name)


@dataclass(frozen=True, slots=True)
class StageContext:
    """What a stage's process hands to the runner's constructor: its options, resolved, and its device.

    ``model``: where the pipeline's checkpoint comes from, a source of :class:`~voice_omni.weights.Weights`; None: from
    where the pipeline declares it.
    """

    stage: str
    options: Any
    device: str
    threads: int
    model: str | None = None
