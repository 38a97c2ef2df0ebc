"""Text out of byte-level BPE tokens while they still come."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where it prints, else the next code point from 256 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


class TokenBytes:
    """The bytes that each token stands for; control tokens, and ids that the vocabulary lacks, stand for none."""

    def __init__(self, tokenizer: Any) -> None:
        """``tokenizer``: a byte-level ``tokenizers.Tokenizer``. Added tokens that are not special stand as they are."""
        alphabet = _byte_alphabet()
        added = tokenizer.get_added_tokens_decoder()
        self._bytes: dict[int, bytes] = {
            token: b"" if word.special else word.content.encode() for token, word in added.items()
        }
        for word, token in tokenizer.get_vocab().items():
            if token not in added:
                self._bytes[token] = bytes(alphabet[character] for character in word)

    def __getitem__(self, token: int) -> bytes:
        return self._bytes.get(token, b"")


class Detokenizer:
    """Turns tokens into text as they come, and never gives a part of a character.

    All pieces that :meth:`push` and :meth:`finish` give, joined, are the text of all tokens, with U+FFFD where their
    bytes are not UTF-8.
    """

    def __init__(self, tokens: TokenBytes) -> None:
        self._tokens = tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, tokens: Iterable[int]) -> str:
        return self._utf8.decode(b"".join(self._tokens[token] for token in tokens))

    def finish(self) -> str:
        """What stands for a character whose last bytes never came."""
        return self._utf8.decode(b"", final=True)
