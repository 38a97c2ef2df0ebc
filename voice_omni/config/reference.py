"""The settings of a pipeline as a Markdown table: what stands in the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from voice_omni.config.schema import REQUIRED, Leaf, Path, leaves, schema_of
from voice_omni.config.yaml_text import written
from voice_omni.pipeline.spec import PipelineSpec


def reference(spec: PipelineSpec) -> str:
    """Every key with its default, what it may be and what it means, one table for each group of keys."""
    return "\n".join(_lines(spec))


def _lines(spec: PipelineSpec) -> Iterator[str]:
    found = [(path, leaf) for path, leaf in leaves(schema_of(spec)) if path != ("pipeline",)]
    for group, members in groupby(found, key=lambda each: _heading(each[0])):
        yield f"### {group}"
        yield ""
        yield "| Key | Default | May be | Meaning |"
        yield "|---|---|---|---|"
        yield from (_row(path, leaf) for path, leaf in members)
        yield ""


def _heading(path: Path) -> str:
    """``stages.thinker`` for a stage's own settings, the first key for all others."""
    return ".".join(path[:2]) if path[0] == "stages" else path[0]


def _row(path: Path, leaf: Leaf) -> str:
    default = "required" if leaf.default is REQUIRED else f"`{written(leaf.default)}`"
    cells = (f"`{'.'.join(path)}`", default, leaf.expects, leaf.meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
