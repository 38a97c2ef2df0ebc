"""What was said before an item and after it."""

from __future__ import annotations

from voice_omni.client.interface import Message
from voice_omni.realtime.conversation import Conversation
from voice_omni.realtime.items import FunctionCall, FunctionCallOutput, MessageItem, Part


def test_an_item_without_words_stands_between_what_was_said_before_and_after() -> None:
    conversation = Conversation("c")
    conversation.insert(MessageItem("a", "user", [Part("input_text", "one")]))
    conversation.insert(FunctionCall("b", "1", "look"))
    conversation.insert(MessageItem("c", "user", [Part("input_audio")]))
    conversation.insert(FunctionCall("d", "2", "look"))
    conversation.insert(FunctionCallOutput("e", "2", "seen"))
    before, after = conversation.around("c")
    assert [message.role for message in before] == ["user", "assistant"]
    assert after[-1] == Message("tool", "seen", call_id="2")
    assert [call.call_id for call in after[0].tool_calls] == ["2"]
