"""What is relied on in SGLang's scheduler, driven step by step on the thread of the test."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engines.sglang.contract.conftest import assert_nothing_held, chosen
from tests.engines.sglang.contract.tiny import VOCABULARY, greedy, prompt
from voice_omni.engines.sglang.rows import Abort, Ask, Reply

CHUNK, POOL = 16, 150
GROWING = range(4)
EAGER = {"schedule_conservativeness": 0.1}
"""Admit requests that will not fit to their end."""


@dataclass
class Stepped:
    """``script`` holds what comes in before each turn of the event loop. It runs until nothing is left to do."""

    scheduler: Any = None
    script: deque[list[Any]] = field(default_factory=deque)
    outputs: list[Any] = field(default_factory=list)
    idle: bool = False

    def take(self) -> list[Any]:
        from sglang.srt.managers.io_struct import ShutdownReq

        from voice_omni.engines.sglang.requests import request

        if self.script:
            return [request(asked) for asked in self.script.popleft()]
        return [ShutdownReq()] if self.idle else []

    def maybe_sleep(self) -> None:
        self.idle = not self.script

    def run(self, *script: list[Any]) -> list[Reply]:
        from voice_omni.engines.sglang.outputs import replies

        self.script.extend(script)
        self.outputs.clear()
        self.idle = self.scheduler.gracefully_exit = False
        self.scheduler.run_event_loop()
        assert_nothing_held(self.scheduler)
        return [reply for output in self.outputs for reply in replies(output)]


@pytest.fixture(scope="module")
def stepped(tiny: Path, _ready: None) -> Iterator[Stepped]:
    from sglang.srt.distributed.parallel_state import destroy_distributed_environment, destroy_model_parallel

    from voice_omni.engines.sglang.arguments import server_args
    from voice_omni.engines.sglang.scheduler import StageScheduler

    stepped = Stepped()
    args = server_args(chosen(tiny, max_rows=4, kv_tokens=POOL, prefill_chunk=CHUNK, server_args=EAGER))
    stepped.scheduler = StageScheduler(args, stepped, stepped.outputs.append)
    yield stepped
    destroy_model_parallel()
    destroy_distributed_environment()


def ask(name: str, ids: list[int], tokens: int = 8, **rest: Any) -> Ask:
    return Ask(f"{name}.", tuple(ids), new_tokens=tokens, session=name, **rest)


def said(replies: list[Reply], name: str) -> list[int]:
    return [token for reply in replies if reply.rid == f"{name}." for token in reply.tokens]


def ends(replies: list[Reply], name: str) -> list[str]:
    return [reply.end for reply in replies if reply.rid == f"{name}." and reply.end is not None]


def test_every_overridden_method_is_one_of_sglangs() -> None:
    from sglang.srt.managers.scheduler import Scheduler
    from sglang.srt.managers.scheduler_components.request_receiver import SchedulerRequestReceiver

    from voice_omni.engines.sglang import scheduler

    for ours, theirs in ((scheduler.StageScheduler, Scheduler), (scheduler._InboxReceiver, SchedulerRequestReceiver)):
        own = {name for name, value in vars(ours).items() if callable(value) and not name.startswith("__")}
        assert own
        assert own <= set(dir(theirs))


def test_what_waiting_rows_override_is_sglangs() -> None:
    from sglang.srt.managers.scheduler import Scheduler

    from voice_omni.engines.sglang.fed_scheduler import FedScheduler

    assert {name for name in vars(FedScheduler) if not name.startswith("__") and hasattr(Scheduler, name)} == {
        "process_input_requests",
        "get_next_batch_to_run",
        "get_new_batch_prefill",
        "update_running_batch",
        "run_batch",
        "abort_request",
        "is_fully_idle",
        "on_idle",
        "_add_request_to_queue",
    }


def test_each_token_is_a_reply_of_its_own_and_the_last_one_tells_the_end(stepped: Stepped, tiny: Path) -> None:
    replies = stepped.run([ask("a", prompt(1))])
    assert [len(reply.tokens) for reply in replies] == [1] * 8
    assert said(replies, "a") == greedy(tiny, prompt(1), 8)
    assert [reply.end for reply in replies] == [None] * 7 + ["length"]


def test_a_stop_token_comes_with_the_end(stepped: Stepped, tiny: Path) -> None:
    free = greedy(tiny, prompt(1), 8)
    replies = stepped.run([ask("stop", prompt(1), stop=frozenset({free[3]}))])
    assert said(replies, "stop") == free[: free.index(free[3]) + 1]
    assert ends(replies, "stop") == ["stop"]


def test_a_request_for_no_token_leaves_its_prompt_in_the_cache(stepped: Stepped) -> None:
    ids = prompt(2, 43)
    replies = [stepped.run([ask("grown", ids[:n], 0)]) for n in (12, 24, 36)]
    assert [reply.cached for [reply] in replies] == [0, 12, 24]
    assert all(reply.end == "length" and not reply.tokens for [reply] in replies)
    assert stepped.run([ask("grown", ids)])[0].cached == 36
    assert stepped.run([ask("other", ids)])[0].cached == 0


@pytest.mark.parametrize("turn", range(22))
def test_a_request_can_be_aborted_in_every_state(stepped: Stepped, tiny: Path, turn: int) -> None:
    """Queued (behind one that fills the prefill budget), in each chunk of its prefill, in its last one, decoding, and
    when it has ended by itself."""
    ids = prompt(3, 5 * CHUNK + 3)
    script: list[list[Any]] = [[ask(f"first-{turn}", prompt(4, CHUNK)), ask(f"it-{turn}", ids, 6)]]
    script += [[] for _ in range(turn)]
    script[turn].append(Abort(f"it-{turn}."))
    replies = stepped.run(*script)
    assert said(replies, f"first-{turn}") == greedy(tiny, prompt(4, CHUNK), 8)
    assert ends(replies, f"it-{turn}") in (["aborted"], ["length"])
    tokens, whole = said(replies, f"it-{turn}"), greedy(tiny, ids, 6)
    assert tokens == whole[: len(tokens)]
    # Early enough aborts give no token, late ones all of them.
    assert turn > 3 or not tokens
    assert turn < 20 or tokens == whole


def test_rows_that_decode_have_every_other_step(stepped: Stepped, tiny: Path) -> None:
    """However much there is to prefill: here the chunks of one prompt, and a prompt more in each turn."""
    chunks = 5
    spoken = ask("speaks", prompt(6), 24)
    long = ask("long", prompt(7, chunks * CHUNK - 1), 1)
    replies = stepped.run([spoken], [], [], [long], *([ask(f"next-{n}", prompt(8 + n, 5), 0)] for n in range(4)))
    assert said(replies, "speaks") == greedy(tiny, prompt(6), 24)
    assert said(replies, "long") == greedy(tiny, prompt(7, chunks * CHUNK - 1), 1)
    order = [reply.rid for reply in replies]
    meanwhile = order[order.index("speaks.") : order.index("long.")]
    assert meanwhile.count("speaks.") > chunks


@pytest.mark.parametrize("length", range(POOL - 24, POOL - 12))
def test_a_prompt_in_chunks_keeps_the_place_that_it_was_admitted_for(stepped: Stepped, tiny: Path, length: int) -> None:
    """Rows that decode beside it take KV, too, and SGLang counts on them to end early."""
    spoken = greedy(tiny, prompt(6, 8), 40)
    unsaid = frozenset(range(VOCABULARY)).difference(spoken)
    speaks, long = (
        ask(f"speaks-{length}", prompt(6, 8), 40, stop=unsaid),
        ask(f"long-{length}", prompt(length, length), 0),
    )
    replies = stepped.run([speaks], [], [], [long])
    assert said(replies, f"speaks-{length}") == spoken
    assert ends(replies, f"long-{length}") == ["length"]


def test_prompts_that_nobody_decodes_beside_are_prefilled_one_after_the_other(
    stepped: Stepped, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = []
    choose = stepped.scheduler.get_next_batch_to_run

    def watched(**batches: Any) -> Any:
        plan = choose(**batches)
        launched.append(plan.batch_to_run is not None)
        return plan

    monkeypatch.setattr(stepped.scheduler, "get_next_batch_to_run", watched)
    stepped.run([ask(f"open-{n}", prompt(40 + n, 14), 0) for n in range(4)])
    assert launched[:4] == [True] * 4


def test_a_full_pool_is_not_asked_again_and_again(stepped: Stepped, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are more admitted than it has place for: they would be taken back."""
    asked = 0
    sort = stepped.scheduler.policy.calc_priority

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal asked
        asked += 1
        return sort(*given, **named)

    monkeypatch.setattr(stepped.scheduler.policy, "calc_priority", counted)
    stepped.run([ask(f"much-{n}", prompt(60 + n, 30), 40) for n in range(8)])
    assert asked <= 30


