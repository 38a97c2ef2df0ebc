"""The folder of a run: gone with its owner, also when the owner was killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import zmq

from tests.support.pipelines import collect, launch, text_request, toy_settings
from voice_omni.pipeline.rundir import SHORT, RunDir, socket_name
from voice_omni.proto.errors import OmniError

OWNER = """
import sys
from pathlib import Path
from voice_omni.pipeline.rundir import RunDir

run_dir = RunDir(Path(sys.argv[1]), ["main"])
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


def test_folders_of_other_users_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are open to everybody."""
    theirs = tmp_path / "voice-omni-of-somebody-else"
    theirs.mkdir()
    (theirs / "lock").touch()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    RunDir(tmp_path).close()
    assert theirs.is_dir()
    monkeypatch.undo()
    RunDir(tmp_path).close()
    assert not theirs.exists()


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


# -- a path that is too long for sockets -------------------------------------------------------------------------------


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder whose own path is as long as a socket's may be."""
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    return folder


def test_sockets_are_reached_by_a_short_private_way(deep: Path) -> None:
    run_dir = RunDir(deep, ["main", "think.0"])
    way = run_dir.path.parent
    assert (way.stat().st_mode & 0o077, way.stat().st_uid) == (0, os.geteuid())
    assert run_dir.path.resolve().parent == deep
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.bind(f"ipc://{run_dir.path / socket_name('think.0', 999_999)}")
    (run_dir.path / "main.0@think.0.3.relay").touch()
    run_dir.remove_of("think.0", 3)
    assert list(deep.rglob("*.relay")) == []
    run_dir.close()
    assert list(deep.iterdir()) == []
    assert not way.exists()


@pytest.mark.parametrize("spare", [0, -1])
def test_the_short_way_is_taken_only_where_it_is_needed(tmp_path: Path, spare: int) -> None:
    made = RunDir(tmp_path, ["main"])
    made.close()
    room = zmq.IPC_PATH_MAX_LEN - len(os.fsencode(made.path / socket_name("", 999_999)))
    run_dir = RunDir(tmp_path, ["n" * (room - spare), "main"])
    assert (run_dir.path.parent == tmp_path) == (spare == 0)
    run_dir.close()


def test_a_name_that_is_too_long_everywhere_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=SHORT) as short:
        with pytest.raises(OmniError) as raised:
            RunDir(tmp_path, ["main", "n" * 100 + ".0"], Path(short))
        assert os.listdir(short) == os.listdir(tmp_path) == []
    assert raised.value.code == "invalid_config"
    told = str(raised.value)
    excess = int(re.findall(r"in the section 'processes' by (\d+) bytes", told)[0])
    assert all(part in told for part in (str(tmp_path), "n" * 100, f"{zmq.IPC_PATH_MAX_LEN} at most"))
    with tempfile.TemporaryDirectory(dir=SHORT) as short:
        RunDir(tmp_path, ["main", "n" * (100 - excess) + ".0"], Path(short)).close()
        with pytest.raises(OmniError):
            RunDir(tmp_path, ["main", "n" * (101 - excess) + ".0"], Path(short))


def test_a_killed_owners_short_way_is_swept_too(deep: Path) -> None:
    with Owner(deep) as killed:
        killed.kill()
        assert killed.folder.parent != deep
        assert killed.folder.is_dir()
        RunDir(deep, ["main"]).close()
        assert not killed.folder.parent.exists()
    assert list(deep.iterdir()) == []


async def test_a_pipeline_runs_in_a_folder_with_a_long_path(deep: Path) -> None:
    async with launch(toy_settings(), deep) as pipeline:
        said, _ = await collect(await pipeline.coordinator.submit(text_request("r", "a b ", width=40_000)))
        assert said == "a b "
        assert len(list(deep.rglob("*.sock"))) == 5
    assert list(deep.iterdir()) == []
