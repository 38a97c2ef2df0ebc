"""How far Qwen3-Omni at full size in bfloat16 is from the same weights in float32, stage by stage.

    python -m benchmarks.qwen3_omni_precision [--device cuda] [--positions 256] [--layers 48]
    python -m benchmarks.qwen3_omni_precision --tiny

Both run this project's modules on random weights (those of bfloat16, which float32 holds exactly) and the same drawn
inputs. The figure is the length of the difference over the length of what float32 gives. The thinker does not fit in
float32 beside anything else, so its layers are drawn one after the other, and each is left when both have passed it.

A router that has two experts nearly alike may choose another one for a rounded row, which no arithmetic in bfloat16 can
avoid; with random weights such ties are many. The thinker and the talker are therefore shown twice: as they are, and
with the experts that float32 chooses. Ends with status 1 if a figure of the second kind is above the bound.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch

from benchmarks.full_size.weights import RandomCheckpoint
from benchmarks.machine import describe
from tests.support.released_qwen3_omni import CONFIG
from voice_omni.models.qwen3_omni.audio_tower import AudioEncoder, MelWindow
from voice_omni.models.qwen3_omni.backbones import load_talker, load_thinker
from voice_omni.models.qwen3_omni.code2wav import StreamDecoder
from voice_omni.models.qwen3_omni.code_predictor import CodePredictor
from voice_omni.models.qwen3_omni.config import OmniConfig, load_config, parse_config
from voice_omni.models.qwen3_omni.layout import THINKER_EMBEDDING, Shape

BOUND: Final = 2e-2
EXACT, ROUNDED = torch.float32, torch.bfloat16


@dataclass(frozen=True, slots=True)
class Case:
    """``positions``: of a prompt; ``layers``: of the thinker that are passed."""

    config: OmniConfig
    device: str
    positions: int
    layers: int


@dataclass(frozen=True, slots=True)
class Figure:
    """``bounded``: whether it must lie below :data:`BOUND`."""

    name: str
    error: float
    bounded: bool = True

    @property
    def fits(self) -> bool:
        return not self.bounded or self.error <= BOUND

    def __str__(self) -> str:
        return f"| {self.name} | {self.error:.2e} | {('yes' if self.fits else 'NO') if self.bounded else '-'} |"


def distance(rounded: torch.Tensor, exact: torch.Tensor) -> float:
    """Raises ``ValueError`` for what is not finite."""
    if not (rounded.isfinite().all() and exact.isfinite().all()):
        raise ValueError("a result is not finite")
    return float((rounded.double() - exact.double()).norm() / exact.double().norm())


def drawn(case: Case, name: str, *shape: int) -> torch.Tensor:
    """A normal input of that name, the same in both types."""
    generator = torch.Generator(case.device).manual_seed(len(name))
    return torch.randn(shape, generator=generator, device=case.device, dtype=ROUNDED).float()


# -- what is no backbone -----------------------------------------------------------------------------------------------


def audio_encoder(case: Case) -> Iterator[Figure]:
    mel = [MelWindow(drawn(case, f"mel {n}", case.config.thinker.audio.num_mel_bins, 200).cpu()) for n in range(4)]

    def run(dtype: torch.dtype) -> torch.Tensor:
        return torch.cat(AudioEncoder(RandomCheckpoint(case.config), case.device, dtype).encode(mel)).float()

    yield Figure("audio encoder, 8 s in windows of 2 s", distance(run(ROUNDED), run(EXACT)))


def code2wav(case: Case) -> Iterator[Figure]:
    assert case.config.code2wav is not None
    books, size = case.config.code2wav.num_quantizers, case.config.code2wav.codebook_size
    codes = np.random.default_rng(1).integers(0, size, (100, books))

    def run(dtype: torch.dtype) -> torch.Tensor:
        decoder = StreamDecoder(RandomCheckpoint(case.config), 1, case.device, dtype)
        slot = decoder.open()
        return torch.from_numpy(np.concatenate([decoder.decode([(slot, part)])[0] for part in np.split(codes, 4)]))

    yield Figure("code2wav, 100 frames", distance(run(ROUNDED), run(EXACT)))


# -- backbones ---------------------------------------------------------------------------------------------------------


class Routing:
    """What the routers of a decoder say; those of another one can be made to say the same."""

    def __init__(self) -> None:
        self.said: list[tuple[torch.Tensor, ...]] = []

    @contextmanager
    def listen(self, decoder: Any) -> Iterator[None]:
        with self._hooked(decoder, lambda number, output: self.said.append(output)):
            yield

    @contextmanager
    def repeat(self, decoder: Any) -> Iterator[None]:
        def answer(number: int, output: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            return tuple(said.to(own.dtype) for said, own in zip(self.said[number], output, strict=True))

        with self._hooked(decoder, answer):
            yield

    @staticmethod
    @contextmanager
    def _hooked(decoder: Any, answer: Callable[[int, Any], Any]) -> Iterator[None]:
        handles = [
            layer.mlp.gate.register_forward_hook(lambda _, args, output, number=number: answer(number, output))
            for number, layer in enumerate(decoder.layers)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@torch.inference_mode()
def decoded(decoder: Any, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows ``[n, width]`` through a decoder: what its last layer gives, and that behind the final norm."""
    kept: list[torch.Tensor] = []
    handle = decoder.layers[-1].register_forward_hook(lambda module, args, output: kept.append(output))
    try:
        dtype = decoder.norm.weight.dtype
        positions = torch.arange(len(rows), device=rows.device).expand(3, 1, -1)
        output = decoder(inputs_embeds=rows[None].to(dtype), position_ids=positions, use_cache=False)
    finally:
        handle.remove()
    [inner] = kept
    return inner[0].float(), output.last_hidden_state[0].float()


