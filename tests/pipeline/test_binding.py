"""Which copy of each process serves a request."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from voice_omni.pipeline.binding import Binder, Replicas

PROCESSES = {
    "front": Replicas(("listen", "think"), ("front.0",)),
    "voice": Replicas(("speak", "vocode"), ("voice.0", "voice.1", "voice.2")),
}
STAGES = ("listen", "think", "speak", "vocode")


def all_up() -> Binder:
    binder = Binder(PROCESSES)
    for replicas in PROCESSES.values():
        for node in replicas.nodes:
            binder.up(node)
    return binder


def test_the_stages_of_one_process_are_bound_to_one_copy() -> None:
    binder = all_up()
    for _ in range(5):
        bindings = binder.bind(STAGES)
        assert bindings["listen"] == bindings["think"] == "front.0"
        assert bindings["speak"] == bindings["vocode"]


def test_only_the_asked_stages_are_bound() -> None:
    assert set(all_up().bind(("speak",))) == {"speak"}


def test_the_copy_with_the_fewest_requests_is_chosen() -> None:
    binder = all_up()
    bound = [binder.bind(("speak",)) for _ in range(6)]
    assert Counter(bindings["speak"] for bindings in bound) == {"voice.0": 2, "voice.1": 2, "voice.2": 2}
    binder.release(bound[1])
    binder.release(bound[4])
    assert {binder.bind(("speak",))["speak"] for _ in range(2)} == {bound[1]["speak"]}


def test_a_request_counts_once_for_a_copy_that_runs_several_of_its_stages() -> None:
    binder = all_up()
    first = binder.bind(("speak", "vocode"))
    second, third = binder.bind(("speak",)), binder.bind(("speak",))
    assert {first["speak"], second["speak"], third["speak"]} == {"voice.0", "voice.1", "voice.2"}


def test_a_dead_copy_is_not_chosen_and_its_stages_are_missing_when_it_was_the_last() -> None:
    binder = all_up()
    binder.down("voice.0")
    assert {binder.bind(("speak",))["speak"] for _ in range(4)} == {"voice.1", "voice.2"}
    assert binder.missing(STAGES) == ()
    binder.down("front.0")
    assert not binder.is_live("front.0")
    assert binder.missing(STAGES) == ("listen", "think")
    binder.up("front.0")
    assert binder.missing(STAGES) == ()


def test_nothing_is_live_before_it_came_up() -> None:
    assert Binder(PROCESSES).missing(STAGES) == STAGES


@given(st.lists(st.sampled_from(("bind", "release", "kill", "start")), max_size=60), st.randoms())
def test_the_load_stays_even_among_the_living(steps: list[str], random: object) -> None:
    """Loads differ by at most one while nothing is released or killed; a copy that comes back is filled first."""
    binder = all_up()
    nodes = PROCESSES["voice"].nodes
    load: Counter[str] = Counter()
    live = set(nodes)
    bound: list[dict[str, str]] = []
    for step in steps:
        match step:
            case "bind" if live:
                bindings = binder.bind(("speak", "vocode"))
                assert load[bindings["speak"]] == min(load[node] for node in live)
                assert bindings["speak"] in live
                load[bindings["speak"]] += 1
                bound.append(bindings)
            case "release" if bound:
                bindings = bound.pop(random.randrange(len(bound)))  # type: ignore[attr-defined]
                binder.release(bindings)
                load[bindings["speak"]] -= 1
            case "kill" if live:
                node = random.choice(sorted(live))  # type: ignore[attr-defined]
                binder.down(node)
                live.discard(node)
            case "start":
                node = random.choice(nodes)  # type: ignore[attr-defined]
                binder.up(node)
                live.add(node)
