"""Function tools, as clients declare them, and which of them a response must call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from voice_omni.client.interface import NamedTool, Tool
from voice_omni.client.interface import ToolChoice as RequestedChoice
from voice_omni.realtime.errors import ProtocolError

FunctionName = Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]


class FunctionTool(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, tag="function", tag_field="type"
):
    """A function that the client can carry out. ``parameters``: the JSON Schema of its arguments."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None


class FunctionChoice(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, tag="function", tag_field="type"
):
    """This function must be called."""

    name: FunctionName


class McpTool(msgspec.Struct, frozen=True, tag="mcp", tag_field="type"):
    """A server of tools, which the contract knows and :func:`check_tools` refuses."""


class McpChoice(msgspec.Struct, frozen=True, tag="mcp", tag_field="type"):
    """A tool of such a server must be called."""


Tools = Annotated[tuple[FunctionTool | McpTool, ...], msgspec.Meta(max_length=128)]
ToolChoice = Literal["auto", "none", "required"] | FunctionChoice | McpChoice


def check_tools(tools: Sequence[FunctionTool | McpTool], choice: ToolChoice, path: str) -> None:
    """Names must be unique, and a chosen function must exist. Raises :class:`ProtocolError` ``invalid_value``.

    ``path``: of the object that holds ``tools`` and ``tool_choice``.
    """
    names: list[str] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, McpTool):
            raise _no_mcp(f"{path}.tools[{index}].type")
        names.append(tool.name)
    if isinstance(choice, McpChoice):
        raise _no_mcp(f"{path}.tool_choice.type")
    for index, name in enumerate(names):
        if name in names[:index]:
            param = f"{path}.tools[{index}].name"
            raise ProtocolError("invalid_value", f"Invalid value for '{param}': '{name}' is there already.", param)
    if isinstance(choice, FunctionChoice) and choice.name not in names:
        param = f"{path}.tool_choice"
        raise ProtocolError("invalid_value", f"Invalid value for '{param}': there is no tool '{choice.name}'.", param)


def _no_mcp(param: str) -> ProtocolError:
    message = f"Invalid value for '{param}': this server calls functions of its clients, no 'mcp' servers."
    return ProtocolError("invalid_value", message, param)


def requested(tools: Sequence[FunctionTool | McpTool]) -> tuple[Tool, ...]:
    """The functions as a request names them."""
    functions = (tool for tool in tools if isinstance(tool, FunctionTool))
    return tuple(Tool(tool.name, tool.description or "", tool.parameters or {}) for tool in functions)


def requested_choice(choice: ToolChoice) -> RequestedChoice:
    match choice:
        case FunctionChoice(name=name):
            return NamedTool(name)
        case McpChoice():
            raise ValueError("a choice that was not checked")
        case _:
            return choice
