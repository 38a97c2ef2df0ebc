"""What the documentation tells people to type exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from voice_omni.cli.main import parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"(?:^|`|bin/)voice-omni ([a-z][^`\n]*)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)\)")


def commands() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for match in COMMAND.finditer(page.read_text()):
            yield f"{page.name}: {match[1]}", shlex.split(match[1], comments=True)


@pytest.mark.parametrize("arguments", [pytest.param(arguments, id=name) for name, arguments in commands()])
def test_every_command_in_the_documentation_parses(arguments: list[str]) -> None:
    parser().parse_args(arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


def test_the_readmes_demo_parses_as_it_describes_it() -> None:
    readme = (ROOT / "README.md").read_text()
    [replacement] = re.findall(r"put `(talk [^`]+)` in the place of `serve`", readme)
    args = parser().parse_args(shlex.split(replacement))
    assert args.demo
    assert args.serve
