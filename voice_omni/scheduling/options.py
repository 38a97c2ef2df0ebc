"""Settings of the schedulers, with their defaults."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class SimpleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of :class:`~voice_omni.scheduling.simple.SimpleScheduler`."""

    max_batch: Annotated[int, Meta(ge=1, description="requests in one batch at most")] = 8
    max_cost: Annotated[float, Meta(gt=0, description="cost of one batch at most, in the runner's unit")] = 12.0
    max_wait_ms: Annotated[float, Meta(ge=0, le=100, description="longest wait for a fuller batch, milliseconds")] = 0.0


class OmniOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of :class:`~voice_omni.scheduling.omni.OmniScheduler`."""

    max_rows: Annotated[int, Meta(ge=1, description="rows that the engine runs at the same time at most")] = 16
    lead_s: Annotated[
        Annotated[float, Meta(ge=1)] | None,
        Meta(description="how far ahead of the ear rows that become sound are computed, seconds; null: without limit"),
    ] = None
    """The device is then free for others, and a barge-in loses little."""


class Code2WavOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of :class:`~voice_omni.scheduling.code2wav.Code2WavScheduler`."""

    first_frames: Annotated[int, Meta(ge=1, description="frames of a stream's first chunk")] = 20
    max_frames: Annotated[int, Meta(ge=1, description="frames of a chunk at most")] = 128
    growth: Annotated[float, Meta(gt=0, le=1, description="share of the lead that the next chunk may be long")] = 0.5
    max_batch: Annotated[int, Meta(ge=1, description="streams decoded together at most")] = 8
    max_batch_frames: Annotated[
        int, Meta(ge=1, description="frames of a batch at most, all its streams counted as long as the longest")
    ] = 1024


SchedulerOptions = SimpleOptions | OmniOptions | Code2WavOptions
