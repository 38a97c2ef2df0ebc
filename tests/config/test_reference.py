"""The reference of all settings."""

from __future__ import annotations

from voice_omni.config.reference import reference
from voice_omni.pipeline.spec import PipelineSpec


def test_every_group_of_settings_has_a_table(spec: PipelineSpec) -> None:
    text = reference(spec)
    headings = [line for line in text.splitlines() if line.startswith("###")]
    assert headings == [
        "### processes",
        "### stages.thinker",
        "### stages.talker",
        "### limits",
        "### server",
        "### session",
        "### webrtc",
    ]


def test_a_row_gives_the_default_the_range_and_the_meaning(spec: PipelineSpec) -> None:
    rows = reference(spec).splitlines()
    assert "| `stages.thinker.options.temperature` | `0.0` | a number from 0 to 2 | randomness of the answer |" in rows
    assert any(row.startswith("| `processes.NAME.stages` | required | a list that is not empty") for row in rows)


def test_a_bar_inside_a_cell_does_not_end_it(spec: PipelineSpec) -> None:
    [row] = [row for row in reference(spec).splitlines() if row.startswith("| `processes.NAME.device`")]
    assert "cpu\\|cuda" in row
