"""Who may use the server: a setting that cannot be wrong by accident, and keys that are never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from voice_omni.cli.config import explained
from voice_omni.config import load
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.proto.errors import OmniError

KEY = "sk-right-0123456789"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1"])
def test_on_this_machine_alone_no_key_is_needed(spec: PipelineSpec, host: str) -> None:
    assert load(spec, None, [f"server.host={host}"], {}).settings.server.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "voice.example", "localhost.example"])
def test_in_reach_of_others_a_key_or_a_word_is_needed(spec: PipelineSpec, host: str) -> None:
    where = f"server.host={host}"
    with pytest.raises(OmniError) as caught:
        load(spec, None, [where], {})
    for advice in (host, "api_keys", "api_keys_file", "127.0.0.1", "open_to_network"):
        assert advice in str(caught.value)
    with pytest.raises(OmniError):
        load(spec, None, [where, "server.api_keys= , "], {})
    for word in (f"api_keys={KEY}", "api_keys_file=/etc/keys", "open_to_network=true"):
        assert load(spec, None, [where, f"server.{word}"], {}).settings.server.host == host


def test_keys_are_not_shown_wherever_they_come_from(spec: PipelineSpec, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"server: {{api_keys: 'phone={KEY}'}}")
    for resolved in (
        load(spec, path, [], {}),
        load(spec, None, [], {"VOICE_OMNI__SERVER__API_KEYS": f"phone={KEY}"}),
        load(spec, None, [f"server.api_keys=phone={KEY}"], {}),
    ):
        assert resolved.settings.server.api_keys == f"phone={KEY}"
        shown = explained(resolved.values)
        assert KEY not in shown
        assert "(hidden)" in shown
    assert "(hidden)" not in explained(load(spec, None, [], {}).values)


def test_keys_are_not_shown_when_they_are_wrong(spec: PipelineSpec, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"server: {{api_keys: ['{KEY}']}}")
    with pytest.raises(OmniError, match=r"server.api_keys is \(hidden\); it must be text") as caught:
        load(spec, path, [], {})
    assert KEY not in str(caught.value)


def test_origins_are_a_list(spec: PipelineSpec) -> None:
    environ = {"VOICE_OMNI__SERVER__ALLOWED_ORIGINS": "[https://a.example, https://b.example]"}
    assert load(spec, None, [], environ).settings.server.allowed_origins == ("https://a.example", "https://b.example")
