"""A pipeline whose first stage makes tensors on its device, and whose second says what reached it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from voice_omni.model_runner.interface import Outcome, Work
from voice_omni.pipeline.spec import PipelineSpec, StageContext, StageSpec
from voice_omni.proto.payload import StagePayload

_HERE = "tests.support.device_toy"


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Make:
    """As many numbers as the request's ``count``, 0 to 255 again and again, bfloat16, on the stage's device."""

    def __init__(self, context: StageContext) -> None:
        import torch

        self._numbers = lambda count: (torch.arange(count, device=context.device) % 256).bfloat16()
        # What is sent must be complete, and on a device it is computed later than this returns.
        self._wait = torch.cuda.synchronize if context.device != "cpu" else lambda: None

    def open(self, payload: StagePayload) -> int:
        return int(payload.request.params["count"])

    def cost(self, work: Work[int]) -> float:
        return 1.0

    def run(self, batch: Sequence[Work[int]]) -> Sequence[Outcome]:
        outcomes = [Outcome(result={"numbers": self._numbers(work.state)}) for work in batch]
        self._wait()
        return outcomes

    def close(self, state: int) -> None:
        pass


class Look:
    """Where the numbers are, as what, whether they are right, and whether this process has loaded torch."""

    def __init__(self, context: StageContext) -> None:
        pass

    def open(self, payload: StagePayload) -> Any:
        return payload.results["make"]["numbers"]

    def cost(self, work: Work[Any]) -> float:
        return 1.0

    def run(self, batch: Sequence[Work[Any]]) -> Sequence[Outcome]:
        return [Outcome(result=self._seen(work.state)) for work in batch]

    def _seen(self, numbers: Any) -> dict[str, Any]:
        right = [number % 256 for number in range(len(numbers))]
        return {
            "place": "host" if isinstance(numbers, np.ndarray) else str(numbers.device),
            "dtype": str(numbers.dtype),
            "right": numbers.tolist() == right,
            "torch": "torch" in sys.modules,
        }

    def close(self, state: Any) -> None:
        pass


PIPELINE = PipelineSpec(
    name="device_toy",
    module=_HERE,
    description="makes numbers on a device",
    stages=(
        StageSpec("make", "simple", f"{_HERE}:Make", Options, payload_to=("look",), device_tensors=True),
        StageSpec("look", "simple", f"{_HERE}:Look", Options, terminal=True),
    ),
    routes={"text_text": ("make", "look")},
    input_sample_rate=16_000,
    output_sample_rate=16_000,
)
