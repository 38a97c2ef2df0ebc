"""Repositories of the Hugging Face hub, by its own library, from a server that speaks its protocol."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from .conftest import Python, Reply, Site

Contents = Callable[[Path], dict[str, bytes]]

FIRST, SECOND = "1" * 40, "2" * 40

# The hub's library reads its environment when it is imported, so every fetch runs in a process of its own.
FETCH = """
import sys
from voice_omni.proto.errors import OmniError
from voice_omni.weights import Weights
from voice_omni.weights.store import fetch, refetch

files = ("*.safetensors", "*.json")
weights = Weights("big", sys.argv[1], files, 1, "Apache-2.0", "", folder="talker")
try:
    print((refetch if "--force" in sys.argv else fetch)(weights, quiet=True))
except OmniError as error:
    print(error.code, error)
"""


class Hub:
    """One repository on the site. ``files`` of 100 bytes and more are kept the way large files are."""

    def __init__(self, site: Site, reply: type[Reply]) -> None:
        self.site = site
        self.reply = reply

    def commit(self, commit: str, files: dict[str, bytes]) -> None:
        tree = []
        for name, content in files.items():
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            sha256 = hashlib.sha256(content).hexdigest()
            large = len(content) >= 100
            entry = {"type": "file", "path": name, "size": len(content), "oid": blob}
            lfs = {"lfs": {"oid": sha256, "size": len(content), "pointerSize": 100}} if large else {}
            tree.append(entry | lfs)
            headers = {"ETag": f'"{sha256 if large else blob}"', "X-Repo-Commit": commit}
            self.site.replies[f"/org/repo/resolve/{commit}/{name}"] = self.reply(content, headers=headers)
        info = {"id": "org/repo", "sha": commit, "siblings": [{"rfilename": name} for name in files]}
        self.site.replies[f"/api/models/org/repo/tree/{commit}"] = self.json(tree)
        self.site.replies["/api/models/org/repo/revision/main"] = self.json(info)
        self.site.replies[f"/api/models/org/repo/revision/{commit}"] = self.json(info)

    def json(self, value: object) -> Reply:
        return self.reply(json.dumps(value).encode(), "application/json")


def checkpoint(letter: bytes) -> dict[str, bytes]:
    """A checkpoint in two shards, inside a folder, beside what is not wanted."""
    shards = {f"model-0000{number}-of-00002.safetensors": letter * 1000 * number for number in (1, 2)}
    index = {"weight_map": {f"layer.{number}": name for number, name in enumerate(shards)}}
    files = {**shards, "model.safetensors.index.json": json.dumps(index).encode(), "config.json": b"{}"}
    return {f"talker/{name}": content for name, content in files.items()}


WANTED = {name.removeprefix("talker/"): content for name, content in checkpoint(b"a").items()}


@pytest.fixture
def hub(site: Site) -> Hub:
    site.publish("x", "x", b"")
    hub = Hub(site, type(site.replies["/files/x"]))
    hub.commit(FIRST, {**checkpoint(b"a"), "README.md": b"hello", "talker/pytorch_model.bin": b"b" * 5000})
    return hub


@pytest.fixture
def get(python: Python) -> Callable[..., str]:
    def run(source: str = "hf:org/repo", *flags: str) -> str:
        output, errors = python(FETCH, source, *flags).communicate(timeout=PATIENCE_S)
        assert output, errors
        return output.strip()

    return run


def test_a_sharded_checkpoint_is_fetched_file_by_file(hub: Hub, get: Callable[..., str], contents: Contents) -> None:
    assert contents(Path(get())) == WANTED
    resolved = {each.path for each in hub.site.asked if "/resolve/" in each.path}
    assert resolved == {f"/org/repo/resolve/{FIRST}/talker/{name}" for name in WANTED}
    hub.site.asked.clear()
    assert contents(Path(get())) == WANTED
    assert hub.site.asked == [], "nothing is asked for what is cached"


def test_a_branch_stays_at_its_commit_until_it_is_fetched_again(
    hub: Hub, get: Callable[..., str], contents: Contents
) -> None:
    get()
    hub.commit(SECOND, checkpoint(b"b"))
    assert contents(Path(get())) == WANTED
    assert contents(Path(get("hf:org/repo", "--force"))) == {
        name.removeprefix("talker/"): content for name, content in checkpoint(b"b").items()
    }


def test_a_revision_can_be_pinned(hub: Hub, get: Callable[..., str], contents: Contents) -> None:
    hub.commit(SECOND, checkpoint(b"b"))
    assert contents(Path(get(f"hf:org/repo@{FIRST}"))) == WANTED


def test_a_snapshot_that_another_tool_fetched_is_used_without_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hub: Hub, get: Callable[..., str], contents: Contents
) -> None:
    get()  # fills the hub's own cache
    monkeypatch.setenv("VOICE_OMNI_CACHE", str(tmp_path / "another cache"))
    monkeypatch.setenv("VOICE_OMNI_OFFLINE", "1")
    hub.site.asked.clear()
    folder = Path(get())
    assert contents(folder) == WANTED
    assert all((folder / name).is_symlink() for name in WANTED), "the large files are not copied"
    assert hub.site.asked == []


def test_a_snapshot_without_all_its_shards_is_completed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hub: Hub, get: Callable[..., str], contents: Contents
) -> None:
    folder = Path(get())
    (folder / "model-00002-of-00002.safetensors").readlink().unlink()
    monkeypatch.setenv("VOICE_OMNI_OFFLINE", "1")
    assert get().startswith("weights_unavailable")
    monkeypatch.delenv("VOICE_OMNI_OFFLINE")
    assert contents(Path(get())) == WANTED


def test_a_repository_that_lacks_a_shard_is_refused(hub: Hub, get: Callable[..., str]) -> None:
    files = checkpoint(b"a")
    del files["talker/model-00002-of-00002.safetensors"]
    hub.commit(FIRST, files)
    message = get()
    assert message.startswith("weights_corrupt")
    assert "model-00002-of-00002.safetensors" in message


@pytest.mark.parametrize("name", ["model-00001-of-00002.safetensors", "config.json"], ids=["large", "small"])
def test_a_file_that_does_not_match_its_hash_is_refused_until_fetched_again(
    hub: Hub, get: Callable[..., str], contents: Contents, name: str
) -> None:
    served = hub.site.replies[f"/org/repo/resolve/{FIRST}/talker/{name}"]
    good, served.body = served.body, b"!" * len(served.body)
    message = get()
    assert message.startswith("weights_corrupt")
    assert name in message
    served.body = good
    assert contents(Path(get("hf:org/repo", "--force"))) == WANTED


def test_a_missing_repository_is_named_with_what_to_do(hub: Hub, get: Callable[..., str]) -> None:
    message = get("hf:org/none")
    assert message.startswith("weights_unavailable")
    for expected in ("hf:org/none", "HF_TOKEN", "HF_ENDPOINT"):
        assert expected in message


def test_the_users_token_is_sent(monkeypatch: pytest.MonkeyPatch, hub: Hub, get: Callable[..., str]) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    get()
    sent = {each.headers.get("authorization") for each in hub.site.asked if "/org/repo/" in each.path}
    assert sent == {"Bearer hf_secret"}


def test_the_hubs_own_offline_switch_is_honoured(
    monkeypatch: pytest.MonkeyPatch, hub: Hub, get: Callable[..., str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert get().startswith("weights_unavailable")
    assert hub.site.asked == []
