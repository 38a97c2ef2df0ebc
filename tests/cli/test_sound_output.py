"""Sound is written in the format that a file's name says, or it is said at once that it cannot be."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.patience import PATIENCE_S
from voice_omni.cli.main import main
from voice_omni.cli.sound_output import SoundOutput
from voice_omni.proto.errors import OmniError

TONE = (0.3 * np.sin(np.arange(22_050) * 0.1)).astype(np.float32)


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3", "WAV"])
def test_a_file_has_the_format_that_its_name_ends_with(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"tone.{ending}"
    SoundOutput.named(str(path), "--output").write(TONE, 22_050)
    assert soundfile.info(path).format == ending.upper()
    samples, rate = soundfile.read(path)
    assert rate == 22_050
    assert len(samples) == pytest.approx(len(TONE), abs=3000)
    assert np.abs(samples).max() == pytest.approx(0.3, abs=0.02)


def test_standard_output_gets_a_whole_wav_file(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    SoundOutput.named("-", "--output").write(TONE, 22_050)
    samples, rate = soundfile.read(io.BytesIO(capfdbinary.readouterr().out))
    assert (len(samples), rate) == (len(TONE), 22_050)


def test_a_pipe_gets_a_whole_wav_file_too(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as reading:
        content = reading.submit(pipe.read_bytes)
        SoundOutput.named(str(pipe), "--output").write(TONE, 22_050)
        samples, _ = soundfile.read(io.BytesIO(content.result()))
    assert len(samples) == len(TONE)


def test_a_reader_that_has_gone_is_no_fault_of_the_sound() -> None:
    """As in ``voice-omni say ... -o - | head``."""
    script = """
import numpy as np
from voice_omni.cli.sound_output import SoundOutput
try:
    SoundOutput.named("-", "--output").write(np.zeros(500_000, np.float32), 22_050)
except BrokenPipeError:
    raise SystemExit(7)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.close()
    # The interpreter may find what is left in its own buffer when it ends.
    assert process.wait(PATIENCE_S) in (7, 120)


@pytest.mark.parametrize("name", ["tone", "tone.txt", "folder.wav", "missing/tone.wav", "file.wav/tone.wav"])
def test_what_cannot_be_written_is_refused_before_anything_is_made(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "file.wav").touch()
    path = str(tmp_path / name)
    with pytest.raises(OmniError) as raised:
        SoundOutput.named(path, "--save")
    assert raised.value.info.param == "--save"
    # No server is there, and no stage is started: this comes first.
    assert main(["talk", "--demo", "--save", path]) == 1
    assert path in capsys.readouterr().err
    assert main(["say", "hello", "--output", path]) == 1
    assert path in capsys.readouterr().err


def test_a_rate_that_a_format_has_not_is_refused(tmp_path: Path) -> None:
    output = SoundOutput.named(str(tmp_path / "tone.mp3"), "--output")
    with pytest.raises(OmniError, match="cannot write"):
        output.write(TONE, 12_345)
