"""One request as the coordinator sees it: its state, what is still missing, and what waits for the client. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import StageDone
from voice_omni.proto.payload import Data, OmniRequest


class RequestState(Enum):
    """``PENDING`` until a stage has put something out or finished, then ``RUNNING``; the other three are final."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def final(self) -> bool:
        return self in (RequestState.COMPLETED, RequestState.FAILED, RequestState.ABORTED)


@dataclass(frozen=True, slots=True)
class StageOutput:
    """A chunk that a terminal stage put out."""

    stage: str
    data: Data


@dataclass(slots=True)
class RequestRecord:
    """``route`` are its stages, ``terminals`` those whose results make it complete.

    ``output`` holds chunks that the client has not taken; each terminal's credits bound it.
    """

    request: OmniRequest
    route: tuple[str, ...]
    terminals: tuple[str, ...]
    bindings: dict[str, str]
    state: RequestState = RequestState.PENDING
    error: OmniError | None = None
    output: deque[StageOutput] = field(default_factory=deque)
    results: dict[str, Data] = field(default_factory=dict)
    done: dict[str, StageDone] = field(default_factory=dict)

    @property
    def request_id(self) -> str:
        return self.request.request_id

    def chunk(self, stage: str, data: Data) -> None:
        if not self.state.final:
            self.state = RequestState.RUNNING
            self.output.append(StageOutput(stage, data))

    def result(self, stage: str, data: Data) -> None:
        if not self.state.final:
            self.results[stage] = data
            self._progress()

    def stage_done(self, done: StageDone) -> None:
        if not self.state.final:
            self.done[done.stage] = done
            self._progress()

    def _progress(self) -> None:
        complete = len(self.done) == len(self.route) and len(self.results) == len(self.terminals)
        self.state = RequestState.COMPLETED if complete else RequestState.RUNNING

    def fail(self, error: OmniError) -> bool:
        """False if the request had ended before. What the client has not taken yet is dropped."""
        if self.state.final:
            return False
        self.state = RequestState.FAILED
        self.error = error
        self.output.clear()
        return True

    def abort(self) -> bool:
        if self.state.final:
            return False
        self.state = RequestState.ABORTED
        self.output.clear()
        return True

    def may_be_held_by(self, stage: str, sources: tuple[str, ...]) -> bool:
        """Whether ``stage`` may hold this request, given the stages that feed it on this route.

        It does not if it has finished, and not before one of its sources has: a source that still streams reports by
        itself what it has already sent. An entry stage holds it from the start.
        """
        if stage not in self.route or stage in self.done:
            return False
        return not sources or any(source in self.done for source in sources)
