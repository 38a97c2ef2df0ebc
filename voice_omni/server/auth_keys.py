"""API keys: where they come from, and whether one that was presented is among them."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from voice_omni.proto.errors import OmniError

EPHEMERAL_PREFIX: Final = "ek_"
"""How keys begin that the server itself hands out for one session's settings."""
_KEY: Final = re.compile(r"[A-Za-z0-9._~-]{16,256}\Z")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_RULE: Final = (
    "it must be KEY or NAME=KEY, the key 16 to 256 letters, digits or '.', '_', '~', '-' (browsers send it as a "
    "WebSocket subprotocol); 'openssl rand -hex 24' makes one"
)


def digest(key: str) -> bytes:
    """What is kept and compared in the place of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key's name, for logs and people, and its digest; the key itself is not kept."""

    name: str
    digest: bytes


class KeyRing:
    """The keys that open this server. Empty: it asks for none."""

    def __init__(self, keys: Iterable[ApiKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def name_of(self, presented: str) -> str | None:
        """The name of the key that this is; None if it is none. Takes as long for every answer."""
        candidate = digest(presented)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, candidate):
                found = key.name
        return found


def load_keys(text: str, path: str | None) -> KeyRing:
    """The keys of the settings ``server.api_keys``, separated by commas, and ``server.api_keys_file``, one a line.

    Empty lines and those that begin with ``#`` do not count; a key without a name is called by its number. Raises
    :class:`OmniError` ``invalid_config``, which never shows a key.
    """
    keys = [
        _parse(entry.strip(), "server.api_keys", f"entry {number}", f"key-{number}")
        for number, entry in enumerate(text.split(","), 1)
        if entry.strip()
    ]
    if path is not None:
        lines = _lines(path)
        found = [
            _parse(line.strip(), "server.api_keys_file", f"{path}:{number}", f"file-{number}")
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not found:
            raise OmniError("invalid_config", f"{path} holds no API key", param="server.api_keys_file")
        keys += found
    if len({key.name for key in keys}) < len(keys):
        raise OmniError("invalid_config", "two API keys have the same name", param="server.api_keys")
    return KeyRing(keys)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"cannot read the API keys in {path}: {reason}"
        raise OmniError("invalid_config", message, param="server.api_keys_file") from None


def _parse(entry: str, param: str, where: str, fallback: str) -> ApiKey:
    name, equals, key = entry.rpartition("=")
    name = name.strip() if equals else fallback
    if not _KEY.match(key.strip()) or not _NAME.match(name):
        raise OmniError("invalid_config", f"{where} of the API keys is no good; {_RULE}", param=param)
    return ApiKey(name, digest(key.strip()))
