"""The model of ``docs/adding-a-model.md``, built from the blocks on that page, runs."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.pipelines import patient
from voice_omni import models
from voice_omni.cli.main import main
from voice_omni.client.interface import AudioDelta, Done, GenerateRequest, ReplyEvent, Samples
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config import load
from voice_omni.pipeline.launcher import Launcher
from voice_omni.pipeline.spec import PipelineSpec

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-model.md"
BLOCK = re.compile(r"<!-- file: (\w+\.py) -->\n```python\n(.*?)```", re.DOTALL)
RATE = 16_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the package ``tones`` as the page gives it."""
    package = tmp_path / "tones"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, source in BLOCK.findall(PAGE.read_text()):
        (package / name).write_text(source)
    yield tmp_path
    for name in [name for name in sys.modules if "tones" in name.split(".")]:
        del sys.modules[name]


@pytest.fixture
def spec(folder: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineSpec:
    """Its declaration, importable here and in the stages' processes."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    declared = importlib.import_module("tones.pipeline").PIPELINE
    assert isinstance(declared, PipelineSpec)
    return declared


def expected(text: str, base_hz: float) -> Samples:
    """A sine of 100 ms for each letter, its phase running on, computed in one piece."""
    letters = [ord(letter) - ord("a") for letter in text.replace(" ", "")]
    pitch = np.repeat(base_hz * 2 ** (np.array(letters) / 12), RATE // 10)
    return (0.3 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE)).astype(np.float32)


async def test_it_speaks_through_the_real_launcher_in_its_own_processes(spec: PipelineSpec, tmp_path: Path) -> None:
    settings = patient(load(spec, None, ["stages.code2wav.scheduler.first_frames=1"], {}).settings)
    async with Launcher(spec, settings, run_base=tmp_path) as pipeline:
        reply = await PipelineClient.of(pipeline).open(GenerateRequest(input="speak", text="hello you"))
        events: list[ReplyEvent] = [event async for event in reply]
    pieces = [event.samples for event in events if isinstance(event, AudioDelta)]
    assert isinstance(events[-1], Done)
    assert len(pieces) > 1, "the sound came in one piece, so it was not streamed"
    np.testing.assert_allclose(np.concatenate(pieces), expected("hello you", 220.0), atol=1e-3)


def test_the_command_on_the_page_finds_and_runs_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(folder)])
    # The stages' processes would look for the package in the installed project, so they run inside this one.
    config = folder / "inline.yaml"
    config.write_text("processes: {all: {stages: [talker, code2wav], inline: true}}\n")
    output = folder / "hello.wav"
    command = re.search(r"voice-omni (say .*)", PAGE.read_text())
    assert command is not None
    arguments = command[1].replace("hello.wav", str(output)).replace('"', "").split()
    assert main([*arguments, "--config", str(config)]) == 0
    samples, rate = soundfile.read(output, dtype="float32")
    assert rate == RATE
    np.testing.assert_allclose(samples, expected("hello", 330.0), atol=1e-3)
