"""The files of a byte-level tokenizer, for checkpoints that nobody has trained."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_tokenizer(
    folder: Path,
    words: Mapping[str, int],
    special: Mapping[str, int],
    added: Mapping[str, int],
    unread: Iterable[int] = (),
) -> None:
    """``vocab.json``, ``merges.txt`` and ``tokenizer_config.json``, as the released checkpoint has them.

    Each byte is a token, and so is each of ``words``. ``special``: control tokens; ``added``: tokens that stand in
    texts as they are. ``unread``: ids that no text leads to, but that stand for a word each when they are generated.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + at) for at, byte in enumerate(hidden)}
    vocabulary = {letters[byte]: byte for byte in range(256)}
    merges: list[str] = []
    for word, id in words.items():
        for size in range(2, len(word) + 1):
            if word[:size] not in vocabulary:
                vocabulary[word[:size]] = id if size == len(word) else len(vocabulary)
                merges.append(f"{word[: size - 1]} {word[size - 1]}")
    taken = {*vocabulary.values(), *special.values(), *added.values()}
    vocabulary |= {f"{letters[ord(' ')]}word{id}": id for id in unread if id not in taken}
    declared = {
        str(id): {"content": token, "special": token in special, "normalized": False}
        for token, id in {**special, **added}.items()
    }
    (folder / "vocab.json").write_text(json.dumps({**vocabulary, **special, **added}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": declared}))
