"""A stage has computed once when it is ready, and holds nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from voice_omni.engines.interface import Row, RowOutput
from voice_omni.engines.torch_engine import TorchEngine
from voice_omni.model_runner.interface import Chunk
from voice_omni.models.qwen3_omni import stages
from voice_omni.models.qwen3_omni.audio_tower import AudioTower
from voice_omni.models.qwen3_omni.backbones import load_talker
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.code2wav_network import Code2Wav
from voice_omni.models.qwen3_omni.pipeline import PIPELINE
from voice_omni.models.qwen3_omni.talker import Talker
from voice_omni.models.qwen3_omni.vision_tower import VisionTower
from voice_omni.models.qwen3_omni.warm_up import encode_once, generate_once
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import CLIENT
from voice_omni.proto.vocabulary import AUDIO


def context(stage: str, model: Path) -> StageContext:
    return StageContext(stage, PIPELINE.stage(stage).options(), "cpu", 1, str(model))


@pytest.mark.parametrize(
    ("stage", "network"), [("audio_encoder", AudioTower), ("image_encoder", VisionTower), ("code2wav", Code2Wav)]
)
def test_a_network_has_computed_when_its_stage_is_ready(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, stage: str, network: type[torch.nn.Module]
) -> None:
    entry = "attend" if network is AudioTower else "forward"
    compute, calls = getattr(network, entry), []

    def counted(self: torch.nn.Module, *args: Any) -> Any:
        calls.append(self)
        return compute(self, *args)

    monkeypatch.setattr(network, entry, counted)
    getattr(stages, stage)(context(stage, tiny))
    assert calls


@pytest.mark.parametrize("stage", ["thinker", "talker"])
def test_an_engine_has_generated_when_its_stage_is_ready(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    tokens: list[int] = []
    step = TorchEngine.step

    def counted(self: TorchEngine) -> list[RowOutput]:
        outputs = step(self)
        tokens.extend(token for output in outputs for token in output.tokens)
        return outputs

    monkeypatch.setattr(TorchEngine, "step", counted)
    _, engine = getattr(stages, stage)(context(stage, tiny))
    assert len(tokens) == 2
    assert engine.stats() == {"rows": 0}
    assert not engine.busy


class Failing(TorchEngine):
    """Fails each row."""

    def step(self) -> list[RowOutput]:
        outputs = super().step()
        return [RowOutput(output.row_id, [], error=OmniError("internal_error", "as asked")) for output in outputs]


def test_a_failure_is_known_before_the_stage_is_ready(checkpoint: Checkpoint, tiny: Path) -> None:
    with pytest.raises(OmniError, match="as asked"):
        generate_once(Failing(Talker(load_talker(checkpoint))))
    runner = stages.audio_encoder(context("audio_encoder", tiny))
    with pytest.raises(OmniError, match="no sound"):
        encode_once(runner, Chunk(CLIENT, {AUDIO: np.zeros(0, np.float32)}))


def test_a_row_of_that_name_may_come_again(checkpoint: Checkpoint) -> None:
    engine = TorchEngine(Talker(load_talker(checkpoint)))
    generate_once(engine)
    generate_once(engine)
    engine.add(Row("r", [1], 1, frozenset()))
    assert [output.row_id for output in engine.step()] == ["r"]
