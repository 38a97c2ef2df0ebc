"""What the torch engine says in the scenes of the contract, for the environment that has no such engine."""

from __future__ import annotations

import json
from pathlib import Path

from tests.engines.sglang.contract.scenes import SCENES, Scene
from voice_omni.engines.torch_engine import TorchEngine
from voice_omni.models.qwen3_omni.backbones import load_talker
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.talker import Talker
from voice_omni.models.qwen3_omni.talker_export import export_talker


def write_talker(checkpoint: Path, folder: Path) -> Path:
    """The talker of a checkpoint as SGLang loads it, with ``said.json``: the tokens, frames and end of each scene."""
    opened = Checkpoint(checkpoint)
    folder.mkdir()
    export_talker(opened, folder)
    engine = TorchEngine(Talker(load_talker(opened)))
    said = {name: _say(engine, scene) for name, scene in SCENES.items()}
    (folder / "said.json").write_text(json.dumps(said))
    return folder


def _say(engine: TorchEngine, scene: Scene) -> dict[str, object]:
    tokens: list[int] = []
    frames: list[list[int]] = []
    finish = None
    engine.add(scene.row())
    engine.feed(scene.name, scene.whole)
    while finish is None:
        for output in engine.step():
            assert output.error is None, output.error
            tokens += output.tokens
            frames += output.frames
            finish = output.finish
    return {"tokens": tokens, "frames": frames, "finish": finish}
