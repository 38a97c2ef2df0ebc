"""The session object (GA dialect): its fields, their limits, and the deep merge of ``session.update``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from voice_omni.realtime.errors import ProtocolError, from_validation, unknown_parameter
from voice_omni.realtime.tools import ToolChoice, Tools, check_tools

_S = TypeVar("_S", bound=msgspec.Struct)


class _Strict(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Settings in which a misspelt key is an error, not silence."""


class Pcm(_Strict, frozen=True, tag="audio/pcm", tag_field="type"):
    """16-bit little-endian, mono. The contract knows 24 kHz; the others are an extension, to be asked for."""

    rate: Literal[8000, 16000, 24000, 32000, 44100, 48000] = 24000


class Pcmu(_Strict, frozen=True, tag="audio/pcmu", tag_field="type"):
    """G.711 mu-law at 8 kHz."""


class Pcma(_Strict, frozen=True, tag="audio/pcma", tag_field="type"):
    """G.711 A-law at 8 kHz."""


AudioFormat = Pcm | Pcmu | Pcma
CONTRACT_RATES: Final = frozenset({24000})
EXTENDED_RATES: Final = frozenset({8000, 16000, 24000, 32000, 44100, 48000})


class ServerVad(_Strict, frozen=True, tag="server_vad", tag_field="type"):
    """Turns are taken by voice activity. Durations are milliseconds of audio time."""

    threshold: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.5
    prefix_padding_ms: Annotated[int, msgspec.Meta(ge=0, le=5000)] = 300
    silence_duration_ms: Annotated[int, msgspec.Meta(ge=0, le=10000)] = 500
    idle_timeout_ms: Annotated[int, msgspec.Meta(ge=5000, le=30000)] | None = None
    create_response: bool = True
    interrupt_response: bool = True


class SemanticVad(_Strict, frozen=True, tag="semantic_vad", tag_field="type"):
    """Turns end when they sound complete; ``eagerness`` tells how long the rest are waited for."""

    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True


TurnDetection = ServerVad | SemanticVad


class Transcription(_Strict, frozen=True):
    """Asks for events with the transcript of what the person said. The rest is advisory: the pipeline recognises.

    The newer fields are shown to those who set them: older clients do not know them.
    """

    model: str | None = None
    language: str | None = None
    prompt: str | None = None
    delay: Literal["minimal", "low", "medium", "high", "xhigh"] | msgspec.UnsetType | None = msgspec.UNSET
    keywords: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    languages: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET


class NoiseReduction(_Strict, frozen=True):
    """Where the microphone is. Advisory: voice activity and recognition here are made for both."""

    type: Literal["near_field", "far_field"] | None = None
    strength: Annotated[float, msgspec.Meta(ge=0.0)] | msgspec.UnsetType | None = msgspec.UNSET


class AudioInput(_Strict, frozen=True):
    format: AudioFormat = Pcm()
    transcription: Transcription | None = None
    noise_reduction: NoiseReduction | None = None
    turn_detection: TurnDetection | None = ServerVad()


Speed = Annotated[float, msgspec.Meta(ge=0.25, le=1.5)]


class CustomVoice(_Strict, frozen=True):
    id: str


class AudioOutput(_Strict, frozen=True):
    format: AudioFormat = Pcm()
    voice: str | CustomVoice = "default"
    speed: Speed = 1.0


class Audio(_Strict, frozen=True):
    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


Modalities = Annotated[tuple[Literal["audio", "text"], ...], msgspec.Meta(min_length=1, max_length=1)]
TokenLimit = Annotated[int, msgspec.Meta(ge=1, le=4096)] | Literal["inf"]
Temperature = Annotated[float, msgspec.Meta(ge=0.6, le=1.2)]
"""The range of the beta dialect, which alone has the setting."""
Include = tuple[Literal["item.input_audio_transcription.logprobs"], ...]
"""What a client may ask to be told beside the usual."""


class Tracing(_Strict, frozen=True):
    """How traces are to be labelled. Kept for the client; no traces are written here."""

    workflow_name: str | None = None
    group_id: str | None = None
    metadata: dict[str, Any] | None = None


class TokenLimits(_Strict, frozen=True):
    post_instructions: Annotated[int, msgspec.Meta(ge=1)] | None = None


class RetentionRatio(_Strict, frozen=True, tag="retention_ratio", tag_field="type"):
    """How much of a conversation that has become too long is kept; see :class:`~voice_omni.realtime.window.Window`."""

    retention_ratio: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
    token_limits: TokenLimits | None = None


class Prompt(_Strict, frozen=True):
    """A reference to a prompt that is stored on the server. There are none here, so each is an unknown one."""

    id: str
    version: str | None = None
    variables: dict[str, Any] | None = None


