"""Byte-level BPE from a checkpoint's own vocabulary, and its decoding while tokens still come."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from voice_omni.models.starter.think_weights import Vocabulary
from voice_omni.proto.errors import OmniError

TOKENIZER_FILE = "tokenizer.json"


def build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """SmolLM's tokenizer: GPT-2's pattern, with each digit a piece of its own.

    Raises :class:`OmniError` (``invalid_checkpoint``) for a vocabulary made with another pattern.
    """
    if vocabulary.pre_tokenizer != "smollm":
        raise OmniError(
            "invalid_checkpoint",
            f"expected a vocabulary with the pre-tokenizer 'smollm', found {vocabulary.pre_tokenizer!r}",
        )
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in vocabulary.merges)]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(vocabulary.tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(vocabulary.tokens[i], special=True, normalized=False) for i in sorted(vocabulary.special)]
    )
    return tokenizer


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer saved in ``folder``; text that looks like a control token is encoded as the text it is."""
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.encode_special_tokens = True
    return tokenizer


def control_token(tokenizer: Tokenizer, word: str) -> int:
    """Its id. Raises :class:`OmniError` (``invalid_checkpoint``) if the vocabulary lacks it."""
    token: int | None = tokenizer.token_to_id(word)
    if token is None:
        raise OmniError("invalid_checkpoint", f"the vocabulary has no token {word!r}")
    return token


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where it prints, else the next code point from 256 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


class TokenBytes:
    """The bytes that each token stands for; control tokens stand for none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        alphabet = _byte_alphabet()
        self._bytes = [b""] * tokenizer.get_vocab_size()
        control = tokenizer.get_added_tokens_decoder()
        for word, token in tokenizer.get_vocab().items():
            if token not in control:
                self._bytes[token] = bytes(alphabet[character] for character in word)

    def __getitem__(self, token: int) -> bytes:
        return self._bytes[token]


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
