"""A rude client against an abstract model of the contract: what each event must be answered with, in any order."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.protocol import RATE, Script
from voice_omni.client.interface import ToolCallDelta
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime import commands
from voice_omni.realtime.conversation import Limits
from voice_omni.realtime.settings import Audio, AudioInput, Session, Transcription

LIMITS = Limits(items=6)
picks = st.integers(0, 50)
Which = tuple[str, int]
which_items = st.tuples(st.sampled_from(["there", "spoken", "spoken", "unheard", "unknown"]), picks)
ROLES = ["user", "assistant", "system"]
NONSENSE = ["{", "[]", '{"type": "response.destroy"}', b"\x00", '{"type": "response.cancel", "x": 1}']
IN_ITEMS = "conversation.item."


class Client(RuleBasedStateMachine):
    """``order``: the items as a client knows them from the events alone. ``unheard``: those that the server removed
    because nobody heard them. ``open``: responses by id, with whether they write the conversation."""

    def __init__(self) -> None:
        super().__init__()
        heard = Session(audio=Audio(input=AudioInput(transcription=Transcription())))
        self.script = Script(heard, limits=LIMITS)
        self.core = self.script.core
        self.numbers = itertools.count()
        self.order: list[str] = []
        self.unheard: set[str] = set()
        self.open: dict[str, bool] = {}
        self.done: set[str] = set()
        self.seconds: dict[str, float] = {}  # of spoken answers, by item
        self.calls: set[str] = set()
        self.turn: str | None = None
        self.stopped = False
        self.manual = False
        self.buffered_ms = 0.0
        self.seen = len(self.script.events)

    # How a client follows

    def follow(self) -> list[dict[str, Any]]:
        """Take note of everything that is new."""
        events = self.script.events[self.seen :]
        self.seen = len(self.script.events)
        for event in events:
            match event["type"]:
                case "conversation.item.added":
                    item_id, previous = event["item"]["id"], event["previous_item_id"]
                    assert item_id not in self.order
                    self.order.insert(0 if previous is None else self.order.index(previous) + 1, item_id)
                    if event["item"]["type"] == "function_call":
                        self.calls.add(event["item"]["call_id"])
                    self.unheard.discard(item_id)
                case "conversation.item.done":
                    position = self.order.index(event["item"]["id"])
                    assert event["previous_item_id"] == (self.order[position - 1] if position else None)
                case "conversation.item.deleted":
                    assert event["item_id"] in {*self.order, *self.unheard}
                    self.order = [item_id for item_id in self.order if item_id != event["item_id"]]
                case "response.created":
                    response = event["response"]
                    assert response["id"] not in {*self.open, *self.done}
                    writes = response["conversation_id"] is not None
                    assert not (writes and any(self.open.values()))
                    self.open[response["id"]] = writes
                case "response.done":
                    del self.open[event["response"]["id"]]
                    self.done.add(event["response"]["id"])
                    assert event["response"]["usage"] is not None
                case kind if kind.startswith("response."):
                    assert event["response_id"] in self.open
                case kind if "transcription" in kind:
                    assert event["item_id"] in self.order
        return events

    def send(self, kind: str, expect: str | None, **fields: Any) -> list[dict[str, Any]]:
        """An event that must be obeyed, or be answered by exactly one error, with its id and this code."""
        event_id = f"mine_{next(self.numbers)}"
        before = (self.core.session, self.core.conversation.messages(), list(self.order))
        self.script.send(kind, event_id=event_id, **fields)
        events = self.follow()
        errors = [event["error"] for event in events if event["type"] == "error"]
        if expect is None:
            assert errors == [], errors
        else:
            assert [(error["code"], error["event_id"]) for error in errors] == [(expect, event_id)]
            assert len(events) == 1
            assert (self.core.session, self.core.conversation.messages(), list(self.order)) == before
        return events

    def item(self, which: Which) -> str:
        kind, pick = which
        spoken = [item_id for item_id in self.order if item_id in self.seconds]
        found = {"there": self.order, "spoken": spoken, "unheard": sorted(self.unheard), "unknown": []}[kind]
        return found[pick % len(found)] if found else "made_up"

    def response(self, pick: int) -> str | None:
        return sorted(self.open)[pick % len(self.open)] if self.open else None

    # Items

    @rule(
        place=st.sampled_from([None, "root"]) | which_items,
        own_id=st.none() | which_items,
        role=st.sampled_from(ROLES),
        empty=st.booleans(),
    )
    def create_message(self, place: str | Which | None, own_id: Which | None, role: str, empty: bool) -> None:
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": "Words."}
        item: dict[str, Any] = {"type": "message", "role": role, "content": [] if empty else [part]}
        if own_id is not None:
            item["id"] = self.item(own_id)
        previous = self.item(place) if isinstance(place, tuple) else place
        expect = None
        if item.get("id") in self.order:
            expect = "item_already_exists"
        elif previous == "made_up" and "made_up" not in self.order:
            expect = "item_not_found"
        fields = {"item": item} if previous is None else {"item": item, "previous_item_id": previous}
        events = self.send("conversation.item.create", expect, **fields)
        if expect is None:
            self.seconds.pop(events[0]["item"]["id"], None)
            assert [event["type"] for event in events[:2]] == [f"{IN_ITEMS}added", f"{IN_ITEMS}done"]
            assert all(event["type"] == f"{IN_ITEMS}deleted" for event in events[2:])

    @rule(known=st.booleans(), pick=picks)
    def create_result(self, known: bool, pick: int) -> None:
        there = [item.call_id for item in map(self.core.conversation.find, self.order) if hasattr(item, "name")]
        call_id = there[pick % len(there)] if known and there else "call_nowhere"
        item = {"type": "function_call_output", "call_id": call_id, "output": "{}"}
        self.send("conversation.item.create", None if call_id in there else "invalid_tool_call_id", item=item)

    @rule(which=which_items)
    def retrieve(self, which: Which) -> None:
        item_id = self.item(which)
        known = item_id in {*self.order, *self.unheard}
        events = self.send(
            "conversation.item.retrieve", None if known else "item_retrieve_invalid_item_id", item_id=item_id
        )
        assert not known or [event["item"]["id"] for event in events] == [item_id]

    @rule(which=which_items)
    def delete(self, which: Which) -> None:
        item_id = self.item(which)
        known = item_id in {*self.order, *self.unheard}
        events = self.send(
            "conversation.item.delete", None if known else "item_delete_invalid_item_id", item_id=item_id
        )
        assert not known or [event["type"] for event in events] == [f"{IN_ITEMS}deleted"]
        self.unheard.discard(item_id)

    @rule(which=which_items, end_ms=st.sampled_from([0, 0, 1, 400, 500, 900, 5000]))
    def truncate(self, which: Which, end_ms: int) -> None:
        item_id = self.item(which)
        seconds = self.seconds.get(item_id)
        known = item_id in {*self.order, *self.unheard}
        expect = None
        if not known or seconds is None:
            expect = "item_truncate_invalid_item_id"
        elif end_ms > seconds * 1000:
            expect = "invalid_value"
        fields = {"item_id": item_id, "content_index": 0, "audio_end_ms": end_ms}
        before = list(self.order)
        events = self.send("conversation.item.truncate", expect, **fields)
        if expect is None:
            assert [event["type"] for event in events] in (
                [f"{IN_ITEMS}truncated"],
                [f"{IN_ITEMS}truncated", f"{IN_ITEMS}deleted"],
            )
            assert end_ms > 0 or self.in_progress(item_id) or item_id not in self.order
            self.unheard |= {*before} - {*self.order}

    def in_progress(self, item_id: str) -> bool:
        item = self.core.conversation.find(item_id)
        return item is not None and item.status == "in_progress"

    # Responses

    @precondition(lambda self: not any(self.open.values()) and not self.stopped)
    @rule(words=st.integers(0, 2))
    def a_whole_answer(self, words: int) -> None:
        self.send("response.create", None)
        response_id = self.script.response_id
        for _ in range(words):
            self.say(response_id, "One ")
        self.end(response_id, "stop")

    @rule(beside=st.booleans(), written=st.booleans())
    def create_response(self, beside: bool, written: bool) -> None:
        expect = "conversation_already_has_active_response" if any(self.open.values()) and not beside else None
        options: dict[str, Any] = {"conversation": "none" if beside else "auto"}
        if written:
            options["output_modalities"] = ["text"]
        commits = expect is None and not beside and self.stopped
        events = self.send("response.create", expect, response=options)
        if expect is None:
            assert events[-1]["type"] == "response.created"
            assert (events[0]["type"] == "input_audio_buffer.committed") is commits
        if commits:
            self.turn, self.stopped, self.buffered_ms = None, False, 0.0

    @rule(pick=picks, named=st.booleans())
    def cancel(self, pick: int, named: bool) -> None:
        target = self.response(pick) if named else None
        active = [response_id for response_id, writes in self.open.items() if writes]
        expect = None if (target if named else active) else "response_cancel_not_active"
        fields = {"response_id": target or "resp_nowhere"} if named else {}
        before = list(self.order)
        events = self.send("response.cancel", expect, **fields)
        if expect is None:
            assert events[-1]["response"]["status"] == "cancelled"
            assert isinstance(self.script.commands[-1], commands.CancelReply)
            self.note_unheard(events[-1]["response"], before)

    @precondition(lambda self: self.open)
    @rule(pick=picks, text=st.sampled_from(["One ", "two "]))
    def the_model_says(self, pick: int, text: str) -> None:
        self.say(self.response(pick) or "", text)

    def say(self, response_id: str, text: str) -> None:
        spoken = self.core.responses.get(response_id)
        assert spoken is not None
        self.script.take(self.core.responses.say(response_id, text))
        if spoken.settings.output == "audio":
            self.script.take(self.core.responses.speak(response_id, bytes(RATE), RATE // 2, ((0, text),)))
            if spoken.item is not None:
                self.seconds[spoken.item.id] = self.seconds.get(spoken.item.id, 0.0) + 0.5
        self.follow()

    @precondition(lambda self: self.open)
    @rule(pick=picks)
    def the_model_only_writes(self, pick: int) -> None:
        """The words come before their sound, which may never come."""
        response_id = self.response(pick) or ""
        self.script.take(self.core.responses.say(response_id, "More "))
        response = self.core.responses.get(response_id)
        if response is not None and response.settings.output == "audio" and response.item is not None:
            self.seconds.setdefault(response.item.id, 0.0)
        self.follow()

    @precondition(lambda self: self.open)
    @rule(pick=picks, number=st.integers(0, 2))
    def the_model_calls(self, pick: int, number: int) -> None:
        response_id = self.response(pick) or ""
        response = self.core.responses.get(response_id)
        if response is None or number in {delta.call for delta in response._held} or number in response._calls:
            return  # a call is made once
        self.script.take(self.core.responses.call(response_id, ToolCallDelta(number, "f", "{}", final=True)))
        self.follow()

    @precondition(lambda self: self.open)
    @rule(pick=picks, how=st.sampled_from(["stop", "length", "fail"]))
    def the_model_ends(self, pick: int, how: str) -> None:
        self.end(self.response(pick) or "", how)

    def end(self, response_id: str, how: str) -> None:
        before = list(self.order)
        if how == "fail":
            events = self.script.take(self.core.responses.fail(response_id, ErrorInfo("stage_died", "It died.")))
        else:
            reason: Any = how
            events = self.script.take(self.core.responses.complete(response_id, reason, (1, 1), spoken_input=False))
        self.follow()
        self.note_unheard(events[-1]["response"], before)
        status = {"stop": "completed", "length": "incomplete", "fail": "failed"}[how]
        assert events[-1]["response"]["status"] == status
        assert self.script.take(self.core.responses.say(response_id, "Too late.")) == []

    def note_unheard(self, response: dict[str, Any], before: list[str]) -> None:
        """Of a response that is over, what was broken off before any of its sound is gone."""
        for item in response["output"]:
            if item["status"] == "incomplete" and self.seconds.get(item["id"]) == 0:
                assert item["id"] not in self.order
        self.unheard |= {*before} - {*self.order}

    # The person's turns

    @rule()
    def speech_begins(self) -> None:
        if not self.manual and (self.turn is None or self.stopped):
            [event] = self.script.take(self.core.speech_started(0))
            assert self.turn in (None, event["item_id"])
            self.turn, self.stopped = event["item_id"], False
            self.follow()

    @precondition(lambda self: self.turn is not None and not self.stopped and not self.manual)
    @rule()
    def speech_ends(self) -> None:
        [event] = self.script.take(self.core.speech_stopped(1000))
        assert event["item_id"] == self.turn
        self.stopped = True
        self.follow()

    @precondition(lambda self: self.stopped)
    @rule(words=st.booleans(), pick=picks)
    def the_turn_is_decided(self, words: bool, pick: int) -> None:
        if words:
            events = self.script.take(self.core.commit())
            assert events[0]["item_id"] == self.turn
            self.script.take(self.core.transcribing(events[0]["item_id"], "Hel"))
        else:
            assert [event["type"] for event in self.script.take(self.core.drop_turn())] == [
                "input_audio_buffer.cleared"
            ]
        self.turn, self.stopped, self.buffered_ms = None, False, 0.0
        self.follow()

    @rule(which=which_items)
    def words_are_known(self, which: Which) -> None:
        item_id = self.item(which)
        item = self.core.conversation.find(item_id)
        if item is None or getattr(item, "role", None) == "user":
            self.script.take(self.core.transcribed(item_id, "Hello.", 1.0))
            self.follow()

    @rule(milliseconds=st.sampled_from([0, 20, 100, 300]))
    def append(self, milliseconds: int) -> None:
        if self.buffered_ms < 1000:
            self.script.sound(milliseconds)
            self.buffered_ms += milliseconds
            assert self.follow() == []

    @rule()
    def commit_by_hand(self) -> None:
        held = self.buffered_ms if self.manual else 0.0
        expect = None if self.turn is not None or held >= 100 else "input_audio_buffer_commit_empty"
        events = self.send("input_audio_buffer.commit", expect)
        if expect is None:
            assert self.turn in (None, events[0]["item_id"])
            self.turn, self.stopped, self.buffered_ms = None, False, 0.0

    @rule()
    def clear(self) -> None:
        events = self.send("input_audio_buffer.clear", None)
        assert [event["type"] for event in events] == ["input_audio_buffer.cleared"]
        self.turn, self.stopped, self.buffered_ms = None, False, 0.0

    @rule(detection=st.sampled_from([None, {"type": "server_vad"}, {"type": "semantic_vad"}, {"threshold": 0.7}]))
    def change_turn_detection(self, detection: dict[str, Any] | None) -> None:
        kind = getattr(self.core.session.audio.input.turn_detection, "__struct_config__", None)
        misplaced = detection == {"threshold": 0.7} and kind is not None and kind.tag == "semantic_vad"
        patch = {"audio": {"input": {"turn_detection": detection}}}
        self.send("session.update", "unknown_parameter" if misplaced else None, session=patch)
        if misplaced:
            return
        if self.manual and detection is not None:
            self.turn, self.stopped, self.buffered_ms = None, False, 0.0
        self.manual = detection is None

    # Nonsense

    @rule(
        message=st.sampled_from(
            ["{", "[]", '{"type": "response.destroy"}', b"\x00", '{"type": "response.cancel", "x": 1}']
        )
    )
    def nonsense(self, message: str | bytes) -> None:
        events = self.script.take(self.core.receive(message))
        assert [event["type"] for event in events] == ["error"]
        assert self.follow() == events

    @invariant()
    def the_client_and_the_server_know_the_same_items(self) -> None:
        assert self.order == list(self.core.conversation._order)
        assert len(self.order) <= LIMITS.items

    @invariant()
    def at_most_one_response_writes(self) -> None:
        active = self.core.responses.active
        assert [active.id] if active else [each for each, writes in self.open.items() if writes] == []

    def teardown(self) -> None:
        for response_id in list(self.open):
            self.script.take(self.core.cancel(response_id, "client_cancelled"))
        self.follow()
        assert self.open == {}
        created = sum(event["type"] == "response.created" for event in self.script.events)
        assert created == sum(event["type"] == "response.done" for event in self.script.events) == len(self.done)


Client.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow], deadline=None
)
test_any_order_of_events = Client.TestCase
