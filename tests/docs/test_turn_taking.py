"""The table of ``docs/turn-taking.md`` is the one that holds; ``python -m tests.docs.test_turn_taking`` renews it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from voice_omni.session.options import SessionOptions, described

PAGE = Path(__file__).parents[2] / "docs" / "turn-taking.md"
HEAD = "## Defaults\n"


def table() -> str:
    rows = ["", "| option | default | unit | why |", "|---|---|---|---|"]
    for name, entry in described(SessionOptions()).items():
        rows.append(f"| `{name}` | `{json.dumps(entry['value'])}` | {entry['unit']} | {entry['reason']} |")
    return "\n".join(rows) + "\n"


def test_the_defaults_on_the_page_are_those_in_force() -> None:
    _, head, printed = PAGE.read_text().partition(HEAD)
    assert head
    assert printed == table(), "run 'python -m tests.docs.test_turn_taking'"


def test_every_option_that_the_page_explains_exists() -> None:
    explained = set(
        re.findall(r"`([a-z]+(?:_[a-z]+)*_ms|[a-z]+_(?:words|backchannels|speech|responses|prompt))`", PAGE.read_text())
    )
    contract = {"silence_duration_ms", "idle_timeout_ms", "prefix_padding_ms"}
    assert explained - contract <= set(described(SessionOptions()))
    assert len(explained) > 10


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().partition(HEAD)[0] + HEAD + table())
