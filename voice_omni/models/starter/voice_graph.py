"""Cuts a VITS model into its three deterministic parts; runs once per model, its result is cached.

VITS (Kim et al. 2021, https://arxiv.org/abs/2106.06103) is exported as one graph that draws its own noise. Here it
becomes three graphs without any random node, so that whoever calls them owns the noise, the length of every phoneme
and the size of the pieces:

``text``
    ``ids`` int64 ``[1, phonemes]``, ``lengths`` int64 ``[1]``, ``duration_noise`` float32 ``[1, 2, phonemes]`` ->
    ``durations`` float32 ``[1, 1, phonemes]`` (frames, before rounding, at normal speed), ``mean`` and ``log_scale``
    float32 ``[1, 192, phonemes]`` of the prior.
``flow``
    ``prior`` float32 ``[1, 192, frames]``, ``mask`` float32 ``[1, 1, frames]`` -> ``latents``, same shape as ``prior``.
``decoder``
    ``latents`` float32 ``[streams, 192, frames]`` -> ``samples`` float32 ``[streams, 1, frames * 256]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx
from onnx import TensorProto, helper

from voice_omni.proto.errors import OmniError


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a part: its new name, element type and shape (strings are free dimensions)."""

    name: str
    dtype: int
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A subgraph, given by the tensors of the whole graph that it starts and ends at."""

    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]


_FLOAT: Final = TensorProto.FLOAT
_INT64: Final = TensorProto.INT64

PARTS: Final[Mapping[str, Part]] = {
    "text": Part(
        inputs={
            "input": Port("ids", _INT64, (1, "phonemes")),
            "input_lengths": Port("lengths", _INT64, (1,)),
            "/dp/Mul_1_output_0": Port("duration_noise", _FLOAT, (1, 2, "phonemes")),
        },
        outputs={
            "/Mul_output_0": Port("durations", _FLOAT, (1, 1, "phonemes")),
            "/enc_p/Split_output_0": Port("mean", _FLOAT, (1, 192, "phonemes")),
            "/enc_p/Split_output_1": Port("log_scale", _FLOAT, (1, 192, "phonemes")),
        },
    ),
    "flow": Part(
        inputs={
            "/Add_output_0": Port("prior", _FLOAT, (1, 192, "frames")),
            "/Cast_2_output_0": Port("mask", _FLOAT, (1, 1, "frames")),
        },
        outputs={"/Mul_7_output_0": Port("latents", _FLOAT, (1, 192, "frames"))},
    ),
    "decoder": Part(
        inputs={"/Mul_7_output_0": Port("latents", _FLOAT, ("streams", 192, "frames"))},
        outputs={"/dec/Tanh_output_0": Port("samples", _FLOAT, ("streams", 1, "samples"))},
    ),
}


def cut(model_path: Path, folder: Path) -> None:
    """Write ``text.onnx``, ``flow.onnx`` and ``decoder.onnx`` into ``folder``.

    Raises :class:`OmniError` ``invalid_weights`` if the model lacks a tensor that a part starts or ends at.
    """
    model = onnx.load(str(model_path))
    for name, part in PARTS.items():
        onnx.save(extract(model, name, part), str(folder / f"{name}.onnx"))


def extract(model: onnx.ModelProto, name: str, part: Part) -> onnx.ModelProto:
    """The subgraph that computes the part's outputs from its inputs, with the ports renamed."""
    producers = {output: node for node in model.graph.node for output in node.output}
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    given = {port.name for port in model.graph.input}

    needed: set[str] = set()
    reached: set[str] = set()
    stack = list(part.outputs)
    while stack:
        tensor = stack.pop()
        if tensor in reached or tensor in part.inputs or not tensor:
            continue
        reached.add(tensor)
        if tensor in initializers:
            continue
        if tensor in given or tensor not in producers:
            raise OmniError(
                "invalid_weights", f"the voice model's {name} part depends on {tensor!r}, not on its inputs"
            )
        needed.add(producers[tensor].output[0])
        stack.extend(producers[tensor].input)

    renamed = {tensor: port.name for tensor, port in {**part.inputs, **part.outputs}.items()}
    nodes = []
    for source in model.graph.node:
        if not source.output or source.output[0] not in needed:
            continue
        node = onnx.NodeProto()
        node.CopyFrom(source)
        node.input[:] = [renamed.get(tensor, tensor) for tensor in source.input]
        node.output[:] = [renamed.get(tensor, tensor) for tensor in source.output]
        nodes.append(node)
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(port.name, port.dtype, port.shape) for port in part.inputs.values()],
        [helper.make_tensor_value_info(port.name, port.dtype, port.shape) for port in part.outputs.values()],
        [initializers[tensor] for tensor in initializers if tensor in reached],
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