def test_the_last_place_is_taken_beside_a_prompt_in_chunks(stepped: Stepped) -> None:
    """Four have place. The third one's prompt is cut by the budget, and the fourth waits behind it."""
    long = [ask(name, prompt(20 + n, 14), 20) for n, name in enumerate("abcd")]
    order = [reply.rid for reply in stepped.run([long[0]], [], [], long[1:])]
    ended = [n for n, rid in enumerate(order) if rid == "a."][-1]
    assert "d." in order[:ended]


def test_an_abort_names_one_request_alone(stepped: Stepped) -> None:
    """SGLang takes what it is given for the beginning of an id."""
    replies = stepped.run([ask("1", prompt(1)), ask("11", prompt(2))], [Abort("1.")])
    assert ends(replies, "1") == ["aborted"]
    assert ends(replies, "11") == ["length"]


def test_an_abort_of_nothing_is_nothing(stepped: Stepped) -> None:
    assert stepped.run([Abort("nobody.")]) == []


def test_what_an_aborted_request_has_computed_stays_in_the_cache(stepped: Stepped) -> None:
    replies = stepped.run([ask("kept", prompt(5), 50)], [], [], [], [], [Abort("kept.")])
    tokens = said(replies, "kept")
    assert 0 < len(tokens) < 50
    again = stepped.run([ask("kept", prompt(5), 4, said=tuple(tokens))])
    assert again[0].cached == len(prompt(5)) + len(tokens) - 1


def test_requests_that_outgrow_the_pool_are_taken_back_and_say_the_same(stepped: Stepped, tiny: Path) -> None:
    """SGLang admits more requests than fit, of those that may end early. One that ignores ends waits for its place."""
    ends_at = stepped.scheduler.model_config.hf_eos_token_id
    whole = {n: greedy(tiny, prompt(n, 10), 45) for n in GROWING}
    spoken = set().union(*whole.values())
    assert not ends_at & spoken
    unsaid = frozenset(range(VOCABULARY)) - spoken
    replies = stepped.run([ask(f"grow-{n}", prompt(n, 10), 45, stop=unsaid) for n in GROWING])
    assert any(any(getattr(output, "retraction_counts", None) or ()) for output in stepped.outputs)
    for n in GROWING:
        assert said(replies, f"grow-{n}") == whole[n]
        assert ends(replies, f"grow-{n}") == ["length"]


def test_a_prompt_without_place_is_refused_with_a_reason(stepped: Stepped) -> None:
    [reply] = stepped.run([ask("large", prompt(1, POOL + 1))])
    assert reply.end == "error"
    assert "too long" in str(reply.error) or "exceeds" in str(reply.error)