class _OneLayer(RandomCheckpoint):
    """A thinker of one layer, ``number`` of the whole one, over a vocabulary that nobody reads."""

    def __init__(self, config: OmniConfig, number: int) -> None:
        text = msgspec.structs.replace(config.thinker.text, num_hidden_layers=1, vocab_size=8)
        super().__init__(msgspec.structs.replace(config, thinker=msgspec.structs.replace(config.thinker, text=text)))
        self._number = number

    def drawn(self, name: str, shape: Shape, device: torch.device | str) -> torch.Tensor:
        return super().drawn(name.replace(".layers.0.", f".layers.{self._number}."), shape, device)


def thinker(case: Case) -> Iterator[Figure]:
    config = case.config
    text, whole = config.thinker.text, RandomCheckpoint(config)
    tokens = torch.arange(case.positions, device=case.device) * 7 % text.vocab_size
    exact = whole.tensor(THINKER_EMBEDDING, device=case.device)[tokens].float()
    free, led = exact, exact
    shown = config.talker.accept_hidden_layer if config.talker is not None else 0
    alone, otherwise = 0.0, 0
    for number in range(case.layers):
        layer = _OneLayer(config, number)
        decoder = load_thinker(layer, device=case.device, dtype=EXACT).decoder
        routing, same, own = Routing(), Routing(), Routing()
        with routing.listen(decoder):
            after, behind = decoded(decoder, exact)
        fresh = exact.to(ROUNDED).float()
        with same.listen(decoder):
            expected, _ = decoded(decoder, fresh)
        del decoder
        decoder = load_thinker(layer, device=case.device, dtype=ROUNDED).decoder
        with same.repeat(decoder):
            alone = max(alone, distance(decoded(decoder, fresh)[0], expected))
        with routing.repeat(decoder):
            led, led_behind = decoded(decoder, led)
        with own.listen(decoder):
            free, free_behind = decoded(decoder, free)
        otherwise += _differ(own.said[0], routing.said[0])
        exact = after
        if number + 1 == shown:
            yield Figure(f"thinker, behind layer {shown}", distance(free, exact), bounded=False)
            yield Figure(f"thinker, behind layer {shown}, same experts", distance(led, exact))
    yield Figure("thinker, worst single layer, same input and experts", alone)
    yield Figure(f"thinker, {case.layers} layers", distance(free_behind, behind), bounded=False)
    yield Figure(f"thinker, {case.layers} layers, same experts", distance(led_behind, behind))
    yield Figure(
        "share of rows that went to other experts, all layers", otherwise / case.positions / case.layers, False
    )
    head = whole.tensor("thinker.lm_head.weight", device=case.device)
    yield Figure("thinker, logits, same experts", distance(led_behind.to(ROUNDED) @ head.T, behind @ head.float().T))


