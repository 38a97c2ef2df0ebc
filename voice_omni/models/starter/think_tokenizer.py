"""Byte-level BPE from a checkpoint's own vocabulary."""

from __future__ import annotations

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
