"""How SmolLM2-Instruct is told of functions, and how calls and their results stand in its prompt. Pure.

Calls are written as in SmolLM2's published tool-use prompt (HuggingFaceTB/SmolLM2-1.7B-Instruct,
``instructions_function_calling.md``). The checkpoint of 135 M parameters was not trained on them: it is shown how in a
few examples, calls what a command plainly asks for, and fills in the arguments of a function that it is made to call.
Results are told in plain words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from voice_omni.model_runner.tool_calls import CLOSE, OPEN
from voice_omni.proto.payload import Data
from voice_omni.proto.vocabulary import TOOL_CALLS, TOOL_CHOICE, TOOLS


def _call(name: str, arguments: str) -> str:
    return f'{{"name": {json.dumps(name)}, "arguments": {arguments}}}'


def _calls(*calls: str) -> str:
    return f"{OPEN}[{', '.join(calls)}]{CLOSE}"


EXAMPLES: Final = (
    ("Hello!", "Hello! How can I help you today?"),
    ("Please play Yesterday.", _calls(_call("play_song", '{"title": "Yesterday"}'))),
    ("Who painted the Mona Lisa?", "The Mona Lisa was painted by Leonardo da Vinci."),
    ("What time is it in Tokyo?", _calls(_call("get_time", '{"city": "Tokyo"}'))),
    ("What is three plus four?", "Three plus four is seven."),
    (
        "Send Anna a message that I am late.",
        _calls(_call("send_message", '{"to": "Anna", "text": "I am late."}')),
    ),
    ("Thank you, that is all.", "You are welcome. Talk to you soon!"),
)


@dataclass(frozen=True, slots=True)
class Tooling:
    """What functions there are for one answer, and how it must begin.

    ``system``: what is added to the instructions. ``start``: the beginning of a call that the model has to go on with;
    empty if it is free to call or to speak.
    """

    system: str
    start: str
    names: frozenset[str]


def tooling(inputs: Data, messages: Sequence[Data]) -> Tooling | None:
    """None when nothing is to be called: there are no functions, or a call's result is to be told.

    A model this small, told of functions and given a result, calls again; without them it tells the result.
    """
    tools, choice = inputs.get(TOOLS) or (), inputs.get(TOOL_CHOICE, "auto")
    told = bool(messages) and messages[-1]["role"] == "tool"
    if not tools or choice == "none" or (choice == "auto" and told):
        return None
    by_name = {tool["name"]: tool for tool in tools}
    listed = json.dumps([{"type": "function", "function": tool} for tool in tools], ensure_ascii=False)
    system = f"\nYou have access to the following tools:\n<tools>{listed}</tools>"
    return Tooling(system, _start(choice, by_name), frozenset(by_name))


def _start(choice: Any, tools: Mapping[str, Data]) -> str:
    if choice == "auto":
        return ""
    if choice == "required" and len(tools) > 1:
        return f'{OPEN}[{{"name": "'
    tool = tools[next(iter(tools)) if choice == "required" else choice["name"]]
    start = f'{OPEN}[{{"name": {json.dumps(tool["name"])}, "arguments":'
    # With the first argument's name before it, the model writes a value for it; without, it often writes a schema.
    parameters = tool.get("parameters") or {}
    names = [*_strings(parameters.get("required")), *_strings(parameters.get("properties"))]
    return f"{start} {{{json.dumps(names[0])}:" if names else start


def _strings(given: Any) -> list[str]:
    """The strings in whatever stands where a JSON Schema should have names."""
    return [name for name in given if isinstance(name, str)] if isinstance(given, list | dict) else []


def as_text(message: Data) -> Data:
    """A message as the model sees it: calls and results are text within it."""
    if message["role"] == "tool":
        # Not in the published prompt's markup, which a model this small repeats, to be read out, instead of the result.
        told = f"That gave: {message['content']}. Tell me what it means in one short sentence."
        return {"role": "user", "content": told}
    calls = message.get(TOOL_CALLS)
    if not calls:
        return message
    written = _calls(*(_call(call["name"], call["arguments"]) for call in calls))
    return {"role": message["role"], "content": message["content"] + written}