def _differ(one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> int:
    """Of how many rows the chosen experts are not the same, in any order."""
    [chosen], [theirs] = ([said for said in each if not said.is_floating_point()] for each in (one, other))
    return int((chosen.sort().values != theirs.sort().values).any(-1).sum().item())


def talker(case: Case) -> Iterator[Figure]:
    checkpoint = RandomCheckpoint(case.config)
    exact = load_talker(checkpoint, device=case.device, dtype=EXACT)
    rounded = load_talker(checkpoint, device=case.device, dtype=ROUNDED)
    rows = drawn(case, "talker", case.positions, exact.talker.text.hidden_size)
    routing = Routing()
    with routing.listen(exact.decoder):
        _, behind = decoded(exact.decoder, rows)
    free = decoded(rounded.decoder, rows)[1]
    with routing.repeat(rounded.decoder):
        led = decoded(rounded.decoder, rows)[1]
    yield Figure("talker", distance(free, behind), bounded=False)
    yield Figure("talker, same experts", distance(led, behind))

    books = exact.talker.num_code_groups - 1

    @torch.inference_mode()
    def residual(modules: Any, row: torch.Tensor, first: int) -> torch.Tensor:
        """The logits of all residual books, if the codes before are the same."""
        logits: list[torch.Tensor] = []

        def choose(book: int, given: torch.Tensor) -> int:
            logits.append(given.float())
            return book - 1

        dtype: torch.dtype = modules.head.weight.dtype
        row, code = row.to(dtype), modules.decoder.codec_embedding.weight[first]
        CodePredictor(modules.predictor, modules.predictor_heads).complete(row, code, choose)
        return torch.stack(logits)

    pairs = [(behind[number], number) for number in range(8)]
    ours, theirs = (torch.cat([residual(each, *pair) for pair in pairs]) for each in (rounded, exact))
    yield Figure(f"code predictor, logits of {books} books", distance(ours, theirs))


STAGES: Final = (audio_encoder, thinker, talker, code2wav)


def measure(case: Case) -> Iterator[Figure]:
    # Convolutions in float32 would otherwise be computed in a type with ten bits.
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    for stage in STAGES:
        yield from stage(case)
        if case.device != "cpu":
            torch.cuda.empty_cache()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--layers", type=int, help="of the thinker; default: all")
    parser.add_argument("--tiny", action="store_true", help="the shapes of a small checkpoint")
    options = parser.parse_args()
    config = parse_config(CONFIG)
    if options.tiny:
        from tests.support.tiny_qwen3_omni import build

        with tempfile.TemporaryDirectory() as folder:
            config = load_config(build(Path(folder)))
    began = time.monotonic()
    print(describe())
    print("| bfloat16 beside float32 | relative error | within 2e-2 |\n|---|---|---|", flush=True)
    fits = True
    layers = options.layers or config.thinker.text.num_hidden_layers
    for figure in measure(Case(config, options.device, options.positions, layers)):
        print(figure, flush=True)
        fits = fits and figure.fits
    print(f"in {time.monotonic() - began:.0f} s")
    return int(not fits)


if __name__ == "__main__":
    sys.exit(main())
