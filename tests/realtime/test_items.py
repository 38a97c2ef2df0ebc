"""Items that the client brings, reads and removes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.protocol import Script, kinds, message
from voice_omni.realtime import commands


def test_items_go_where_the_client_puts_them() -> None:
    script = Script()
    script.send("conversation.item.create", item=message("b", id="b"))
    script.send("conversation.item.create", item=message("d", id="d"))
    at_root = script.send("conversation.item.create", item=message("a", id="a"), previous_item_id="root")
    between = script.send("conversation.item.create", item=message("c", id="c"), previous_item_id="b")
    assert kinds(at_root) == ["conversation.item.added", "conversation.item.done"]
    assert [event["previous_item_id"] for event in at_root] == [None, None]
    assert [event["previous_item_id"] for event in between] == ["b", "b"]
    assert [message.content for message in script.core.conversation.messages()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"item": message("x", id="there")}, "item_already_exists", "item.id"),
        ({"item": message("x"), "previous_item_id": "gone"}, "item_not_found", "previous_item_id"),
        ({"item": {"type": "message", "role": "user"}}, "missing_required_parameter", "item.content"),
        (
            {"item": {"type": "message", "role": "system", "content": [{"type": "output_text", "text": "x"}]}},
            "invalid_value",
            "item.content[0].type",
        ),
        (
            {"item": {"type": "message", "role": "user", "content": [{"type": "input_text"}]}},
            "missing_required_parameter",
            "item.content[0].text",
        ),
        (
            {"item": {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "@"}]}},
            "invalid_value",
            "item.content",
        ),
        ({"item": message("x", colour="red")}, "unknown_parameter", "item.colour"),
        ({"item": message("x", id="root")}, "invalid_value", "item.id"),
    ],
)
def test_faulty_items_are_refused_and_leave_no_trace(fields: dict[str, Any], code: str, param: str) -> None:
    script = Script()
    script.send("conversation.item.create", item=message("y", id="there"))
    error = script.send_error("conversation.item.create", **fields)
    assert (error["code"], error["param"]) == (code, param)
    assert [message.content for message in script.core.conversation.messages()] == ["y"]


def test_a_message_may_be_empty_and_says_nothing() -> None:
    """Clients put back what they were shown, and a message is shown without content when it begins."""
    script = Script()
    [added, _] = script.send("conversation.item.create", item={"type": "message", "role": "assistant", "content": []})
    assert added["item"]["content"] == []
    assert script.core.conversation.messages() == ()


def test_a_clients_item_may_hold_sound() -> None:
    script = Script()
    audio = base64.b64encode(bytes(480)).decode()
    part = {"type": "input_audio", "audio": audio}
    script.send("conversation.item.create", item={"type": "message", "role": "user", "id": "s", "content": [part]})
    [command] = [command for command in script.commands if isinstance(command, commands.ItemAudio)]
    assert (command.item_id, len(command.samples), command.sample_rate) == ("s", 240, 24000)


def test_deleting_and_retrieving() -> None:
    script = Script()
    script.send("conversation.item.create", item=message("y", id="y"))
    [deleted] = script.send("conversation.item.delete", item_id="y")
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", "y")
    assert script.send_error("conversation.item.delete", item_id="y")["code"] == "item_delete_invalid_item_id"
    assert script.send_error("conversation.item.retrieve", item_id="y")["code"] == "item_retrieve_invalid_item_id"
