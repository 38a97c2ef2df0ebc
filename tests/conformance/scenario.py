"""What is said in every run: read by the server's script and, as JSON, by each client's driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.support.scripted import Script
from voice_omni.client.interface import GenerateRequest

SCENARIO: Final[dict[str, Any]] = json.loads((Path(__file__).parent / "scenario.json").read_text())
WORD_SECONDS: Final = 0.3


def script(request: GenerateRequest, number: int) -> Script:
    """The answer to what the conversation came to.

    Some clients hand over earlier turns and the newest one as a single message, so prompts are looked for inside.
    """
    said = [message.content for message in request.messages if message.role in ("user", "system")]
    spoken, interruption, tool = SCENARIO["spoken"], SCENARIO["interruption"], SCENARIO["tool"]
    if request.input == "speech":
        if any(interruption["prompt"] in content for content in said):
            return Script(interruption["transcript"], interruption["reply"], WORD_SECONDS)
        return Script(spoken["transcript"], spoken["answer"], WORD_SECONDS)
    newest = request.messages[-1] if request.messages else None
    if newest is not None and newest.role == "tool":
        return _answer(tool["answer"] if tool["output"] in newest.content else f"It returned {newest.content}.")
    asked = max(("greeting", "text", "interruption", "tool"), key=lambda part: said[-1].rfind(SCENARIO[part]["prompt"]))
    if SCENARIO[asked]["prompt"] not in said[-1]:
        return _answer("Nobody asked for this.")
    if asked == "tool":
        if [each.name for each in request.tools] != [tool["name"]]:
            return _answer("There is no such function.")
        return Script(answer="", word_seconds=WORD_SECONDS, calls=((tool["name"], json.dumps(tool["arguments"])),))
    return _answer(SCENARIO[asked]["answer"])


def _answer(text: str) -> Script:
    return Script(answer=text, word_seconds=WORD_SECONDS)
