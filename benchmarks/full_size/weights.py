"""Random weights of the released sizes, in memory or as a checkpoint's folder.

Each tensor is drawn from its name alone, in bfloat16 and with a deviation that keeps the size of what passes, so that
activations stay finite through all layers: whoever asks for a tensor on the same kind of device gets the same values,
in whatever type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import torch
from safetensors.torch import save_file

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.config import OmniConfig, parse_config
from voice_omni.models.qwen3_omni.layout import Part, Shape, layout

BACKBONES: Final = {
    "thinker": ("thinker.model.layers.", "thinker.lm_head."),
    "talker": ("talker.model.layers.",),
}
"""What of a stage's weights need not be written where its engine draws its own: nothing else reads these."""

_ABSENT: Final = "absent.safetensors"
"""A file without tensors. The index says of those that are left out that they are in here."""


class RandomCheckpoint(Checkpoint):
    """A checkpoint of a configuration, drawn as it is read. Its weights are those of bfloat16 in every type."""

    def __init__(self, config: OmniConfig) -> None:
        self.folder = Path("random")
        self.config = config

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16

    def tensors(
        self, part: Part, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
    ) -> Iterator[tuple[str, torch.Tensor]]:
        for name, shape in layout(self.config, part).items():
            yield name.removeprefix(part.value), self.drawn(name, shape, device).to(dtype or self.dtype)

    def tensor(
        self, name: str, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        [shape] = [shapes[name] for part in Part if name in (shapes := layout(self.config, part))]
        return self.drawn(name, shape, device).to(dtype or self.dtype)

    def drawn(self, name: str, shape: Shape, device: torch.device | str) -> torch.Tensor:
        return draw(name, shape, device)


def draw(name: str, shape: Shape, device: torch.device | str) -> torch.Tensor:
    """The tensor of a checkpoint's name, bfloat16."""
    kind = name.rpartition(".")[2]
    if kind in ("gamma", "scale"):
        return torch.full(shape, 0.5, device=device, dtype=torch.bfloat16)
    if len(shape) == 1 and kind == "weight":  # of a norm
        return torch.ones(shape, device=device, dtype=torch.bfloat16)
    generator = torch.Generator(device).manual_seed(crc32(name.encode()))
    return torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16) * _deviation(name, kind, shape)


def _deviation(name: str, kind: str, shape: Shape) -> float:
    """One over the root of what is added up; less where branches join a residual stream."""
    if kind in ("alpha", "beta"):
        return 0.1
    if len(shape) == 1:
        return 0.02
    if "embed" in name and "patch" not in name:
        return 1.0
    if name.startswith("code2wav.decoder") and ".block.1." in name:
        return 0.6 / math.sqrt(2 * shape[0])  # transposed: two taps of each input reach a sample
    if name.startswith("code2wav.upsample") and ".0.conv." in name:
        return 1 / math.sqrt(shape[0])
    return (0.2 if ".conv2.conv." in name else 1.0) / math.sqrt(math.prod(shape[1:]))


def write_checkpoint(
    folder: Path,
    raw: dict[str, Any],
    write_tokenizer: Callable[[Path], None],
    device: torch.device | str,
    left_out: Collection[str] = (),
) -> Path:
    """A folder in the released layout: ``raw`` as its ``config.json``, drawn weights, a tokenizer. Returns ``folder``.

    ``left_out``: beginnings of the names of tensors that are declared and not there: to read one is an error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    config = parse_config(raw)
    weight_map: dict[str, str] = {}
    for part in Part:
        names = layout(config, part)
        there = {name: shape for name, shape in names.items() if not name.startswith(tuple(left_out))}
        file = f"{part.name.lower()}.safetensors"
        save_file({name: draw(name, shape, device).cpu() for name, shape in there.items()}, folder / file)
        weight_map |= {name: file if name in there else _ABSENT for name in names}
    save_file({}, folder / _ABSENT)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps(raw))  # last: a folder that has one is complete
    return folder
