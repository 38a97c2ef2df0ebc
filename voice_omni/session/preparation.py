"""Answers that are being made before anybody is sure to want them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from voice_omni.client.interface import GenerateRequest, Message, VoiceClient
from voice_omni.realtime.core import RealtimeCore
from voice_omni.realtime.response import ResponseSettings
from voice_omni.session.reply_run import ReplyListener, ReplyRun
from voice_omni.session.requests import build_request, transcript_request
from voice_omni.session.turn import Turn


class Preparation:
    """Opens replies for turns, opens them again when what they were made from has changed, and lets go of them."""

    def __init__(
        self, client: VoiceClient, core: RealtimeCore, voices: Collection[str], listener: ReplyListener
    ) -> None:
        """``voices``: the pipeline's own."""
        self._client = client
        self._core = core
        self._voices = voices
        self._listener = listener
        self._turns: dict[ReplyRun, Turn | None] = {}

    def turn_of(self, run: ReplyRun) -> Turn | None:
        """The turn whose sound the run was given."""
        return self._turns.get(run)

    def request(
        self, settings: ResponseSettings, turn: Turn | None, messages: tuple[Message, ...] | None = None
    ) -> GenerateRequest:
        """What to ask for now: an answer to the turn, after ``messages`` or else after the conversation."""
        conversation, following = self._core.conversation, tuple[Message, ...]()
        if messages is None:
            item_id = turn.item_id if turn is not None else None
            if item_id is not None and conversation.find(item_id) is not None:
                messages, following = conversation.around(item_id)
            else:
                messages = conversation.messages()
        utterance = turn.utterance if turn is not None else None
        return build_request(
            settings, messages, utterance, session_id=self._core.id, voices=self._voices, following=following
        )

    def open(self, request: GenerateRequest, turn: Turn | None) -> ReplyRun:
        run = ReplyRun(self._client, request, turn.utterance if turn is not None else None, self._listener)
        self._turns[run] = turn
        # The run is remembered until nothing of it runs any more, so that closing can wait for it.
        asyncio.create_task(run.closed()).add_done_callback(lambda _: self._turns.pop(run, None))
        return run

    def begin(self, turn: Turn) -> None:
        """Begin an answer to the turn as far as it has been heard, from what holds now."""
        self.drop(turn)
        turn.run = self.open(self.request(self._core.prospect(), turn), turn)
        if turn.ended:
            turn.run.end_input()

    def transcribe(self, turn: Turn) -> None:
        """Have the turn, which is over, written down beside its answer."""
        turn.scribe = self.open(transcript_request(turn.utterance), turn)
        turn.scribe.end_input()

    def end_input(self, turn: Turn) -> None:
        """Answer what has been said by now. A reply that has failed while it was listening gets another chance."""
        if turn.run is None or turn.run.error is not None:
            self.begin(turn)
        if turn.run is not None:
            turn.run.end_input()

    def refresh(self, turn: Turn) -> None:
        """Begin anew if the answer would be made from something else now."""
        run = turn.run
        if run is not None and run.request != self.request(self._core.prospect(), turn):
            ended = run.input_ended
            self.begin(turn)
            if ended:
                self.end_input(turn)

    def drop(self, turn: Turn) -> None:
        """Nobody will ask for the turn's answer. One that a response already has is not touched."""
        if turn.run is not None and turn.run.response_id is None:
            turn.run.abort()
            turn.run = None

    def dismiss(self, turn: Turn) -> None:
        """The turn's words are known."""
        if turn.scribe is not None:
            turn.scribe.abort()

    async def close(self) -> None:
        """Abort everything; returns when nothing runs."""
        runs = list(self._turns)
        for run in runs:
            run.abort()
        await asyncio.gather(*(run.closed() for run in runs))
