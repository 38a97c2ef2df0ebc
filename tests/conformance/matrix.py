"""``python -m tests.conformance.matrix``: run every client and write the matrix into the documentation.

With ``--starter``, let every client talk with the starter pipeline instead, and print what came of it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.conformance.clients import CLIENTS, STEPS, Outcome, run_all
from tests.conformance.environment import HERE, prepare

DOCUMENT: Final = HERE.parents[1] / "docs" / "conformance.md"

_INTRODUCTION: Final = """\
# Conformance

What unmodified clients of the OpenAI Realtime API do with this server. Each client comes from its registry and is
configured through its public options only: an address, a key and, where it comes with session settings of its own,
just those. It drives a real server in a process of its own, whose pipeline answers from a script, and is judged by
what it shows its own user: its events, objects and errors. The person's turns are recordings.

The table is written by `python -m tests.conformance.matrix`; the tests check that it is true.
With `--starter` the same clients hold a spoken and a typed turn with the starter pipeline's models, which must
understand and answer something.
"""

_STEPS: Final = """\
- *Connect*: the session is greeted, and the client's own first `session.update` is accepted.
- *Session update*: changed settings come back, the others keep their values.
- *Spoken turn*: recorded speech is streamed in; the server finds its end, and the client gets the transcript, the
  answer's text and all of its sound.
- *Text turn*: the same for a typed message.
- *Tool call and its result*: the model calls a function that the client offers, and answers with what it returned.
- *Interruption and truncation*: speech interrupts a long answer; the client reports how much was heard, and the
  conversation keeps only that.
- *Error, told to its sender*: a request that cannot be obeyed fails where it was made, and the session goes on.
- *Close*: the client leaves without an error.

openai-node's helper connects with TLS only, so it gets a server with a certificate. openai-python's events are also
checked against its own types, all of them.
"""


def render(outcomes: Mapping[str, Outcome]) -> str:
    """The document for one run."""
    head = ["Client", "Version", *(label.capitalize() for label in STEPS.values())]
    rows = []
    for name, client in CLIENTS.items():
        cells = ("yes" if outcomes[name][step] is None else "no" for step in STEPS)
        rows.append([name, f"{client.registry} {client.version}", *cells])
    table = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join((_INTRODUCTION, *table, "", _STEPS))


def claimed() -> list[tuple[str, str]]:
    """The client and step of each cell of the written matrix that says yes."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in DOCUMENT.read_text().splitlines()]
    cells = {row[0]: row[2:] for row in rows if row[0] in CLIENTS}
    return [(name, step) for name, row in cells.items() for step, cell in zip(STEPS, row, strict=True) if cell == "yes"]


def main() -> None:
    parser = argparse.ArgumentParser(description="what stock clients can do with this server")
    parser.add_argument("--starter", action="store_true", help="talk with real models, and write no document")
    starter = parser.parse_args().starter
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = asyncio.run(run_all(prepare(), Path(scratch), "starter" if starter else "scripted"))
    if starter:
        for name, outcome in outcomes.items():
            done = [STEPS[step] for step, error in outcome.items() if error is None]
            sys.stdout.write(f"{name}: {', '.join(done)}\n")
    else:
        DOCUMENT.write_text(render(outcomes))
    for name, outcome in outcomes.items():
        for step, error in outcome.items():
            if error is not None:
                sys.stderr.write(f"{name}: {STEPS[step]}: {error}\n")
    raise SystemExit(any(error is not None for outcome in outcomes.values() for error in outcome.values()))


if __name__ == "__main__":
    main()
