"""Function calls in a text that is being written: ``<tool_call>[{"name": ..., "arguments": ...}]</tool_call>``."""

from __future__ import annotations

import json
from collections.abc import Collection, Generator
from dataclasses import dataclass
from typing import Any, Final

from voice_omni.proto.errors import OmniError

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"
_RESULT_OPEN: Final = "<tool_response>"
_RESULT_CLOSE: Final = "</tool_response>"
_SPACE: Final = " \t\r\n"
_Chars = Generator[None, str, Any]


@dataclass(frozen=True, slots=True)
class CallPiece:
    """The next piece of call number ``call``, from 0: more of its arguments' JSON text, or its end."""

    call: int
    name: str
    arguments: str = ""
    final: bool = False


Piece = str | CallPiece


class CallParser:
    """Splits an answer, as it comes, into what is to be said and the calls between the markers.

    However the text is cut, the same comes out; what might become a marker is held back. Arguments are passed on while
    they are being written. Results of calls, which a model sometimes makes up, are neither.
    """

    def __init__(self, names: Collection[str]) -> None:
        """``names``: of the functions that there are."""
        self._names = names
        self._outside = ""
        self._pieces: list[Piece] = []
        self._calls = 0
        self._inside: _Chars | None = None
        self._unfinished = False
        # Whether anything stood between markers, and whether anything has been said.
        self._left_out = False
        self._said = False

    @property
    def inside(self) -> bool:
        """Whether what is being written is not to be said."""
        return self._inside is not None

    def push(self, text: str) -> list[Piece]:
        """Raises :class:`OmniError` ``invalid_tool_call``."""
        for character in text:
            if self._inside is None:
                self._say(character)
            else:
                self._step(self._inside, character)
        pieces, self._pieces = _joined(self._pieces), []
        return pieces

    def finish(self, *, cut: bool) -> list[Piece]:
        """The answer is over; ``cut``: by the token limit. Raises :class:`OmniError` ``invalid_tool_call``, also for an
        answer of which nothing is said or called: nobody would hear anything, nor know why."""
        if cut:
            return []
        if self._unfinished:
            raise _malformed("it has no end")
        held, self._outside = self._outside, ""
        if self._left_out and not self._calls and not self._said and not held.strip():
            raise OmniError("invalid_tool_call", "the model neither said nor called anything")
        return [held] if held else []

    def _say(self, character: str) -> None:
        self._outside += character
        if self._outside in (OPEN, _RESULT_OPEN):
            self._left_out = True
            self._inside = self._block() if self._outside == OPEN else _until(_RESULT_CLOSE)
            self._outside = ""
            next(self._inside)
            return
        said = len(self._outside) - max(_held(self._outside, OPEN), _held(self._outside, _RESULT_OPEN))
        if said:
            self._said = self._said or not self._outside[:said].isspace()
            self._pieces.append(self._outside[:said])
            self._outside = self._outside[said:]

    def _step(self, parsing: _Chars, character: str) -> None:
        try:
            parsing.send(character)
        except StopIteration:
            self._inside = None

    # The grammar: each of these reads characters as ``yield`` gives them.

    def _block(self) -> _Chars:
        self._unfinished = True
        character = yield from _skip()
        if character == "[":
            character = yield from _skip(",")
            while character == "{":
                yield from self._call()
                character = yield from _skip(",")
            if character != "]":
                raise _malformed(f"found {character!r} in the list of calls")
        elif character == "{":
            yield from self._call()
        else:
            raise _malformed(f"it begins with {character!r}")
        self._unfinished = False
        yield from _until(CLOSE)

    def _call(self) -> _Chars:
        name: str | None = None
        arguments: str | None = None
        streamed = False
        character = yield from _skip(",")
        while character != "}":
            if character != '"':
                raise _malformed(f"expected a key, found {character!r}")
            key = _decoded((yield from _string()))
            if (yield from _skip()) != ":":
                raise _malformed("a key has no value")
            character = yield from _skip()
            streamed_now = key == "arguments" and name is not None and character == "{"
            value, character = yield from self._value(character, name if streamed_now else None)
            if key == "name":
                name = self._known(_decoded(value))
            elif key == "arguments":
                arguments, streamed = value, streamed_now
            if character in _SPACE or character == ",":
                character = yield from _skip(",")
        if name is None:
            raise _malformed("it names no function")
        whole = _arguments(arguments)
        self._pieces.append(CallPiece(self._calls, name, "" if streamed else whole, final=True))
        self._calls += 1

    def _value(self, character: str, stream: str | None) -> Generator[None, str, tuple[str, str]]:
        """A JSON value that begins with ``character``, and the character after it. ``stream``: pass its text on as the
        arguments of this function."""
        if character == '"':
            text = yield from _string()
            return text, (yield)
        text, depth, quoted, escaped = "", 0, False, False
        while True:
            if depth == 0 and (character in _SPACE or character in ",}"):
                return text, character
            text += character
            if stream is not None:
                self._pieces.append(CallPiece(self._calls, stream, character))
            if quoted:
                quoted, escaped = (character != '"' or escaped), (character == "\\" and not escaped)
            elif character == '"':
                quoted = True
            elif character in "{[":
                depth += 1
            elif character in "}]":
                depth -= 1
                if depth == 0:
                    return text, (yield)
            character = yield

    def _known(self, name: Any) -> str:
        if not isinstance(name, str) or name not in self._names:
            raise _malformed(f"there is no function {name!r}")
        return name


def _held(text: str, marker: str) -> int:
    """How much of the end of ``text`` may become ``marker``."""
    return next(size for size in range(len(marker) - 1, -1, -1) if text.endswith(marker[:size]))


def _until(marker: str) -> _Chars:
    text = ""
    while not text.endswith(marker):
        text += yield


def _skip(also: str = "") -> Generator[None, str, str]:
    """The next character that is neither space nor one of ``also``."""
    while True:
        character = yield
        if character not in _SPACE and character not in also:
            return character


def _string() -> Generator[None, str, str]:
    """The rest of a JSON string whose first quote has been read; the text with both quotes."""
    text, escaped = '"', False
    while True:
        character = yield
        text += character
        if character == '"' and not escaped:
            return text
        escaped = character == "\\" and not escaped


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        raise _malformed("it is not JSON") from None


def _arguments(text: str | None) -> str:
    """The JSON text of an object, however the model wrote it: absent, null, or an object, perhaps inside a string."""
    value = _decoded(text) if text is not None else None
    if isinstance(value, str):
        text, value = value, _decoded(value)
    if value is None:
        return "{}"
    if not isinstance(value, dict) or text is None:
        raise _malformed("its arguments are no object")
    return text


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Neighbours of one kind as one piece."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, str) and isinstance(last, str):
            joined[-1] = last + piece
        elif isinstance(piece, CallPiece) and isinstance(last, CallPiece) and last.call == piece.call:
            joined[-1] = CallPiece(piece.call, piece.name, last.arguments + piece.arguments, piece.final)
        else:
            joined.append(piece)
    return joined


def _malformed(why: str) -> OmniError:
    return OmniError("invalid_tool_call", f"the model wrote a function call that makes no sense: {why}")
