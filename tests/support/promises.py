"""What holds of a session's events whatever its client does."""

from __future__ import annotations

from tests.support.talk import Event


def check_responses(events: list[Event]) -> None:
    """Each response has one beginning and one end, deltas in between, and only one at a time writes."""
    beside = {event["response"]["id"] for event in events if event["type"] == "response.created"
              and event["response"]["conversation_id"] is None}  # fmt: skip
    alive: set[str] = set()
    finished: set[str] = set()
    for event in events:
        if event["type"] == "response.created":
            response_id = event["response"]["id"]
            assert response_id not in alive | finished
            if response_id not in beside:
                assert alive <= beside
            alive.add(response_id)
        elif event["type"] == "response.done":
            alive.remove(event["response"]["id"])
            finished.add(event["response"]["id"])
            assert event["response"]["usage"]["total_tokens"] >= 0
        elif event["type"].startswith("response."):
            assert event["response_id"] in alive
    assert alive == set()


def check_conversation(events: list[Event]) -> None:
    """A client that follows the previous ids knows every item and its place, and is told of no others.

    An answer that nobody heard is deleted by the server, and once more by a client who does not know that yet.
    """
    order: list[str] = []
    known: set[str] = set()
    for event in events:
        if event["type"] in ("conversation.item.added", "conversation.item.created"):
            previous = event["previous_item_id"]
            order.insert(0 if previous is None else order.index(previous) + 1, event["item"]["id"])
            known.add(event["item"]["id"])
        elif event["type"] == "conversation.item.deleted":
            assert event["item_id"] in known
            order = [item_id for item_id in order if item_id != event["item_id"]]
        elif event["type"] == "conversation.item.done":
            position = order.index(event["item"]["id"])
            assert event["previous_item_id"] == (order[position - 1] if position else None)


def check_turns(events: list[Event]) -> None:
    """Starts and stops alternate, and what was committed becomes an item."""
    speaking: bool | None = False  # None: turn detection may have been switched in between
    for number, event in enumerate(events):
        match event["type"]:
            case "input_audio_buffer.speech_started":
                assert speaking is not True
                speaking = True
            case "input_audio_buffer.speech_stopped":
                assert speaking is not False
                speaking = False
            case "input_audio_buffer.committed":
                speaking = False
                following = events[number + 1]
                assert following["type"] == "conversation.item.added"
                assert following["item"]["id"] == event["item_id"]
                assert following["previous_item_id"] == event["previous_item_id"]
            case "input_audio_buffer.cleared":
                speaking = False
            case "session.updated":
                speaking = False if speaking is False else None
