"""The running pipeline: real processes, the real relay, and stages whose results can be computed by hand."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.support.patience import PATIENCE_S
from tests.support.pipelines import STAGES, collect, held, launch, text_request, toy_settings, until_idle
from tests.support.toy import expected_samples
from voice_omni.config.settings import ProcessSettings
from voice_omni.pipeline.launcher import Launcher
from voice_omni.pipeline.request import RequestState
from voice_omni.pipeline.supervisor import NodeState
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import OmniRequest


async def answer(pipeline: Launcher, request_id: str, text: str = "hello world ", **params: object) -> None:
    """A request that is answered right, sample for sample."""
    handle = await pipeline.coordinator.submit(text_request(request_id, text, **params))
    said, sung = await collect(handle)
    assert said == text
    assert np.array_equal(sung, expected_samples(text))


async def killed_and_back(pipeline: Launcher, node: str, how: signal.Signals) -> None:
    """Kill a stage's process; returns when the supervisor has it serving again."""
    worker = pipeline.supervisor.workers[node]
    assert worker.process is not None
    os.kill(worker.process.pid, how)
    before = worker.job.incarnation
    async with asyncio.timeout(PATIENCE_S):
        while worker.job.incarnation == before or worker.state is not NodeState.READY:
            await asyncio.sleep(0.02)


async def busy_at(pipeline: Launcher, stage: str, process: str | None = None) -> None:
    """Returns when the stage has said that it holds a request; ``process``: in this one of its replicas."""
    async with asyncio.timeout(PATIENCE_S):
        while not held(pipeline).get(f"{process or stage + '.0'}.{stage}.open"):
            await asyncio.sleep(0.02)


async def test_speech_goes_in_and_an_answer_comes_out(tmp_path: Path) -> None:
    async with launch(toy_settings(), tmp_path) as pipeline:
        handle = await pipeline.coordinator.submit(OmniRequest(request_id="r", route="speech"))
        reader = asyncio.create_task(collect(handle))
        for _ in range(40):
            await handle.append({"audio": np.zeros(160, np.float32)})
        await handle.end_input()
        said, sung = await reader
        assert handle.record.state is RequestState.COMPLETED
        assert handle.record.results["listen"] == {"transcript": "6400 samples"}
        assert said == "6400 samples "
        assert np.array_equal(sung, expected_samples(said))
        assert set(handle.record.done) == set(STAGES)
        assert await until_idle(pipeline) == {}


async def test_a_route_runs_only_its_own_stages(tmp_path: Path) -> None:
    async with launch(toy_settings(), tmp_path) as pipeline:
        request = OmniRequest(request_id="r", route="speak", inputs={"text": "la"})
        handle = await pipeline.coordinator.submit(request)
        _, sung = await collect(handle)
        assert np.array_equal(sung, expected_samples("la"))
        assert set(handle.record.done) == {"speak", "vocode"}


@pytest.mark.parametrize("width", [4, 40_000])
async def test_many_requests_at_once_keep_apart(tmp_path: Path, width: int) -> None:
    """Narrow frames ride in the control message, wide ones (640 kB a chunk) go through shared memory."""
    async with launch(toy_settings(relay_bytes=1 << 21), tmp_path) as pipeline:
        texts = [f"{number} little words " for number in range(8)]
        await asyncio.gather(*(answer(pipeline, f"r{number}", text, width=width) for number, text in enumerate(texts)))
        assert await until_idle(pipeline) == {}


async def test_a_payload_that_no_buffer_can_hold_fails_its_request_alone(tmp_path: Path) -> None:
    async with launch(toy_settings(relay_bytes=1 << 16), tmp_path) as pipeline:
        handle = await pipeline.coordinator.submit(text_request("big", "x", width=40_000))
        with pytest.raises(OmniError, match=r"limits\.relay_bytes") as raised:
            await collect(handle)
        assert raised.value.code == "payload_too_large"
        assert raised.value.info.stage == "speak"
        await answer(pipeline, "small")
        assert await until_idle(pipeline) == {}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("mischief", "code"), [("raise", "internal_error"), ("refuse", "invalid_value")])
async def test_what_a_runner_raises_fails_one_request(tmp_path: Path, stage: str, mischief: str, code: str) -> None:
    async with launch(toy_settings(), tmp_path) as pipeline:
        request = OmniRequest(request_id="bad", route="speech", params={"at": stage, "do": mischief})
        bad = await pipeline.coordinator.submit(request)
        await bad.append({"audio": np.zeros(160, np.float32)})
        await bad.end_input()
        good = asyncio.create_task(answer(pipeline, "good"))
        with pytest.raises(OmniError) as raised:
            await collect(bad)
        assert raised.value.code == code
        assert raised.value.info.stage == stage
        assert raised.value.info.request_id == "bad"
        await good
        assert await until_idle(pipeline) == {}


async def test_admission_is_refused_beyond_the_limit(tmp_path: Path) -> None:
    async with launch(toy_settings(max_requests=2), tmp_path) as pipeline:
        handles = [await pipeline.coordinator.submit(text_request(f"r{n}", "a b c")) for n in range(2)]
        with pytest.raises(OmniError) as raised:
            await pipeline.coordinator.submit(text_request("r2", "too many"))
        assert raised.value.code == "overloaded"
        assert raised.value.info.retryable
        await asyncio.gather(*(collect(handle) for handle in handles))
        await answer(pipeline, "r3")


