"""The measurement at full size, on a small checkpoint, a processor and a layout that starts quickly."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.full_size.endurance import Outcome, Sample, growth
from benchmarks.full_size.floors import measure
from benchmarks.qwen3_omni_gpu import CONFIGS, fixed_lengths, main
from benchmarks.qwen3_omni_precision import Case, Figure
from benchmarks.qwen3_omni_precision import measure as precisions
from tests.support.tiny_qwen3_omni import build
from voice_omni.models.qwen3_omni.config import load_config

LAYOUT = """
pipeline: qwen3_omni
processes:
  text: {stages: [decode]}
  all: {stages: [preprocess, image_encoder, audio_encoder, thinker, talker, code2wav], inline: true, threads: 1}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layout") / "layout.yaml"
    path.write_text(LAYOUT)
    return path


def run(model: Path, layout: Path, *arguments: str) -> int:
    return main(["--tiny", "--checkpoint", str(model), "--layout", str(layout), *arguments])


def test_every_crowd_gets_a_row(model: Path, layout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = run(model, layout, "--people", "1,2", "--at-once", "2", "--answers", "2", "--no-floors", "--pace", "6")
    printed = capsys.readouterr().out
    assert status == 0, "each answer has the frames that it should, and none has failed"
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    crowds = {row[0].removeprefix("| "): row for row in rows if len(row) > 10}
    assert {"1", "2", "2 at once"} <= crowds.keys()
    for name in ("1", "2", "2 at once"):
        assert float(crowds[name][2]) > 0, "the first sound takes time"
    assert all(part in printed for part in ("audio_encoder", "to the client"))


def test_under_load_a_killed_stage_comes_back(model: Path, layout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = run(model, layout, "--load", "0.08", "--load-people", "2", "--kill", "decode", "--tokens", "4")
    assert status == 0, capsys.readouterr().out


def test_answers_end_by_their_length_alone(model: Path, layout: Path) -> None:
    stages = fixed_lengths(layout, model, 12, ["stages.talker.options.top_k=5"]).stages
    assert stages["thinker"].options.ignore_eos
    assert stages["talker"].options.ignore_eos
    assert stages["talker"].options.max_new_tokens == 13
    assert stages["talker"].options.top_k == 5
    assert stages["thinker"].options.temperature > 0, "else all rows would say the same and read the same experts"


def test_the_engine_is_measured_without_the_pipeline(model: Path) -> None:
    floors = measure(model, "cpu", [1, 2], [18], count=8)
    assert floors.step_ms.keys() == {1, 2}
    assert all(spent > 0 for spent in (*floors.step_ms.values(), *floors.prefill_ms.values(), floors.copied))


def test_bfloat16_is_near_float32(model: Path) -> None:
    found = list(precisions(Case(load_config(model), "cpu", positions=32, layers=3)))
    assert len(found) > 8
    assert all(figure.fits for figure in found), "\n".join(map(str, found))
    assert not Figure("far off", 0.03).fits


def test_what_grows_or_stays_is_a_fault() -> None:
    flat = [Sample(100_000, 50, 1)] * 9
    leaking = [Sample(100_000 + 1000 * number, 50 + 5 * number, 1) for number in range(9)]
    assert Outcome(answered_after=1, before=flat, after=flat).faults() == []
    grown = Outcome(answered_after=1, before=flat, after=leaking).faults()
    assert [fault.split(" grew")[0] for fault in grown] == ["GPU memory", "open files"]
    assert Outcome(answered_after=1, left={"talker.rows": 1}).faults() == ["still held at the end: talker.rows 1"]
    assert Outcome().faults() == ["no turn succeeded after the death"]


def test_warming_up_is_no_growth() -> None:
    assert growth([0.0, 5.0, 9.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0]) == 0
    assert growth([1.0]) == 0


def test_answers_are_as_fast_as_can_be_unless_they_are_paced(model: Path) -> None:
    layout = CONFIGS / "qwen3-omni-gpu.yaml"
    assert fixed_lengths(layout, model, 12).stages["talker"].scheduler.lead_s is None
    assert fixed_lengths(layout, model, 12, paced=True).stages["talker"].scheduler.lead_s == 4
