"""A client that was disconnected goes on where it was: it puts back the items that it has seen, as they were."""

from __future__ import annotations

from typing import Any

from websockets.asyncio.client import connect

from tests.support.caller import Caller, Event, services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from tests.support.speech import recording
from tests.support.talk import RATE
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel

TYPED = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And of Italy?"}]}
SETTINGS = {"type": "realtime", "instructions": "Be brief.", "audio": {"input": {"transcription": {}}}}


def seen(events: list[Event]) -> list[tuple[str | None, dict[str, Any]]]:
    """The conversation as a client knows it: each item as it was last shown, after the item before it."""
    items: dict[str, dict[str, Any]] = {}
    for event in events:
        match event:
            case {"type": "conversation.item.added" | "conversation.item.done", "item": item}:
                items[item["id"]] = item
            case {"type": "conversation.item.input_audio_transcription.completed"}:
                items[event["item_id"]]["content"][0]["transcript"] = event["transcript"]
            case {"type": "conversation.item.deleted", "item_id": item_id}:
                del items[item_id]
    ids = [None, *items]
    return list(zip(ids, items.values(), strict=False))


async def test_items_put_back_by_id_are_the_conversation_again(silero: SileroModel) -> None:
    client = ScriptedClient()
    app = create_app(services(client, silero))
    async with serving(app) as address:
        async with connect(f"ws://{address}/v1/realtime") as connection:
            caller = Caller(connection)
            await caller.send("session.update", session=SETTINGS)
            await caller.say(recording("question-10").samples(RATE))
            await caller.until("response.done")
            await caller.send("conversation.item.create", item=TYPED)
            await caller.until("conversation.item.done")
            connection.transport.abort()
        before = seen(caller.events)
        assert [item["role"] for _, item in before] == ["user", "assistant", "user"]

        async with connect(f"ws://{address}/v1/realtime") as connection:
            caller = Caller(connection)
            await caller.until("session.created")
            await caller.send("session.update", session=SETTINGS)
            for previous, item in before:
                await caller.send("conversation.item.create", item=item, previous_item_id=previous)
                added = await caller.until("conversation.item.added")
                assert (added["previous_item_id"], added["item"]["id"]) == (previous, item["id"])
            await caller.send("response.create")
            done = await caller.until("response.done")
            assert done["response"]["status"] == "completed"
            assert seen(caller.events)[:3] == before
    first, second = client.replies[0].request, client.replies[-1].request
    assert second.instructions == first.instructions == "Be brief."
    told = [(message.role, str(message)) for message in second.messages]
    assert [role for role, _ in told] == ["user", "assistant", "user"]
    for (_, text), words in zip(
        told, ("what is the capital of France", "The capital of France is Paris.", "And of Italy?"), strict=True
    ):
        assert words in text


async def test_the_order_does_not_matter_as_long_as_each_follows_one_that_is_there(silero: SileroModel) -> None:
    async with (
        serving(create_app(services(ScriptedClient(), silero))) as address,
        connect(f"ws://{address}/v1/realtime") as connection,
    ):
        caller = Caller(connection)
        for item_id, previous in (("third", None), ("first", "root"), ("second", "first")):
            await caller.send("conversation.item.create", item={**TYPED, "id": item_id}, previous_item_id=previous)
        order: list[str] = []
        for _ in range(3):
            added = await caller.until("conversation.item.added")
            after = added["previous_item_id"]
            order.insert(0 if after is None else order.index(after) + 1, added["item"]["id"])
        assert order == ["first", "second", "third"]
        await caller.send("conversation.item.create", item={**TYPED, "id": "third"}, event_id="again")
        error = (await caller.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("item_already_exists", "again")
