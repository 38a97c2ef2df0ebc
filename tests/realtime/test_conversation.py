"""What a conversation holds, and what it forgets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.protocol import Script, kinds
from voice_omni.realtime.conversation import Conversation, Limits
from voice_omni.realtime.items import MessageItem, Part
from voice_omni.realtime.settings import RetentionRatio, TokenLimits
from voice_omni.realtime.window import Truncation

FEW = Limits(items=4, characters=100)


def told(script: Script) -> list[str]:
    return [message.content for message in script.core.conversation.messages()]


def full(truncation: Any = "auto") -> Script:
    script = Script(limits=FEW)
    script.send("session.update", session={"truncation": truncation})
    for name in "abcd":
        script.message(name, id=name)
    return script


def add(script: Script, text: str, item_id: str) -> list[dict[str, Any]]:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "id": item_id, "content": content}
    return script.send("conversation.item.create", item=item)


def test_a_full_conversation_forgets_its_oldest_items_and_says_so() -> None:
    script = full()
    added, done, deleted = add(script, "e", "e")
    assert added["previous_item_id"] == done["previous_item_id"] == "d"
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", "a")
    assert told(script) == ["b", "c", "d", "e"]


def test_characters_count_as_well() -> None:
    script = full()
    events = add(script, "x" * 98, "e")
    assert [event["item_id"] for event in events[2:]] == ["a", "b"]


def test_with_a_retention_ratio_it_forgets_more_at_once() -> None:
    script = full({"type": "retention_ratio", "retention_ratio": 0.5})
    assert kinds(add(script, "e", "e"))[2:] == ["conversation.item.deleted"] * 3
    assert told(script) == ["d", "e"]


def test_where_that_is_disabled_a_client_cannot_add_more() -> None:
    script = full("disabled")
    error = script.send_error(
        "conversation.item.create", event_id="mine", item={"type": "message", "role": "user", "content": []}
    )
    assert (error["code"], error["event_id"]) == ("conversation_full", "mine")
    script.send("conversation.item.delete", item_id="a")
    assert kinds(add(script, "e", "e")) == ["conversation.item.added", "conversation.item.done"]


@pytest.mark.parametrize("truncation", ["auto", "disabled"])
def test_what_people_and_the_model_say_always_finds_room(truncation: str) -> None:
    script = full(truncation)
    events = script.take([*script.core.speech_started(0), *script.core.speech_stopped(900), *script.core.commit()])
    assert events[-1]["type"] == "conversation.item.deleted"
    script.complete(script.answer("Hello."))
    assert len(script.core.conversation._order) == FEW.items


def test_an_answer_that_is_being_given_is_not_forgotten() -> None:
    script = Script(limits=FEW)
    response_id = script.answer("Hello ")
    answer = script.core.conversation.last_id
    for number in range(6):
        script.message("x", id=f"i{number}")
    assert script.core.conversation.find(answer or "") is not None
    script.complete(response_id)
    assert len(script.core.conversation._order) == FEW.items


def test_ten_thousand_items_leave_no_more_than_the_limit_of_them() -> None:
    script = Script(limits=Limits(items=100))
    for number in range(10_000):
        script.core.receive(
            '{"type": "conversation.item.create", "item": {"type": "message", "role": "user", '
            f'"content": [{{"type": "input_text", "text": "{number}"}}]}}}}'
        )
    assert len(told(script)) == 100


def conversation(count: int, truncation: Truncation) -> Conversation:
    """Messages of ten tokens each."""
    result = Conversation("conv")
    result.truncate_by(truncation)
    for number in range(count):
        result.insert(MessageItem(str(number), "user", [Part("input_text", f"{number:<40}")]))
    return result


def seen(result: Conversation) -> list[str]:
    return [message.content.strip() for message in result.messages()]


def test_the_model_is_told_no_more_tokens_than_the_client_allows() -> None:
    ratio = RetentionRatio(retention_ratio=0.5, token_limits=TokenLimits(post_instructions=100))
    assert seen(conversation(10, ratio)) == [str(number) for number in range(10)]
    result = conversation(11, ratio)
    assert seen(result) == ["6", "7", "8", "9", "10"]
    result.insert(MessageItem("11", "user", [Part("input_text", f"{11:<40}")]))
    assert seen(result) == ["6", "7", "8", "9", "10", "11"]  # what begins the prompt stays, so that it can be cached
    assert result.find("0") is not None


def test_without_a_limit_it_is_told_everything() -> None:
    assert len(seen(conversation(50, RetentionRatio(retention_ratio=0.5)))) == 50
    assert len(seen(conversation(50, "auto"))) == 50
