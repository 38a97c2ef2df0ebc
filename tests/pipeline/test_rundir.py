"""The folder of a run: gone with its owner, also when the owner was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from voice_omni.pipeline.rundir import RunDir

OWNER = """
import sys
from pathlib import Path
from voice_omni.pipeline.rundir import RunDir

run_dir = RunDir(Path(sys.argv[1]))
(run_dir.path / "think.0.0@main.0.relay").write_bytes(b"left behind")
print(run_dir.path, flush=True)
sys.stdin.read()
run_dir.close()
"""


class Owner:
    """A real process that owns a folder below ``base`` until its standard input ends."""

    def __init__(self, base: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(base)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.folder = Path(self._process.stdout.readline().strip())

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        self._process.communicate()


def test_a_folder_is_private_and_gone_after_close(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    assert run_dir.path.parent == tmp_path
    assert run_dir.path.stat().st_mode & 0o077 == 0
    (run_dir.path / "main.0.sock").touch()
    run_dir.close()
    assert list(tmp_path.iterdir()) == []


def test_two_runs_have_their_own_folders(tmp_path: Path) -> None:
    first, second = RunDir(tmp_path), RunDir(tmp_path)
    assert first.path != second.path
    first.close()
    assert second.path.is_dir()
    second.close()


def test_a_killed_owners_folder_is_swept_and_a_living_ones_stays(tmp_path: Path) -> None:
    with Owner(tmp_path) as killed, Owner(tmp_path) as living:
        killed.kill()
        assert (killed.folder / "think.0.0@main.0.relay").exists(), "nobody has cleaned up yet"
        run_dir = RunDir(tmp_path)
        assert not killed.folder.exists()
        assert (living.folder / "think.0.0@main.0.relay").exists()
        run_dir.close()
        living.end()
        assert list(tmp_path.iterdir()) == []


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "somebody-elses"
    other.mkdir()
    (other / "lock").touch()
    being_made = tmp_path / "voice-omni-just-made"
    being_made.mkdir()
    (being_made / "lock.new").touch()
    RunDir(tmp_path).close()
    assert other.is_dir()
    assert being_made.is_dir()


def test_what_a_dead_process_left_is_removed_and_no_more(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    theirs = {"think.0.3.sock", "main.0@think.0.3.relay", "speak.0.0@think.0.3.relay"}
    others = {
        "lock",
        "think.0.4.sock",
        "re-think.0.3.sock",
        "think.0.3@main.0.relay",
        "main.0@think.0.4.relay",
        "main.0@re-think.0.3.relay",
    }
    for name in theirs | others:
        (run_dir.path / name).touch()
    run_dir.remove_of("think.0", 3)
    assert {path.name for path in run_dir.path.iterdir()} == others
    run_dir.remove_of("think.0", 3)
    run_dir.close()
