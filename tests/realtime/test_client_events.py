"""What is wrong with a client event, as the contract names it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from voice_omni.realtime import client_events
from voice_omni.realtime.errors import ProtocolError


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ("{", "invalid_json", None),
        ("", "invalid_json", None),
        ('"\\ud800"', "invalid_json", None),
        ("[]", "invalid_event", None),
        ("17", "invalid_event", None),
        ("[" * 100_000, "invalid_event", None),
        ("{}", "missing_required_parameter", "type"),
        ('{"type": 3}', "invalid_value", "type"),
        ('{"type": "no.such.event"}', "invalid_value", "type"),
        ('{"type": "input_audio_buffer.append"}', "missing_required_parameter", "audio"),
        ('{"type": "input_audio_buffer.append", "audio": 3}', "invalid_value", "audio"),
        ('{"type": "input_audio_buffer.append", "audio": null}', "invalid_value", "audio"),
        ('{"type": "input_audio_buffer.commit", "colour": "red"}', "unknown_parameter", "colour"),
        ('{"type": "conversation.item.truncate", "item_id": "a", "content_index": 0}', "missing_required_parameter",
         "audio_end_ms"),
        ('{"type": "conversation.item.truncate", "item_id": "a", "content_index": 0, "audio_end_ms": -1}',
         "invalid_value", "audio_end_ms"),
        ('{"type": "conversation.item.truncate", "item_id": "a", "content_index": 1, "audio_end_ms": 1}',
         "invalid_value", "content_index"),
        ('{"type": "response.create", "response": {"output_modalities": ["audio", "text"]}}', "invalid_value",
         "response.output_modalities"),
        ('{"type": "response.create", "response": {"audio": {"output": {"format": {"type": "audio/mp3"}}}}}',
         "invalid_value", "response.audio.output.format.type"),
        ('{"type": "response.create", "response": {"max_output_tokens": 5000}}', "invalid_value",
         "response.max_output_tokens"),
        ('{"type": "response.create", "response": {"nonsense": 1}}', "unknown_parameter", "response.nonsense"),
    ],
)  # fmt: skip
def test_faults(message: str, code: str, param: str | None) -> None:
    with pytest.raises(ProtocolError) as caught:
        client_events.parse(message)
    assert (caught.value.code, caught.value.param) == (code, param)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "x", "event_id": "e1"}, "e1"),
        ({"type": "input_audio_buffer.append", "audio": 3, "event_id": "e2"}, "e2"),
        ({"type": "x", "event_id": 7}, None),
        ({"type": "x"}, None),
        ({"type": "x", "cut in an emoji": "\ud83d", "event_id": "e3"}, "e3"),
        ({"type": "x", "event_id": "\ud83d"}, None),
        ([1], None),
    ],
)
def test_the_sender_of_a_faulty_event_is_still_told_which_one_it_was(event: Any, expected: str | None) -> None:
    assert client_events.event_id_of(json.dumps(event)) == expected


def test_an_event_id_has_at_most_512_characters() -> None:
    with pytest.raises(ProtocolError) as caught:
        client_events.parse(json.dumps({"type": "input_audio_buffer.commit", "event_id": "x" * 513}))
    assert caught.value.param == "event_id"


def test_metadata_has_at_most_16_pairs_of_64_and_512_characters() -> None:
    def parse(metadata: dict[str, str]) -> None:
        client_events.parse(json.dumps({"type": "response.create", "response": {"metadata": metadata}}))

    parse({f"{number:064}": "v" * 512 for number in range(16)})
    for too_much in ({str(number): "" for number in range(17)}, {"k" * 65: ""}, {"k": "v" * 513}):
        with pytest.raises(ProtocolError):
            parse(too_much)
