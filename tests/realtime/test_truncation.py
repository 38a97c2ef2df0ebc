"""History holds what was heard."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.protocol import Script, kinds, message
from voice_omni.client.interface import Message


def test_truncation_takes_the_unheard_words_out_of_the_item_and_of_history() -> None:
    script = Script()
    script.complete(script.answer("One ", "two ", "three ", "four."))
    item_id = script.core.conversation.last_id
    [event] = script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=1000)
    assert (event["type"], event["item_id"], event["audio_end_ms"]) == ("conversation.item.truncated", item_id, 1000)
    assert script.core.conversation.messages() == (Message("assistant", "One two"),)
    [retrieved] = script.send("conversation.item.retrieve", item_id=item_id)
    assert retrieved["item"]["content"][0]["transcript"] == "One two"


def test_a_response_cancelled_before_any_sound_of_its_words_leaves_no_item() -> None:
    script = Script()
    script.message("Hello?", id="a")
    script.send("response.create")
    response_id = script.response_id
    script.take(script.core.responses.say(response_id, "Never heard"))
    events = script.send("response.cancel")
    assert kinds(events[-4:]) == [
        "response.output_item.done",
        "conversation.item.done",
        "conversation.item.deleted",
        "response.done",
    ]
    assert script.core.conversation.last_id == "a"


def truncate(script: Script, item_id: str, end_ms: int) -> list[dict[str, Any]]:
    return script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=end_ms)


def test_an_answer_of_which_nothing_was_heard_is_removed() -> None:
    script = Script()
    script.message("Hello?", id="a")
    script.complete(script.answer("One ", "two."))
    item_id = script.core.conversation.last_id or ""
    events = truncate(script, item_id, 0)
    assert kinds(events) == ["conversation.item.truncated", "conversation.item.deleted"]
    assert events[1]["item_id"] == item_id
    assert script.core.conversation.messages() == (Message("user", "Hello?"),)
    [added, _] = script.send("conversation.item.create", item=message("Again.", id="b"))
    assert added["previous_item_id"] == "a"


def test_clients_may_speak_of_a_removed_answer_until_they_have_deleted_it() -> None:
    """They truncate whenever speech begins, retrieve what was truncated, and delete what nobody heard."""
    script = Script()
    script.message("Hello?", id="a")
    script.complete(script.answer("One ", "two."))
    item_id = script.core.conversation.last_id or ""
    truncate(script, item_id, 0)
    [retrieved] = script.send("conversation.item.retrieve", item_id=item_id)
    assert retrieved["item"]["content"] == [{"type": "output_audio", "transcript": ""}]
    assert kinds(truncate(script, item_id, 300)) == ["conversation.item.truncated"]
    [after, _] = script.send("conversation.item.create", item=message("b", id="b"), previous_item_id=item_id)
    assert after["previous_item_id"] == "a"
    assert kinds(script.send("conversation.item.delete", item_id=item_id)) == ["conversation.item.deleted"]
    assert script.send_error("conversation.item.delete", item_id=item_id)["code"] == "item_delete_invalid_item_id"
    assert [message.content for message in script.core.conversation.messages()] == ["Hello?", "b"]


def test_an_answer_truncated_to_nothing_while_it_is_being_made_is_removed_when_it_ends() -> None:
    script = Script()
    script.answer("One ", "two ")
    item_id = script.core.conversation.last_id or ""
    assert kinds(truncate(script, item_id, 0)) == ["conversation.item.truncated"]
    assert "conversation.item.deleted" in kinds(script.send("response.cancel"))
    assert script.core.conversation.last_id is None


def test_of_a_cancelled_answer_only_the_words_that_were_sent_as_sound_count() -> None:
    script = Script()
    response_id = script.answer("One ", "two ")
    script.take(script.core.responses.say(response_id, "three four"))
    script.send("response.cancel")
    assert script.core.conversation.messages() == (Message("assistant", "One two"),)


def test_the_clients_truncation_beats_the_servers_estimate_in_either_order() -> None:
    for client_first in (False, True):
        script = Script()
        script.complete(script.answer("One ", "two ", "three ", "four."))
        item_id = script.core.conversation.last_id or ""
        if not client_first:
            script.core.heard(item_id, 500)
        script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=1500)
        if client_first:
            script.core.heard(item_id, 500)
        assert script.core.conversation.messages() == (Message("assistant", "One two three"),)


def test_an_answer_can_be_truncated_while_it_is_still_being_made() -> None:
    script = Script()
    response_id = script.answer("One ", "two ")
    item_id = script.core.conversation.last_id
    assert kinds(script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=500)) == [
        "conversation.item.truncated"
    ]
    script.take(script.core.responses.say(response_id, "three"))
    events = script.send("response.cancel")
    assert events[1]["transcript"] == "One"
    assert script.core.conversation.messages() == (Message("assistant", "One"),)


@pytest.mark.parametrize(
    ("item_id", "end_ms", "code"),
    [
        ("gone", 0, "item_truncate_invalid_item_id"),
        ("typed", 0, "item_truncate_invalid_item_id"),
        ("spoken", 1001, "invalid_value"),
    ],
)
def test_what_cannot_be_truncated(item_id: str, end_ms: int, code: str) -> None:
    script = Script()
    script.send("conversation.item.create", item=message("y", id="typed"))
    script.complete(script.answer("One ", "two."))
    target = script.core.conversation.last_id if item_id == "spoken" else item_id
    error = script.send_error("conversation.item.truncate", item_id=target, content_index=0, audio_end_ms=end_ms)
    assert error["code"] == code
