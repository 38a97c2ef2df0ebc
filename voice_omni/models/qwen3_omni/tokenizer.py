"""The checkpoint's tokenizer: byte-level BPE with a few hundred added tokens, through the ``tokenizers`` library."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from voice_omni.model_runner.detokenizer import TokenBytes
from voice_omni.proto.errors import OmniError

_PIECES: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How text is cut before merging; a checkpoint without ``tokenizer.json`` does not state it."""

_BREAK: Final = "\ufdd0"
"""A code point that Unicode keeps out of texts: it separates a control token's letters in what a person wrote."""


class Tokenizer:
    """Text to ids and back. Control tokens (``<|im_start|>``, ``<|audio_pad|>``, ...) are recognised in templates only:
    what comes from outside passes through :meth:`plain` first, and stays text."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # Without this the library would find control tokens in any text.
        backend.encode_special_tokens = True
        added = backend.get_added_tokens_decoder()
        self.bytes = TokenBytes(backend)
        self.specials: Mapping[str, int] = {token.content: id for id, token in added.items() if token.special}
        longest_first = sorted(self.specials, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """From ``tokenizer.json``, or from ``vocab.json``, ``merges.txt`` and ``tokenizer_config.json``.

        Raises :class:`OmniError` ``weights_corrupt`` if the folder has neither, or what it has cannot be read.
        """
        file = folder / "tokenizer.json"
        try:
            return cls(Backend.from_file(str(file)) if file.exists() else _assembled(folder))
        except Exception as error:  # the library raises plain exceptions
            raise OmniError("weights_corrupt", f"{folder} has no readable tokenizer: {error}") from error

    def id_of(self, token: str) -> int | None:
        """Of an added token; None if the vocabulary lacks it."""
        id: int | None = self._backend.token_to_id(token)
        return id

    def plain(self, text: str) -> str:
        """The text such that :meth:`encode` sees no control token in it; the ids are those of its letters."""
        return self._special.sub(lambda match: match[0][0] + _BREAK + match[0][1:], text.replace(_BREAK, ""))

    def encode(self, text: str) -> list[int]:
        """The ids of a rendered template."""
        ids: list[int] = []
        end = 0
        for match in self._special.finditer(text):
            ids += self._text(text[end : match.start()])
            ids.append(self.specials[match[0]])
            end = match.end()
        return ids + self._text(text[end:])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids without the control tokens; an unfinished character at the end becomes U+FFFD."""
        return self._backend.decode(ids, skip_special_tokens=True)

    def _text(self, text: str) -> list[int]:
        return self._backend.encode(text.replace(_BREAK, ""), add_special_tokens=False).ids if text else []


def _assembled(folder: Path) -> Backend:
    backend = Backend(BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    configuration: dict[str, Any] = json.loads((folder / "tokenizer_config.json").read_bytes())
    added = sorted((int(id), token) for id, token in configuration.get("added_tokens_decoder", {}).items())
    for id, token in added:
        flags = {name: token[name] for name in ("single_word", "lstrip", "rstrip", "normalized") if name in token}
        backend.add_tokens([AddedToken(token["content"], special=token.get("special", False), **flags)])
        if backend.token_to_id(token["content"]) != id:
            raise ValueError(f"{token['content']!r} got the id {backend.token_to_id(token['content'])}, not {id}")
    return backend
