"""Where a command writes sound: a file in the format that its name ends with, or WAV into what is no file."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from voice_omni.proto.errors import OmniError

if TYPE_CHECKING:
    from voice_omni.audio.pcm import Samples

_DEPTH = "PCM_16"
"""Of the formats that have it; others compress as they do by default."""


@dataclass(frozen=True, slots=True)
class SoundOutput:
    """``path`` None: standard output. ``stream``: no file, but a pipe or a device. ``param``: the command's argument
    that named it."""

    path: Path | None
    format: str
    param: str
    stream: bool = False

    @classmethod
    def named(cls, name: str, param: str) -> SoundOutput:
        """To be called before anything is made that would be lost. Raises :class:`OmniError` ``invalid_value`` for an
        ending that is no format, and for a place where no file can be made."""
        import soundfile

        if name == "-":
            return cls(None, "WAV", param, stream=True)
        path = Path(name)
        if path.exists() and not path.is_file() and not path.is_dir() and os.access(path, os.W_OK):
            return cls(path, "WAV", param, stream=True)
        known = soundfile.available_formats()
        ending = path.suffix.removeprefix(".").upper()
        if ending not in known:
            endings = ", ".join(f".{each.lower()}" for each in sorted(known))
            raise OmniError("invalid_value", f"{name} ends with no format of sound; there are {endings}", param=param)
        writable = path if path.exists() else path.parent
        if path.is_dir() or not path.parent.is_dir() or not os.access(writable, os.W_OK):
            raise OmniError("invalid_value", f"cannot write {name}: no file can be made there", param=param)
        return cls(path, ending, param)

    def write(self, samples: Samples, rate: int) -> None:
        """float32 ``[n]``. Raises :class:`OmniError` ``invalid_value`` if it cannot be written after all, and
        ``BrokenPipeError`` if nobody reads."""
        import soundfile

        depth = _DEPTH if soundfile.check_format(self.format, _DEPTH) else None
        # A WAV header holds the length, which a pipe cannot be told afterwards.
        buffer = io.BytesIO() if self.stream else None
        try:
            soundfile.write(buffer or self.path, samples, rate, format=self.format, subtype=depth)
        except (soundfile.LibsndfileError, TypeError, ValueError) as error:  # as of a rate that the format has not
            raise OmniError("invalid_value", f"cannot write {self.path or '-'}: {error}", param=self.param) from error
        if buffer is not None:
            self._pass_on(buffer.getvalue())

    def _pass_on(self, content: bytes) -> None:
        # Not as an error of the sound: whoever reads may have seen enough.
        if self.path is None:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            self.path.write_bytes(content)
