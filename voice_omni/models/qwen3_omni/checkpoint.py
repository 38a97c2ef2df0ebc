"""Reading a checkpoint in the released layout: sharded or single-file safetensors, each stage only its own tensors.

See https://github.com/huggingface/safetensors for the file format; an index file ``*.index.json`` maps each tensor to
its shard. Files are memory-mapped: a tensor that nobody asks for is never read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from voice_omni.models.qwen3_omni.config import OmniConfig, load_config
from voice_omni.models.qwen3_omni.layout import THINKER_EMBEDDING, Part, Shape, layout, part_of
from voice_omni.proto.errors import OmniError

_INDEX: Final = "model.safetensors.index.json"
_SINGLE: Final = "model.safetensors"
_SHOWN: Final = 5
"""How many names an error message gives."""


class Checkpoint:
    """A folder with ``config.json`` and weights. Holds names only; nothing stays open between calls.

    Raises :class:`OmniError` ``weights_corrupt`` whenever the folder's content does not fit the configuration.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config: OmniConfig = load_config(folder)
        self._files = _files(folder)
        self._check_names()

    def parts(self) -> frozenset[Part]:
        """The parts that the configuration has."""
        return frozenset(part for part in Part if layout(self.config, part))

    def files(self, part: Part) -> set[Path]:
        """Those that hold tensors of a part."""
        return {self._files[name] for name in layout(self.config, part)}

    @property
    def dtype(self) -> torch.dtype:
        """In which the weights are stored."""
        with safe_open(self._files[THINKER_EMBEDDING], framework="pt") as shard:
            name: str = shard.get_slice(THINKER_EMBEDDING).get_dtype()
        known = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
        if name not in known:
            raise _corrupt(f"{self.folder} has weights of the type {name}", set(), {THINKER_EMBEDDING})
        return known[name]

    def tensors(
        self, part: Part, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Each tensor of a part once: its name without the part's prefix, and its values on ``device``.

        ``dtype`` None keeps the file's own. One tensor is in memory at a time beyond what the caller keeps.
        """
        yield from self._read(layout(self.config, part), len(part.value), device, dtype)

    def tensor(
        self, name: str, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """One tensor by its full name, e.g. :data:`.layout.THINKER_EMBEDDING`."""
        part = part_of(name)
        shapes = layout(self.config, part) if part is not None else {}
        if name not in shapes:
            raise OmniError("weights_corrupt", f"the layout has no tensor {name!r}", param=name)
        ((_, tensor),) = self._read({name: shapes[name]}, 0, device, dtype)
        return tensor

    def load(
        self, module: nn.Module, part: Part, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
    ) -> None:
        """Give a module built on the meta device a part's tensors; its parameters must have the part's names.

        Buffers that are not in the checkpoint must be real already. The module is left in evaluation mode.
        """
        owned = {name for name, _ in module.named_parameters()}
        loaded = dict(self.tensors(part, device=device, dtype=dtype))
        if owned != loaded.keys():
            raise _corrupt(f"the module of {part.value!r} differs", owned - loaded.keys(), loaded.keys() - owned)
        module.load_state_dict(loaded, strict=False, assign=True)
        module.to(device).requires_grad_(False).eval()

    def _check_names(self) -> None:
        expected = {name for part in Part for name in layout(self.config, part)}
        if missing := expected - self._files.keys():
            raise _corrupt(f"{self.folder} lacks tensors", missing, set())
        # A checkpoint that only writes may still hold the talker's weights, which nobody reads.
        absent = frozenset(Part) - self.parts()
        if unknown := {name for name in self._files.keys() - expected if part_of(name) not in absent}:
            raise _corrupt(f"{self.folder} holds unknown tensors", set(), unknown)

    def _read(
        self, shapes: dict[str, Shape], skip: int, device: torch.device | str, dtype: torch.dtype | None
    ) -> Iterator[tuple[str, torch.Tensor]]:
        by_file: dict[Path, list[str]] = {}
        for name in shapes:
            by_file.setdefault(self._files[name], []).append(name)
        for file, names in by_file.items():
            with ExitStack() as stack:
                try:
                    shard = stack.enter_context(safe_open(file, framework="pt", device=str(device)))
                except (OSError, SafetensorError) as error:
                    raise OmniError("weights_corrupt", f"{file}: {error}", param=file.name) from error
                for name in names:
                    yield name[skip:], self._one(shard, file, name, shapes[name], dtype)

    def _one(self, shard: Any, file: Path, name: str, shape: Shape, dtype: torch.dtype | None) -> torch.Tensor:
        try:
            found = tuple(shard.get_slice(name).get_shape())
        except SafetensorError as error:
            raise OmniError("weights_corrupt", f"{file}: {error}", param=name) from error
        if found != shape:
            raise OmniError(
                "weights_corrupt", f"{file}: {name} has shape {list(found)}, expected {list(shape)}", param=name
            )
        tensor: torch.Tensor = shard.get_tensor(name)
        return tensor.to(dtype) if dtype is not None else tensor


def _files(folder: Path) -> dict[str, Path]:
    """Each tensor's file. Raises ``weights_corrupt`` if the folder has no readable weights."""
    index, single = folder / _INDEX, folder / _SINGLE
    try:
        if index.exists():
            weight_map: dict[str, str] = json.loads(index.read_bytes())["weight_map"]
            files = {name: folder / shard for name, shard in weight_map.items()}
            if absent := sorted({file.name for file in files.values() if not file.exists()}):
                raise OmniError("weights_corrupt", f"{folder} lacks {', '.join(absent)}", param=absent[0])
            return files
        with safe_open(single, framework="pt") as shard:
            return dict.fromkeys(shard.keys(), single)
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise OmniError("weights_corrupt", f"{folder} has no readable weights: {error!r}") from error


def _corrupt(what: str, missing: set[str], extra: set[str]) -> OmniError:
    names = sorted(missing) or sorted(extra)
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return OmniError("weights_corrupt", f"{what}: {'missing' if missing else 'not expected'} {shown}", param=names[0])