async def test_a_request_that_takes_too_long_fails(tmp_path: Path) -> None:
    settings = toy_settings(delays_ms={"speak": 100}, request_deadline_s=0.5)
    async with launch(settings, tmp_path) as pipeline:
        handle = await pipeline.coordinator.submit(text_request("slow", "many letters to speak one by one"))
        with pytest.raises(OmniError) as raised:
            await collect(handle)
        assert raised.value.code == "deadline_exceeded"
        assert await until_idle(pipeline) == {}


async def test_a_thousand_aborts_at_random_moments_leave_nothing(tmp_path: Path) -> None:
    """Requests that are aborted do not touch those beside them, and every table, queue and buffer is empty after."""
    chance = random.Random(7)
    async with launch(toy_settings(relay_bytes=1 << 20), tmp_path) as pipeline:
        files: set[str] = set()

        async def abort_one(number: int) -> None:
            route = chance.choice(("speech", "text", "speak"))
            width = chance.choice((4, 10_000))
            inputs = {"text": "some words", "messages": [{"role": "user", "content": "some words to say"}]}
            request = OmniRequest(request_id=f"a{number}", route=route, inputs=inputs, params={"width": width})
            handle = await pipeline.coordinator.submit(request)
            reader = asyncio.create_task(collect(handle))
            for _ in range(chance.randrange(4)):
                await handle.append({"audio": np.zeros(160, np.float32)})
            if chance.random() < 0.5:
                await handle.end_input()
            await asyncio.sleep(chance.random() * 0.05)
            await handle.abort()
            await reader

        for batch in range(20):
            await asyncio.gather(
                answer(pipeline, f"good{batch}"), *(abort_one(batch * 50 + number) for number in range(50))
            )
            files = files or {path.name for path in tmp_path.rglob("*")}
        assert await until_idle(pipeline) == {}
        assert {path.name for path in tmp_path.rglob("*")} == files
    assert list(tmp_path.iterdir()) == []


async def test_a_consumer_that_stops_reading_pauses_its_own_talker(tmp_path: Path) -> None:
    text = "a rather long answer " * 30
    async with launch(toy_settings(credits=4), tmp_path) as pipeline:
        handle = await pipeline.coordinator.submit(text_request("slow", text))
        first = await anext(handle)
        assert first.data["text"] == "a "
        for number in range(3):
            await answer(pipeline, f"beside{number}")
        # What waits for the reader is bounded by credits, and stops growing.
        before: dict[str, int] = {}
        while (now := held(pipeline)) != before:
            assert now.get("coordinator.output", 0) <= 256 + 4
            before = now
            await asyncio.sleep(0.5)
        said, sung = await collect(handle)
        assert "a " + said == text
        assert np.array_equal(sung, expected_samples(text))
        assert await until_idle(pipeline) == {}


@pytest.mark.parametrize("stage", STAGES)
async def test_a_killed_stage_fails_its_requests_and_comes_back(tmp_path: Path, stage: str) -> None:
    settings = toy_settings(delays_ms={stage: 30})
    async with launch(settings, tmp_path) as pipeline:
        inside = await pipeline.coordinator.submit(
            OmniRequest(
                request_id="inside", route="speech", inputs={"messages": [{"role": "user", "content": "a b " * 400}]}
            )
        )
        await inside.append({"audio": np.zeros(160, np.float32)})
        if stage != "listen":
            await inside.end_input()
        reader = asyncio.create_task(collect(inside))
        await busy_at(pipeline, stage)
        back = asyncio.create_task(killed_and_back(pipeline, f"{stage}.0", signal.SIGKILL))
        with pytest.raises(OmniError) as raised:
            await reader
        error = raised.value.info
        assert (error.code, error.stage, error.request_id, error.retryable) == ("stage_died", stage, "inside", True)
        await back
        await answer(pipeline, "after")
        assert pipeline.health()["processes"][f"{stage}.0"]["restarts"] == 1
        assert await until_idle(pipeline) == {}
        left = [path.name for path in tmp_path.rglob(f"*{stage}.0.0*")]
        assert left == [], "the dead process has left files"


async def test_a_request_elsewhere_survives_a_killed_stage(tmp_path: Path) -> None:
    """The recogniser dies while the answer to what it heard before is being spoken."""
    async with launch(toy_settings(delays_ms={"vocode": 20}), tmp_path) as pipeline:
        talking = asyncio.create_task(answer(pipeline, "talking", "one two three four five "))
        await busy_at(pipeline, "vocode")
        await killed_and_back(pipeline, "listen.0", signal.SIGKILL)
        await talking


async def test_a_request_submitted_during_the_restart_is_served_after_it(tmp_path: Path) -> None:
    async with launch(toy_settings(), tmp_path) as pipeline:
        worker = pipeline.supervisor.workers["think.0"]
        assert worker.process is not None
        os.kill(worker.process.pid, signal.SIGKILL)
        while worker.state is NodeState.READY:
            await asyncio.sleep(0.01)
        await answer(pipeline, "patient")


