"""A request as the coordinator sees it: when it is complete, and that an end is an end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voice_omni.pipeline.request import RequestRecord, RequestState, StageOutput
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import StageDone
from voice_omni.proto.payload import OmniRequest

ROUTE = ("listen", "think", "speak")
TERMINALS = ("listen", "speak")


def record() -> RequestRecord:
    return RequestRecord(OmniRequest(request_id="r", route="speech"), ROUTE, TERMINALS, dict.fromkeys(ROUTE, "node"))


def done(stage: str) -> StageDone:
    return StageDone("r", stage, 1.0, 2.0, 3.0, 4.0)


def finish(request: RequestRecord) -> None:
    for stage in TERMINALS:
        request.result(stage, {})
    for stage in ROUTE:
        request.stage_done(done(stage))


def test_it_runs_from_its_first_output() -> None:
    request = record()
    assert request.state is RequestState.PENDING
    request.chunk("listen", {"transcript": "hel"})
    assert request.state is RequestState.RUNNING
    assert list(request.output) == [StageOutput("listen", {"transcript": "hel"})]


def test_it_runs_from_the_first_stage_that_is_done() -> None:
    request = record()
    request.stage_done(done("think"))
    assert request.state is RequestState.RUNNING


def test_it_is_complete_when_every_stage_is_done_and_every_terminal_has_its_result() -> None:
    request = record()
    for stage in ROUTE:
        request.stage_done(done(stage))
    request.result("speak", {"samples": 3})
    assert request.state is RequestState.RUNNING
    request.result("listen", {"transcript": "hello"})
    assert request.state is RequestState.COMPLETED
    assert request.results == {"speak": {"samples": 3}, "listen": {"transcript": "hello"}}
    assert set(request.done) == set(ROUTE)


def test_results_alone_do_not_complete_it() -> None:
    request = record()
    request.result("listen", {})
    request.result("speak", {})
    assert request.state is RequestState.RUNNING


def test_completion_keeps_what_the_client_has_not_taken() -> None:
    request = record()
    request.chunk("speak", {"audio": 1})
    finish(request)
    assert len(request.output) == 1


def test_a_failure_drops_what_the_client_has_not_taken() -> None:
    request = record()
    request.chunk("speak", {"audio": 1})
    error = OmniError("stage_died", "gone")
    assert request.fail(error)
    assert request.error is error
    assert not request.output


def test_an_abort_drops_what_the_client_has_not_taken() -> None:
    request = record()
    request.chunk("speak", {"audio": 1})
    assert request.abort()
    assert not request.output


STEPS = st.one_of(
    st.tuples(st.just("chunk"), st.sampled_from(TERMINALS)),
    st.tuples(st.just("result"), st.sampled_from(TERMINALS)),
    st.tuples(st.just("done"), st.sampled_from(ROUTE)),
    st.tuples(st.sampled_from(("fail", "abort")), st.none()),
)


@given(st.lists(STEPS, max_size=30))
def test_it_ends_once_and_nothing_moves_it_afterwards(steps: list[tuple[str, str | None]]) -> None:
    """Against a model that knows only what has been seen before the first end."""
    request = record()
    ended: RequestState | None = None
    results: set[str] = set()
    finished: set[str] = set()
    anything = False
    for step, stage in steps:
        output_before = list(request.output)
        match step, stage:
            case "chunk", str(stage):
                request.chunk(stage, {})
            case "result", str(stage):
                request.result(stage, {})
            case "done", str(stage):
                request.stage_done(done(stage))
            case "fail", _:
                assert request.fail(OmniError("x", "x")) == (ended is None)
            case "abort", _:
                assert request.abort() == (ended is None)
        if ended is not None:
            assert request.state is ended
            assert list(request.output) == output_before
            continue
        match step, stage:
            case "result", str(stage):
                results.add(stage)
            case "done", str(stage):
                finished.add(stage)
            case "fail", _:
                ended = RequestState.FAILED
            case "abort", _:
                ended = RequestState.ABORTED
        anything = True
        if ended is None and results == set(TERMINALS) and finished == set(ROUTE) and step in ("result", "done"):
            ended = RequestState.COMPLETED
        assert request.state is (ended or (RequestState.RUNNING if anything else RequestState.PENDING))
        assert request.state.final == (ended is not None)
    assert (request.error is not None) == (ended is RequestState.FAILED)


def test_a_stage_may_hold_it_once_a_feeder_is_done_until_it_is_done_itself() -> None:
    """Before that the feeder knows by itself what it has sent there."""
    request = record()
    assert not request.may_be_held_by("think", ("listen",))
    request.stage_done(done("listen"))
    assert request.may_be_held_by("think", ("listen",))
    request.stage_done(done("think"))
    assert not request.may_be_held_by("think", ("listen",))


def test_an_entry_stage_may_hold_it_from_the_start() -> None:
    request = record()
    assert request.may_be_held_by("listen", ())
    request.stage_done(done("listen"))
    assert not request.may_be_held_by("listen", ())


def test_a_stage_of_another_route_never_holds_it() -> None:
    assert not record().may_be_held_by("vocode", ())


def test_one_of_several_feeders_is_enough() -> None:
    request = record()
    request.stage_done(done("think"))
    assert request.may_be_held_by("speak", ("listen", "think"))
