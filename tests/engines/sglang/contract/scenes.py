"""What the tiny talker is asked to say. Both sides make the same rows of it: the reference, which has another
environment, and SGLang's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voice_omni.engines.interface import Feed, Piece, Row, Rows, Sampling

WIDTH, BOOKS, EOS = 32, 16, 1072
SUPPRESSED = frozenset(range(64, 1088)) - {EOS}
NEVER: frozenset[int] = frozenset()
GREEDY = Sampling(suppress=SUPPRESSED)


@dataclass(frozen=True)
class Scene:
    """``prompt``: rows of its pieces; ``text``: conditions, behind which the padding follows."""

    name: str
    prompt: tuple[int, ...] = (5, 9)
    text: int = 12
    tokens: int = 24
    sampling: Sampling = GREEDY
    stop: frozenset[int] = frozenset({EOS})
    loudness: float = 0.7

    @property
    def padding(self) -> Rows:
        return self._rows(1, 0)[0]

    @property
    def pieces(self) -> list[Piece]:
        return [Piece([1] * count, self._rows(count, 1 + number)) for number, count in enumerate(self.prompt)]

    @property
    def conditions(self) -> Rows:
        return self._rows(self.text, 100)

    def row(self, name: str | None = None, session: str | None = None) -> Row:
        name = name or self.name
        return Row(
            name,
            [],
            self.tokens,
            self.stop,
            self.sampling,
            open=True,
            padding=self.padding,
            session=session or name,
        )

    @property
    def whole(self) -> Feed:
        """Everything at once."""
        return Feed(self.pieces, closed=True, conditions=self.conditions, ended=True)

    def _rows(self, count: int, part: int) -> Rows:
        seed = sum(ord(letter) * 31**place for place, letter in enumerate(self.name)) + 7919 * part
        rows = np.random.RandomState(seed % 2**32).standard_normal((count, WIDTH)) * self.loudness
        return rows.astype(np.float32)


def _drawn(seed: int, **more: float) -> Sampling:
    values = {"temperature": 0.9, "top_k": 50, "repetition_penalty": 1.05} | more
    return Sampling(seed=seed, suppress=SUPPRESSED, **values)  # type: ignore[arg-type]


SCENES: dict[str, Scene] = {
    scene.name: scene
    for scene in (
        Scene("plain"),  # whose first code ends it
        Scene("endless", stop=NEVER),
        Scene("short", prompt=(2,), text=3),
        Scene("long prompt", prompt=(40, 1, 30, 9), text=20, tokens=30),
        Scene("no text", text=0),
        Scene("one token", tokens=1),
        Scene("two tokens", tokens=2),
        Scene("much text", text=300, tokens=30, stop=NEVER),
        Scene("long speech", text=280, tokens=306, stop=NEVER),
        Scene("penalised", sampling=Sampling(repetition_penalty=1.3, suppress=SUPPRESSED)),
        *(
            Scene(f"row {number}", prompt=(3 + 2 * number, 9), text=4 * number, tokens=20 + number)
            for number in range(6)
        ),
        *(Scene(f"drawn {number}", sampling=_drawn(number), tokens=16) for number in range(6)),
        Scene("drawn hot", sampling=_drawn(99, temperature=1.7, top_k=0, top_p=0.9)),
        Scene("drawn of three", sampling=_drawn(2**63 + 5, top_k=3)),
        Scene("drawn long", sampling=_drawn(5), text=30, tokens=50, stop=NEVER),
    )
}