@pytest.mark.parametrize("how", ["stop", "deadlock", "loop"])
async def test_a_hung_process_is_found_killed_and_replaced(tmp_path: Path, how: str) -> None:
    """And no other one is, however busy the machine."""
    async with launch(toy_settings(hang_ms=2000), tmp_path) as pipeline:
        handle = await pipeline.coordinator.submit(text_request("stuck", "a b c", at="speak", do=how))
        with pytest.raises(OmniError) as raised:
            await collect(handle)
        assert raised.value.info.code == "stage_died"
        assert raised.value.info.stage == "speak"
        await answer(pipeline, "after")
        assert [worker.restarts for worker in pipeline.supervisor.workers.values()] == [0, 0, 1, 0]


async def test_a_stage_that_is_stuck_in_a_batch_is_replaced(tmp_path: Path) -> None:
    """Its process still lives and beats; only the one batch never ends."""
    async with launch(toy_settings(batch_deadline_s=3.0), tmp_path) as pipeline:
        handle = await pipeline.coordinator.submit(text_request("stuck", "a b c", at="vocode", do="sleep"))
        with pytest.raises(OmniError) as raised:
            await collect(handle)
        assert (raised.value.info.code, raised.value.info.stage) == ("stage_died", "vocode")
        await answer(pipeline, "after")


async def test_replicas_share_the_load_and_fail_apart(tmp_path: Path) -> None:
    processes = {
        "front": ProcessSettings(stages=("listen", "think")),
        "voice": ProcessSettings(stages=("speak", "vocode"), replicas=2),
    }
    async with launch(toy_settings(processes=processes, delays_ms={"vocode": 20}), tmp_path) as pipeline:
        handles = [await pipeline.coordinator.submit(text_request(f"r{n}", "la " * 100)) for n in range(2)]
        assert {handle.record.bindings["vocode"] for handle in handles} == {"voice.0", "voice.1"}
        readers = [asyncio.create_task(collect(handle)) for handle in handles]
        for handle in handles:
            await busy_at(pipeline, "vocode", handle.record.bindings["vocode"])
        victim = handles[0].record.bindings["vocode"]
        await killed_and_back(pipeline, victim, signal.SIGKILL)
        with pytest.raises(OmniError):
            await readers[0]
        said, sung = await readers[1]
        assert np.array_equal(sung, expected_samples(said))


async def test_everything_in_one_process(tmp_path: Path) -> None:
    processes = {"all": ProcessSettings(stages=STAGES, inline=True)}
    async with launch(toy_settings(processes=processes), tmp_path) as pipeline:
        await asyncio.gather(*(answer(pipeline, f"r{number}", width=40_000) for number in range(4)))
        assert await until_idle(pipeline) == {}


async def test_only_the_stages_of_one_route_are_started(tmp_path: Path) -> None:
    from tests.support.toy import PIPELINE

    launcher = Launcher(PIPELINE, toy_settings(), stages=PIPELINE.routes["speak"], run_base=tmp_path)
    async with launcher as pipeline:
        assert set(pipeline.supervisor.workers) == {"speak.0", "vocode.0"}
        request = OmniRequest(request_id="r", route="speak", inputs={"text": "la"})
        _, sung = await collect(await pipeline.coordinator.submit(request))
        assert np.array_equal(sung, expected_samples("la"))


async def test_a_stage_that_cannot_start_says_why_and_nothing_is_left(tmp_path: Path) -> None:
    from tests.support.broken import PIPELINE
    from voice_omni.config.settings import default_settings

    with pytest.raises(OmniError, match="the weights are missing") as raised:
        async with Launcher(PIPELINE, default_settings(PIPELINE), run_base=tmp_path):
            pass
    assert raised.value.code == "weights_unavailable"
    assert list(tmp_path.iterdir()) == []


async def test_a_stage_whose_library_is_missing_says_what_to_install(tmp_path: Path) -> None:
    from tests.support.incomplete import PIPELINE
    from voice_omni.config.settings import default_settings

    with pytest.raises(OmniError, match=r"a_library_that_nobody_has.*pip install 'voice-omni\[songs\]'") as raised:
        async with Launcher(PIPELINE, default_settings(PIPELINE), run_base=tmp_path):
            pass
    assert raised.value.code == "missing_dependency"


async def test_a_process_has_variables_of_its_own_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOICE_OMNI_TEST_SHARED", "everybody's")
    processes = {
        "one": ProcessSettings(stages=STAGES[:1], environment={"VOICE_OMNI_TEST_OWN": "its own"}),
        "others": ProcessSettings(stages=STAGES[1:]),
    }
    async with launch(toy_settings(processes=processes), tmp_path) as pipeline:
        for name, own in (("one.0", True), ("others.0", False)):
            worker = pipeline.supervisor.workers[name].process
            assert worker is not None
            variables = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
            assert b"VOICE_OMNI_TEST_SHARED=everybody's" in variables
            assert (b"VOICE_OMNI_TEST_OWN=its own" in variables) is own
