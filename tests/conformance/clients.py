"""The clients, the steps that each of them goes through, and one run of all of them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.conformance.environment import HERE, JS_PINS, PYTHON_PINS, Environment
from tests.conformance.scenario import SCENARIO, WORD_SECONDS
from tests.support.speech import recording
from voice_omni.audio.pcm import encode_pcm16

STEPS: Final[Mapping[str, str]] = {
    "connect": "connect",
    "session_update": "session update",
    "spoken_turn": "spoken turn",
    "text_turn": "text turn",
    "tool_call": "tool call and its result",
    "interruption": "interruption and truncation",
    "error": "error, told to its sender",
    "close": "close",
}
_AT_ONCE: Final = 3
_PATIENCE_S: Final = 240.0

Outcome = dict[str, str | None]
"""What went wrong in each step; None where nothing did."""


@dataclass(frozen=True)
class Client:
    """``package``: its name in its registry. ``driver``: the file that drives it, under ``python`` or ``js``."""

    package: str
    driver: str

    @property
    def registry(self) -> str:
        return "npm" if self.driver.endswith(".mjs") else "PyPI"

    @property
    def version(self) -> str:
        if self.registry == "npm":
            packages: dict[str, dict[str, str]] = json.loads(JS_PINS.read_text())["packages"]
            return packages[f"node_modules/{self.package}"]["version"]
        pins = [line.partition(";")[0].strip().partition("==") for line in PYTHON_PINS.read_text().splitlines()]
        return next(version for name, _, version in pins if name == self.package)

    def command(self, environment: Environment) -> list[str]:
        if self.registry == "npm":
            return [str(environment.node), str(environment.js / self.driver)]
        return [str(environment.python), str(HERE / "python" / self.driver)]


CLIENTS: Final[Mapping[str, Client]] = {
    "openai-python": Client("openai", "openai_client.py"),
    "openai-node": Client("openai", "openai_client.mjs"),
    "openai-agents (Python)": Client("openai-agents", "agents_client.py"),
    "@openai/agents-realtime": Client("@openai/agents-realtime", "agents_client.mjs"),
    "pipecat": Client("pipecat-ai", "pipecat_client.py"),
    "LiveKit Agents": Client("livekit-plugins-openai", "livekit_client.py"),
}


STARTER_STEPS: Final = ("connect", "session_update", "spoken_turn", "text_turn", "close")
"""What can be asked of a small model: that it understands and answers something."""


async def run_all(
    environment: Environment, scratch: Path, pipeline: str = "scripted", clients: Collection[str] = CLIENTS.keys()
) -> dict[str, Outcome]:
    """Let every client go through every step, against one server. ``scratch``: an empty folder.

    ``pipeline`` ``starter``: real models listen, think and speak, and the clients go through :data:`STARTER_STEPS`.
    """
    starter = pipeline == "starter"
    steps = STARTER_STEPS if starter else tuple(STEPS)
    async with _server(environment, scratch, pipeline) as address:
        setup = {
            **address,
            "scenario": _without_answers(SCENARIO) if starter else SCENARIO,
            "steps": steps,
            "word_seconds": WORD_SECONDS,
            "recordings": {part: str(_recording(part, scratch)) for part in ("spoken", "interruption")},
        }
        # Node trusts the server's certificate through this, the only way that needs no code.
        trust = {**os.environ, "NODE_EXTRA_CA_CERTS": str(scratch / "certificate.pem")}
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(client: Client) -> Outcome:
            async with slots:
                return await _drive([*client.command(environment), json.dumps(setup)], trust, steps)

        outcomes = await asyncio.gather(*(one(CLIENTS[name]) for name in clients))
    return dict(zip(clients, outcomes, strict=True))


def _without_answers(scenario: dict[str, Any]) -> dict[str, Any]:
    """What is understood and answered is up to the models. They are asked what has a short answer."""
    open_to_them = ("transcript", "answer")
    parts = {
        part: {name: None if name in open_to_them else value for name, value in fields.items()}
        for part, fields in scenario.items()
    }
    return {**parts, "text": {**parts["text"], "prompt": "What is the capital of France?"}}


@asynccontextmanager
async def _server(environment: Environment, scratch: Path, pipeline: str) -> AsyncIterator[dict[str, str]]:
    """Where the server listens."""
    make = await asyncio.create_subprocess_exec(environment.python, HERE / "python" / "certificate.py", scratch)
    if await make.wait():
        raise RuntimeError("no certificate")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.conformance.server", scratch / "certificate.pem", scratch / "key.pem"),
        *("--pipeline", pipeline),
        cwd=HERE.parents[1],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the server has no pipes")
    try:
        yield json.loads(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


def _recording(part: str, scratch: Path) -> Path:
    """A person's part as 16-bit PCM at 24 kHz."""
    path = scratch / f"{part}.pcm"
    path.write_bytes(encode_pcm16(recording(SCENARIO[part]["recording"]).samples(24000)))
    return path


async def _drive(command: list[str], environ: dict[str, str], wanted: Sequence[str]) -> Outcome:
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_PATIENCE_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines: list[dict[str, Any]] = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
    steps = {line["step"]: line["error"] for line in lines}
    return {step: steps.get(step, f"not reached: {err.decode()[-2000:]}") for step in wanted}
