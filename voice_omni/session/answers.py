"""The answers under way: from the reply that a response was given to the events that carry it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from voice_omni.client.interface import AudioDelta, Done, TextDelta, ToolCallDelta
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.core import RealtimeCore
from voice_omni.session.fence import EpochFence
from voice_omni.session.outbox import Outbox
from voice_omni.session.reply_run import ReplyRun
from voice_omni.session.speaker import Speaker
from voice_omni.session.timings import timings
from voice_omni.session.turn import Moments


class Answers:
    """Writes what replies say into their responses, until they are done or cut off.

    ``finished`` is called after each ``response.done`` that was not a cancellation, with whether the response was the
    conversation's.
    """

    def __init__(
        self,
        core: RealtimeCore,
        outbox: Outbox,
        fence: EpochFence,
        speaker: Speaker,
        *,
        clock: Callable[[], float],
        include_timings: bool,
        finished: Callable[[bool], None],
    ) -> None:
        self._core = core
        self._outbox = outbox
        self._fence = fence
        self._speaker = speaker
        self._clock = clock
        self._include_timings = include_timings
        self._finished = finished
        self._runs: dict[str, ReplyRun] = {}
        self._moments: dict[str, Moments] = {}

    def give(self, run: ReplyRun, response_id: str, moments: Moments | None) -> None:
        """``run`` answers the response; ``moments``: of the turn that it answers."""
        response = self._core.responses.get(response_id)
        if response is None:
            run.abort()
            return
        self._runs[response_id] = run
        self._moments[response_id] = moments or Moments()
        # An answer beside the conversation is not spoken over, so no interruption makes it stale.
        run.release(response_id, self._fence.epoch if response.in_conversation else None)
        if run.error is not None:
            self.fail(run, run.error)

    def silence(self) -> None:
        """Stop all sound: what waits becomes stale, and the conversation keeps what was heard."""
        self._fence.bump()
        self._outbox.drop_stale()
        for item_id, played_ms in self._speaker.silence().items():
            self._outbox.put(self._core.heard(item_id, played_ms))

    def cut(self, response_id: str) -> bool:
        """The response was cancelled. Whether it was the conversation's."""
        run = self._forget(response_id)
        if run is None:
            return False
        if _in_conversation(run):
            self.silence()
        run.abort()
        return _in_conversation(run)

    async def write(self, run: ReplyRun, delta: TextDelta | ToolCallDelta | AudioDelta) -> None:
        """Send the next piece, at the pace at which it can be sent."""
        response = self._core.responses.get(run.response_id or "")
        if response is None:
            return
        match delta:
            case TextDelta(text):
                await self._outbox.room()
                self._outbox.put(self._core.responses.say(response.id, text), run.epoch)
            case ToolCallDelta():
                await self._outbox.room()
                self._outbox.put(self._core.responses.call(response.id, delta), run.epoch)
            case AudioDelta():
                await self._speaker.speak(response, delta, run.epoch)
        moments = self._moments.get(response.id)
        if moments is not None and moments.first_audio is None and isinstance(delta, AudioDelta):
            moments.first_audio = self._clock()

    def finish(self, run: ReplyRun, done: Done) -> None:
        response = self._core.responses.get(run.response_id or "")
        if response is None:
            return
        self._speaker.finish(response, run.epoch)
        moments = self._moments[response.id]
        extra: dict[str, Any] | None = {"timings": timings(done, moments)} if self._include_timings else None
        self._forget(response.id)
        tokens = (done.input_tokens, done.output_tokens)
        spoken = run.request.input == "speech"
        self._outbox.put(
            self._core.responses.complete(response.id, done.finish_reason, tokens, spoken_input=spoken, extra=extra),
            run.epoch,
        )
        self._finished(_in_conversation(run))

    def fail(self, run: ReplyRun, error: ErrorInfo) -> None:
        """Silence cannot be answered: a response that was asked for nevertheless is complete, and empty."""
        response_id = run.response_id or ""
        self._forget(response_id)
        if error.code == "no_speech":
            self._outbox.put(self._core.responses.complete(response_id, "stop", (0, 0), spoken_input=True), run.epoch)
        else:
            self._outbox.put(self._core.responses.fail(response_id, error), run.epoch)
        self._finished(_in_conversation(run))

    def _forget(self, response_id: str) -> ReplyRun | None:
        self._speaker.forget(response_id)
        self._moments.pop(response_id, None)
        return self._runs.pop(response_id, None)


def _in_conversation(run: ReplyRun) -> bool:
    return run.epoch is not None
