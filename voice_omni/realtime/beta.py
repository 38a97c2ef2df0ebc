"""The beta dialect of the Realtime API: the same protocol under older names, with a flat session. Pure translation.

Everything that is not renamed passes as it is, so that the core finds the faults in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from voice_omni.realtime.events import ServerEvent

Json = dict[str, Any]

DEFAULT_TEMPERATURE: Final = 0.8
"""What the dialect shows where none was set; the model's own holds."""
SERVER_EVENTS: Final = {
    "conversation.item.added": "conversation.item.created",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
}
_FORMATS: Final = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_FORMAT_NAMES: Final = {ga: beta for beta, ga in _FORMATS.items()}
_PART_TYPES: Final = {"text": "output_text", "audio": "output_audio"}
_PART_NAMES: Final = {ga: beta for beta, ga in _PART_TYPES.items()}
_PLACES: Final[dict[str, tuple[str, ...]]] = {
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "output_audio_format": ("audio", "output", "format"),
    "input_audio_format": ("audio", "input", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "input_audio_noise_reduction": ("audio", "input", "noise_reduction"),
    "turn_detection": ("audio", "input", "turn_detection"),
}
"""Where a field of the flat objects stands in the nested ones; the others have one name."""
_FLAT_ONLY: Final = frozenset(_PLACES) | {"temperature"}
_NEWER: Final = frozenset({"parallel_tool_calls", "reasoning", "truncation", "prompt", "include"})
"""Settings that came after the dialect."""
_INPUT_TOKENS: Final = ("text_tokens", "audio_tokens", "cached_tokens")
_IN_RESPONSES: Final = ("modalities", "voice", "output_audio_format")


def is_flat(session: Mapping[str, Any]) -> bool:
    """Whether only a client of the beta dialect sends such a ``session``."""
    return not {"type", "audio"} & session.keys() and not _FLAT_ONLY.isdisjoint(session.keys())


# What clients send


def client_event(event: Json) -> Json:
    """A client's event in the GA dialect."""
    match event:
        case {"type": "session.update", "session": dict(session)}:
            return {**event, "session": _nested(session)}
        case {"type": "transcription_session.update", "session": dict(session)}:
            return {**event, "type": "session.update", "session": _nested(session)}
        case {"type": "response.create", "response": dict(response)}:
            nested = _nested(response)
            if isinstance(items := nested.get("input"), list):
                nested["input"] = [_with_parts(item, _PART_TYPES) for item in items]
            return {**event, "response": nested}
        case {"type": "conversation.item.create", "item": item}:
            return {**event, "item": _with_parts(item, _PART_TYPES)}
    return event


def _nested(flat: Json) -> Json:
    nested: Json = {}
    for name, value in flat.items():
        match name:
            case "modalities":
                value = _modality(value)
            case "input_audio_format" | "output_audio_format":
                value = {"type": _FORMATS.get(value, value) if isinstance(value, str) else value}
            case "tool_choice":
                value = _choice(value)
        _put(nested, _PLACES.get(name, (name,)), value)
    return nested


def _put(target: Json, place: tuple[str, ...], value: Any) -> None:
    for name in place[:-1]:
        child = target.setdefault(name, {})
        if not isinstance(child, dict):
            return  # the client sent something else of that name, which the core will refuse
        target = child
    target[place[-1]] = value


def _modality(value: Any) -> Any:
    """The dialect's clients ask for text and audio together, which means spoken answers with a transcript."""
    return ["audio"] if isinstance(value, list) and sorted(map(str, value)) == ["audio", "text"] else value


def _choice(value: Any) -> Any:
    match value:
        case {"type": "function", "function": {"name": name}}:
            return {"type": "function", "name": name}
    return value


# What the server sends


def server_event(event: ServerEvent) -> ServerEvent | None:
    """A server's event in the beta dialect; None for one that it does not have."""
    kind = event["type"]
    if kind == "conversation.item.done":
        return None
    shown = {**event, "type": SERVER_EVENTS.get(kind, kind)}
    if kind == "response.function_call_arguments.done":
        del shown["name"]
    if "session" in event:
        shown["session"] = _flat_session(event["session"])
        if event["session"]["type"] == "transcription":
            shown["type"] = f"transcription_{kind}"
    if "response" in event:
        shown["response"] = _flat_response(event["response"])
    if "item" in event:
        shown["item"] = _with_parts(event["item"], _PART_NAMES)
    if kind == "error":
        shown["error"] = {**event["error"], "param": _flat_path(event["error"]["param"])}
    return shown


def _flat_session(nested: Json) -> Json:
    flat = {name: value for name, value in nested.items() if name not in {"type", "audio"} | _NEWER}
    for name, place in _PLACES.items():
        value, found = _get(nested, place)
        if found:
            flat[name] = _format_name(value) if name.endswith("_format") else value
    if isinstance(detection := flat["turn_detection"], dict):
        flat["turn_detection"] = {name: value for name, value in detection.items() if name != "idle_timeout_ms"}
    if nested["type"] == "realtime":
        flat["modalities"] = _modalities(flat.pop("output_modalities"))
        flat["max_response_output_tokens"] = flat.pop("max_output_tokens")
        flat.setdefault("temperature", DEFAULT_TEMPERATURE)
    return flat


def _flat_response(nested: Json) -> Json:
    flat = {name: value for name, value in nested.items() if name not in ("audio", "output_modalities")}
    for name in _IN_RESPONSES:
        value, _ = _get(nested, _PLACES[name])
        flat[name] = _format_name(value) if name.endswith("_format") else value
    flat["modalities"] = _modalities(flat["modalities"])
    flat["output"] = [_with_parts(item, _PART_NAMES) for item in nested["output"]]
    if isinstance(usage := nested["usage"], dict):
        details = usage["input_token_details"]
        flat["usage"] = {**usage, "input_token_details": {name: details[name] for name in _INPUT_TOKENS}}
    return {"temperature": DEFAULT_TEMPERATURE, **flat}


def _get(nested: Json, place: tuple[str, ...]) -> tuple[Any, bool]:
    value: Any = nested
    for name in place:
        if not isinstance(value, dict) or name not in value:
            return None, False
        value = value[name]
    return value, True


def _modalities(modality: list[str]) -> list[str]:
    return ["audio", "text"] if "audio" in modality else ["text"]


def _format_name(value: Json) -> str:
    return _FORMAT_NAMES[value["type"]]


def _with_parts(item: Any, names: Mapping[str, str]) -> Any:
    """``item`` with the types of its content parts renamed."""
    if not isinstance(item, dict) or not isinstance(parts := item.get("content"), list):
        return item
    renamed = [
        {**part, "type": names.get(part["type"], part["type"])}
        if isinstance(part, dict) and isinstance(part.get("type"), str)
        else part
        for part in parts
    ]
    return {**item, "content": renamed}


def _flat_path(param: str | None) -> str | None:
    """The path of a faulty parameter, as the client wrote it."""
    if param is None:
        return None
    for name, place in _PLACES.items():
        for root in ("session", "response"):
            path = ".".join((root, *place))
            if param == path or param.startswith((f"{path}.", f"{path}[")):
                rest = param[len(path) :] if not name.endswith("_format") else ""
                return f"{root}.{name}{rest}"
    return param
