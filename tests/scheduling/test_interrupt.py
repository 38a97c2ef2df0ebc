"""An abort need not wait for a batch that only aborted requests are in."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.patience import PATIENCE_S
from voice_omni.model_runner.interface import Outcome, Work
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import OmniRequest, StagePayload
from voice_omni.scheduling.interface import EndIn, FailedOut, New, Outgoing, ResultOut
from voice_omni.scheduling.options import SimpleOptions
from voice_omni.scheduling.simple import SimpleScheduler


class Slow:
    """Computes until it is told to go on or interrupted; says when it has begun, and with whom."""

    def __init__(self) -> None:
        self.began: queue.Queue[list[str]] = queue.Queue()
        self.interruptions = 0
        self._end = threading.Event()
        self._interrupted = False

    def open(self, payload: StagePayload) -> str:
        return payload.request_id

    def cost(self, work: Work[str]) -> float:
        return 1.0

    def run(self, batch: Sequence[Work[str]]) -> Sequence[Outcome]:
        self._interrupted = False
        self._end.clear()
        self.began.put([work.request_id for work in batch])
        assert self._end.wait(PATIENCE_S)
        if self._interrupted:
            raise OmniError("aborted", "the computation was interrupted")
        return [Outcome(result={}) for _ in batch]

    def go_on(self) -> None:
        self._end.set()

    def interrupt(self) -> None:
        self.interruptions += 1
        self._interrupted = True
        self._end.set()

    def close(self, state: str) -> None:
        pass


@contextmanager
def serving(runner: Slow) -> Iterator[tuple[SimpleScheduler, queue.Queue[Outgoing]]]:
    outbox: queue.Queue[Outgoing] = queue.Queue()
    scheduler = SimpleScheduler(runner, SimpleOptions(), outbox)
    for request_id in ("a", "b"):
        open_request(scheduler, request_id)
    thread = threading.Thread(target=scheduler.start)
    thread.start()
    yield scheduler, outbox
    scheduler.stop()
    runner.go_on()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def open_request(scheduler: SimpleScheduler, request_id: str) -> None:
    scheduler.inbox.put(New(StagePayload(OmniRequest(request_id=request_id, route="r")), credits=1))
    scheduler.inbox.put(EndIn(request_id))


def test_the_abort_of_all_requests_in_a_batch_interrupts_it() -> None:
    runner = Slow()
    with serving(runner) as (scheduler, outbox):
        assert runner.began.get(timeout=PATIENCE_S) == ["a", "b"]
        scheduler.abort("a")
        assert runner.interruptions == 0, "b is still wanted"
        scheduler.abort("b")
        ended = [outbox.get(timeout=PATIENCE_S) for _ in range(2)]
        assert [message.request_id for message in ended] == ["a", "b"]
        assert all(isinstance(message, FailedOut) and message.error.code == "aborted" for message in ended)


def test_an_abort_leaves_the_batch_of_others_alone() -> None:
    runner = Slow()
    with serving(runner) as (scheduler, outbox):
        assert runner.began.get(timeout=PATIENCE_S) == ["a", "b"]
        scheduler.abort("a")
        runner.go_on()
        first = [outbox.get(timeout=PATIENCE_S) for _ in range(2)]
        assert first == [ResultOut("a", {}), ResultOut("b", {})]
        open_request(scheduler, "c")
        assert runner.began.get(timeout=PATIENCE_S) == ["c"]
        scheduler.abort("a")
        scheduler.abort("b")
        assert runner.interruptions == 0
        runner.go_on()
        assert outbox.get(timeout=PATIENCE_S) == ResultOut("c", {})
