"""API keys: their forms, their sources, and that none is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from voice_omni.proto.errors import OmniError
from voice_omni.server.auth_keys import ApiKey, KeyRing, digest, load_keys

ONE, TWO = "sk-first-0123456789", "second.key_0123456789~x"


def test_keys_come_with_and_without_names() -> None:
    keys = load_keys(f"{ONE}, phone = {TWO},", None)
    assert (keys.name_of(ONE), keys.name_of(TWO)) == ("key-1", "phone")
    assert len(keys) == 2


@pytest.mark.parametrize(
    "presented", ["", "sk-first", ONE + "x", ONE.upper(), "phone", f"phone={TWO}", "é" * 20, "\ud800"]
)
def test_nothing_but_a_whole_key_is_a_key(presented: str) -> None:
    assert load_keys(f"{ONE},phone={TWO}", None).name_of(presented) is None


def test_a_file_holds_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# who may\n\nphone={ONE}\n  {TWO}\n")
    keys = load_keys("", str(path))
    assert (keys.name_of(ONE), keys.name_of(TWO)) == ("phone", "file-4")


def test_no_keys_at_all_is_a_server_that_asks_for_none() -> None:
    assert len(load_keys(" , ", None)) == 0
    assert KeyRing().name_of(ONE) is None


@pytest.mark.parametrize(
    ("text", "file", "says"),
    [
        ("short", None, "entry 1"),
        (f"{ONE},a name={TWO}", None, "entry 2"),
        ("key with spaces 0123456789", None, "entry 1"),
        (f"a={ONE},a={TWO}", None, "same name"),
        ("", "# nothing\n", "holds no API key"),
        ("", "secret/with/slashes/0123456789\n", "keys:1"),
    ],
)
def test_a_bad_key_stops_the_start_and_is_not_shown(tmp_path: Path, text: str, file: str | None, says: str) -> None:
    path = tmp_path / "keys"
    if file is not None:
        path.write_text(file)
    with pytest.raises(OmniError, match=says) as caught:
        load_keys(text, None if file is None else str(path))
    assert caught.value.code == "invalid_config"
    for key in (ONE, TWO, "short", "key with spaces", "with/slashes"):
        assert key not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OmniError, match="No such file"):
        load_keys("", str(tmp_path / "missing"))


def test_the_ring_keeps_digests_alone() -> None:
    key = ApiKey("phone", digest(ONE))
    assert ONE not in repr(key)
    assert KeyRing([key]).name_of(ONE) == "phone"
