"""The cache: a folder is there whole or not at all."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from voice_omni.proto.errors import OmniError
from voice_omni.weights import cache

if TYPE_CHECKING:
    from .conftest import Python


def two_files(folder: Path) -> str:
    (folder / "sub").mkdir()
    (folder / "a.bin").write_bytes(b"a" * 1000)
    (folder / "sub" / "b.bin").write_bytes(b"b" * 2000)
    return "the test"


@pytest.fixture
def folder() -> Path:
    return cache.folder_of("derived", "thing", "key")


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VOICE_OMNI_CACHE", str(tmp_path / "mine"))
    assert cache.cache_root() == tmp_path / "mine"


@pytest.mark.skipif(os.name != "posix" or os.uname().sysname == "Darwin", reason="the XDG convention")
def test_the_cache_is_the_users_cache_folder_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VOICE_OMNI_CACHE")
    assert cache.cache_root() == Path.home() / ".cache" / "voice-omni"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_root() == tmp_path / "voice-omni"


def test_a_published_folder_holds_its_files_and_a_manifest_of_them(
    folder: Path, contents: Callable[[Path], dict[str, bytes]]
) -> None:
    assert cache.publish(folder, two_files, made_from=("x",)) == folder
    assert contents(folder) == {"a.bin": b"a" * 1000, "sub/b.bin": b"b" * 2000}
    manifest = cache.read_manifest(folder)
    assert (manifest.origin, manifest.made_from) == ("the test", ("x",))
    assert {name: entry.size for name, entry in manifest.files.items()} == {"a.bin": 1000, "sub/b.bin": 2000}
    assert cache.finished("derived") == [folder]


def test_a_finished_folder_is_not_built_again_unless_renewed(folder: Path) -> None:
    cache.publish(folder, two_files)

    def another(target: Path) -> str:
        (target / "c.bin").write_bytes(b"c")
        return "another"

    cache.publish(folder, another)
    assert cache.read_manifest(folder).origin == "the test"
    cache.publish(folder, another, renew=True)
    assert cache.files_in(folder) == ["c.bin"]


def test_a_build_that_raises_leaves_nothing(folder: Path) -> None:
    def half(target: Path) -> str:
        two_files(target)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.publish(folder, half)
    assert list(folder.parent.iterdir()) == []


def test_a_failed_renewal_keeps_the_old_folder(folder: Path) -> None:
    def fail(target: Path) -> str:
        raise ValueError("no")

    cache.publish(folder, two_files)
    with pytest.raises(ValueError, match="no"):
        cache.publish(folder, fail, renew=True)
    assert cache.is_complete(folder)


def test_a_process_killed_while_building_leaves_nothing_that_looks_finished(folder: Path, python: Python) -> None:
    builder = python(
        """
import sys
from pathlib import Path
from voice_omni.weights import cache

def build(folder):
    (folder / "half.bin").write_bytes(b"half")
    print("half", flush=True)
    sys.stdin.read()

cache.publish(cache.folder_of("derived", "thing", "key"), build)
"""
    )
    assert builder.stdout is not None
    assert builder.stdout.readline() == "half\n"
    builder.kill()
    builder.wait()
    assert not cache.is_complete(folder)
    assert cache.finished("derived") == []
    cache.publish(folder, two_files)
    assert cache.files_in(folder) == ["a.bin", "sub/b.bin"]
    assert list(folder.parent.iterdir()) == [folder], "what the killed process left is gone"


def test_threads_that_want_the_same_folder_build_it_once(folder: Path) -> None:
    built: list[Path] = []
    together = threading.Barrier(4)

    def build(target: Path) -> str:
        built.append(target)
        return two_files(target)

    def want() -> None:
        together.wait()
        cache.publish(folder, build)

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_damage_names_every_file_that_differs(folder: Path) -> None:
    cache.publish(folder, two_files)
    assert cache.damage(folder) == []
    content = bytearray((folder / "a.bin").read_bytes())
    content[500] ^= 1
    (folder / "a.bin").write_bytes(content)
    (folder / "sub" / "b.bin").write_bytes(b"short")
    (folder / "new.bin").write_bytes(b"")
    assert [line.partition(",")[0].split(" instead")[0].split(": ")[0] for line in cache.damage(folder)] == [
        "new.bin",
        "a.bin",
        "sub/b.bin",
    ]
    (folder / "a.bin").unlink()
    assert "a.bin: missing" in cache.damage(folder)


def test_a_folder_whose_files_have_gone_is_not_complete(folder: Path) -> None:
    cache.publish(folder, two_files)
    (folder / "a.bin").unlink()
    assert not cache.is_complete(folder)
    cache.publish(folder, two_files)
    assert cache.damage(folder) == []


def test_an_unreadable_manifest_means_not_complete(folder: Path) -> None:
    cache.publish(folder, two_files)
    (folder / cache.MANIFEST).write_bytes(b"{")
    assert not cache.is_complete(folder)
    with pytest.raises(OmniError) as caught:
        cache.read_manifest(folder)
    assert caught.value.code == "weights_corrupt"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_named_with_what_to_do(folder: Path) -> None:
    def fill(target: Path) -> str:
        Path("/dev/full").write_bytes(b"x")
        return ""

    with pytest.raises(OmniError, match="set VOICE_OMNI_CACHE") as caught:
        cache.publish(folder, fill)
    assert caught.value.code == "weights_no_space"
    assert not folder.exists()


def test_space_is_asked_for_before_a_download() -> None:
    cache.require_space(1)
    with pytest.raises(OmniError) as caught:
        cache.require_space(1 << 62)
    assert caught.value.code == "weights_no_space"


@pytest.mark.parametrize(
    "root",
    [
        "file/cache",
        "file",
        "taken",
        pytest.param("/proc/nobody/.cache", marks=pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")),
    ],
)
def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: str) -> None:
    """Nor can one below a home that does not exist and that nobody may make, as accounts of services have."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "locks").write_bytes(b"")
    monkeypatch.setenv("VOICE_OMNI_CACHE", str(tmp_path / root))
    with pytest.raises(OmniError, match="set VOICE_OMNI_CACHE") as caught:
        cache.publish(cache.folder_of("derived", "thing", "key"), two_files)
    assert caught.value.code == "cache_not_writable"


def test_keys_differ_with_every_part() -> None:
    assert len({cache.key_of("a", "b"), cache.key_of("ab"), cache.key_of("b", "a"), cache.key_of("a", "b", "")}) == 4