class Reasoning(_Strict, frozen=True):
    """How long to think before answering. Kept for the client: no model here reasons before it speaks."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class Session(_Strict, frozen=True):
    """What a client can set about a conversation. Immutable: an update makes a new one or fails as a whole.

    ``type`` ``transcription``: what is said is written down and nobody answers. Such a session is shown, and can be
    set, only in part: see :mod:`voice_omni.realtime.transcription_session`. ``temperature`` is the beta dialect's;
    while it is unset it is not shown, and the model's own holds. ``include`` may be asked for and is shown as it holds:
    None, because no recogniser here gives log probabilities.
    """

    type: Literal["realtime", "transcription"] = "realtime"
    model: str = ""
    output_modalities: Modalities = ("audio",)
    instructions: str = ""
    tools: Tools = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool | None = None
    max_output_tokens: TokenLimit = "inf"
    reasoning: Reasoning | None = None
    tracing: Literal["auto"] | Tracing | None = None
    truncation: Literal["auto", "disabled"] | RetentionRatio = "auto"
    prompt: Prompt | None = None
    include: Include | None = None
    temperature: Temperature | msgspec.UnsetType = msgspec.UNSET
    audio: Audio = Audio()

    @property
    def voice(self) -> str:
        voice = self.audio.output.voice
        return voice if isinstance(voice, str) else voice.id


_BASES: Mapping[str, Mapping[str, Any]] = {"turn_detection": {"type": "server_vad"}}
"""What a partial object is merged over when the setting is off: its default kind."""
_ONE_KIND: Final = frozenset({"noise_reduction"})
"""Objects whose other fields mean the same whatever their ``type``."""


def _merge(current: Any, patch: Any, key: str) -> Any:
    if not isinstance(patch, dict):
        return patch
    base = current if isinstance(current, dict) else dict(_BASES.get(key, {}))
    if key not in _ONE_KIND and "type" in patch and patch["type"] != base.get("type"):
        return patch  # another kind of object: the old kind's fields mean nothing in it
    return {**base, **{name: _merge(base.get(name), value, name) for name, value in patch.items()}}


def merged(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object ``current`` with the keys that are present in ``patch`` changed, at any depth."""
    result: dict[str, Any] = _merge(dict(current), dict(patch), "session")
    return result


def updated(
    session: Session, patch: Mapping[str, Any], rates: Collection[int] = CONTRACT_RATES, *, beta: bool = False
) -> Session:
    """``session`` with the keys that are present in ``patch`` changed, at any depth.

    ``type`` and ``model`` are fixed for a session: clients repeat the name of the model that they connected with, and
    it changes nothing. ``rates``: that ``audio/pcm`` may have. ``beta``: whether the patch comes from that dialect.
    Raises :class:`ProtocolError` (``unknown_parameter``, ``invalid_value``), with the parameter's path.
    """
    if not beta and "temperature" in patch:
        raise unknown_parameter("session.temperature")
    if patch.get("type", session.type) != session.type:
        raise ProtocolError(
            "invalid_value", f"Invalid value for 'session.type': this session is '{session.type}'.", "session.type"
        )
    if not isinstance(patch.get("model", ""), str):
        raise ProtocolError("invalid_value", "Invalid value for 'session.model': expected a string.", "session.model")
    changes = {name: value for name, value in patch.items() if name != "model"}
    result = msgspec.structs.replace(convert(merged(msgspec.to_builtins(session), changes), Session), include=None)
    check_rate(result.audio.input.format, rates, "session.audio.input.format")
    check_rate(result.audio.output.format, rates, "session.audio.output.format")
    check_prompt(result.prompt, "session.prompt")
    check_tools(result.tools, result.tool_choice, "session")
    return result


def convert(raw: Mapping[str, Any], kind: type[_S]) -> _S:
    """A session object, validated. Raises :class:`ProtocolError`."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise from_validation(error, "session") from None


def check_rate(audio_format: AudioFormat | None, rates: Collection[int], path: str) -> None:
    """Raises :class:`ProtocolError` ``invalid_value`` for linear PCM at another rate than one of ``rates``."""
    if isinstance(audio_format, Pcm) and audio_format.rate not in rates:
        known = ", ".join(str(rate) for rate in sorted(rates))
        message = f"Invalid value for '{path}.rate': {audio_format.rate}. Supported values are: {known}."
        raise ProtocolError("invalid_value", message, f"{path}.rate")


def check_prompt(prompt: Prompt | None, path: str) -> None:
    """Raises :class:`ProtocolError` ``invalid_value`` for any stored prompt: ignoring one would change the answers."""
    if prompt is not None:
        param = f"{path}.id"
        message = f"Invalid value for '{param}': no prompt '{prompt.id}' is stored here. Send 'instructions' instead."
        raise ProtocolError("invalid_value", message, param)
