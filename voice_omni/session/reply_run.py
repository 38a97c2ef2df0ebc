"""One reply of the pipeline on behalf of a session: sound goes in as it is spoken, output waits to be released."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from voice_omni.client.interface import (
    AudioDelta,
    Done,
    Failed,
    GenerateRequest,
    Reply,
    TextDelta,
    ToolCallDelta,
    Transcript,
    VoiceClient,
)
from voice_omni.proto.errors import ErrorInfo, OmniError
from voice_omni.session.utterance import Utterance

_log = logging.getLogger(__name__)


class ReplyListener(Protocol):
    """Who follows a run. Nothing is reported of a run that was aborted."""

    def on_transcript(self, run: ReplyRun, transcript: Transcript) -> None: ...

    def on_answering(self, run: ReplyRun) -> None:
        """The pipeline has begun to answer: what it heard was worth one."""
        ...

    async def on_content(self, run: ReplyRun, delta: TextDelta | ToolCallDelta | AudioDelta) -> None:
        """The next piece of the answer; the pipeline is held back until this returns."""
        ...

    async def on_done(self, run: ReplyRun, done: Done) -> None: ...

    def on_failed(self, run: ReplyRun, error: ErrorInfo) -> None: ...


class ReplyRun:
    """Opens a reply at once. With an utterance, its sound is sent from the beginning, then as it grows.

    The answer is made but not taken until :meth:`release`: the pipeline's own credits bound what waits, nothing is
    stored here.
    """

    def __init__(
        self, client: VoiceClient, request: GenerateRequest, utterance: Utterance | None, listener: ReplyListener
    ) -> None:
        self.request = request
        self.utterance = utterance
        self.response_id: str | None = None
        self.epoch: int | None = None
        self.answering = False
        self.transcript: Transcript | None = None
        self.error: ErrorInfo | None = None
        self._client = client
        self._listener = listener
        self._reader = utterance.reader() if utterance is not None else None
        self._reply: Reply | None = None
        self._aborted = False
        self._released = asyncio.Event()
        self._abort: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._ended)

    @property
    def input_ended(self) -> bool:
        return self._reader is None or self._reader.ended

    @property
    def final_words(self) -> str | None:
        """All that was said; None while it may still change."""
        return self.transcript.text.strip() if self.transcript is not None and self.transcript.final else None

    @property
    def found_nothing(self) -> bool:
        """There were no words in the sound."""
        if self.error is not None:
            return self.error.code == "no_speech"
        return self.final_words == "" and not self.answering

    @property
    def found_words(self) -> bool:
        return self.answering or bool(self.final_words)

    def end_input(self) -> None:
        """The turn's sound is complete as far as this reply goes: answer it."""
        if self._reader is not None:
            self._reader.end()

    def release(self, response_id: str, epoch: int | None) -> None:
        """From now on the answer belongs to a response and is handed to the listener."""
        self.response_id, self.epoch = response_id, epoch
        self._released.set()

    def abort(self) -> None:
        """Nothing more is reported, from this moment on. The pipeline is told and not waited for."""
        if self._aborted:
            return
        self._aborted = True
        if self._reply is not None and not self._task.done():
            self._task.cancel()
            self._abort = asyncio.create_task(_abort(self._reply))
        # Without a reply yet, the task is inside open(), which must not be cut short: it would leave a request that
        # nobody holds. It aborts the reply itself as soon as there is one.

    async def closed(self) -> None:
        """Wait until nothing of it runs any more."""
        await asyncio.wait([self._task])
        if self._abort is not None:
            await asyncio.wait([self._abort])

    async def _run(self) -> None:
        try:
            reply = await self._client.open(self.request)
        except OmniError as error:
            self._fail(error.info)
            return
        if self._aborted:
            await _abort(reply)
            return
        self._reply = reply
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(self._send(reply))
            await self._receive(reply)
            sending.cancel()

    async def _send(self, reply: Reply) -> None:
        if self._reader is None:
            return
        async for samples in self._reader:
            await reply.send_audio(samples)
        await reply.end_audio()

    async def _receive(self, reply: Reply) -> None:
        async for event in reply:
            match event:
                case Transcript():
                    self.transcript = event
                    self._listener.on_transcript(self, event)
                case Failed(error):
                    self._fail(error)
                    return
                case Done():
                    self._answer()
                    await self._released.wait()
                    await self._listener.on_done(self, event)
                    return
                case _:
                    self._answer()
                    await self._released.wait()
                    await self._listener.on_content(self, event)
        self._fail(ErrorInfo("aborted", "The pipeline ended the answer.", retryable=True))

    def _answer(self) -> None:
        if not self.answering:
            self.answering = True
            self._listener.on_answering(self)

    def _fail(self, error: ErrorInfo) -> None:
        if not self._aborted:
            self.error = error
            self._listener.on_failed(self, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Whatever else may go wrong in here fails this reply, and nothing beside it."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a reply ended unexpectedly", exc_info=error)
            if self._reply is not None and self._abort is None:
                self._abort = asyncio.create_task(_abort(self._reply))
            self._fail(ErrorInfo("internal_error", "The answer could not be made.", retryable=True))


async def _abort(reply: Reply) -> None:
    try:
        await reply.abort()
    except OmniError as error:
        _log.warning("aborting %s: %s", reply.request_id, error)
