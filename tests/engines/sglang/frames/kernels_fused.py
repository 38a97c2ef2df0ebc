"""The frame head of a GPU writes the frames of the one of plain torch."""

from __future__ import annotations

import pytest
import torch

from tests.support.triton import DEVICE, INTERPRETED
from voice_omni.engines.sglang.frames.fused import FusedHead
from voice_omni.engines.sglang.frames.head import Parts, TorchHead
from voice_omni.engines.sglang.frames.predictor import CodePredictor, Shape
from voice_omni.engines.sglang.frames.slots import Slots

SHAPE = Shape(width=24, inner=40, layers=2, heads=4, kv_heads=2, head=8, books=5, codes=13, epsilon=1e-6, theta=1e6)
VOCABULARY = 15
SLOTS = 6
exact = pytest.mark.skipif(not INTERPRETED, reason="a GPU rounds products, and a draw may fall on its other side")
graphs = pytest.mark.skipif(INTERPRETED, reason="CUDA graphs need a GPU")


def parts(dtype: torch.dtype) -> Parts:
    """On the device, with rows of every kind in the slots."""
    torch.manual_seed(0)
    predictor = CodePredictor(SHAPE)
    for weight in predictor.parameters():
        if weight.dim() == 1:
            weight.data.normal_(1, 0.1)
        else:
            weight.data.normal_(0, weight.shape[-1] ** -0.5)
    predictor.tables.data.normal_()
    predictor.heads.data.mul_(4)
    for weight in predictor.parameters():
        weight.data = weight.data.to(DEVICE, dtype)
    predictor.rotation = predictor.rotation.to(DEVICE)
    with torch.device(DEVICE):
        slots = Slots(SLOTS, SHAPE.width, VOCABULARY, SHAPE.books)
        slots.seed.copy_(torch.arange(SLOTS) * 3 - 5)
        slots.step.copy_(torch.arange(SLOTS))
        slots.temperature.copy_(torch.tensor([0.0, 0.9, 0.3, 0.0, 1.5, 0.9]))
        slots.top_k.copy_(torch.tensor([0, 5, 50, 3, 0, 1]))
        slots.top_p.copy_(torch.tensor([1.0, 0.7, 0.9, 1.0, 0.4, 1.0]))
    slots.penalty.fill_(1.2)
    slots.said[:, ::3] = True
    suppressed = torch.zeros(VOCABULARY, device=DEVICE)
    suppressed[-5:] = -torch.inf
    table = torch.randn(VOCABULARY, SHAPE.width).to(DEVICE, dtype)
    return Parts(slots, predictor, table, suppressed, top_k=10, top_p=0.8)


def inputs(rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(rows, SHAPE.width, generator=generator)
    return hidden.to(DEVICE, dtype), (torch.randn(rows, VOCABULARY, generator=generator) * 3).to(DEVICE)


@exact
def test_frames_are_those_of_torch_whatever_their_neighbours() -> None:
    """In a batch that two rows only fill up, which tensor cores multiply, of so few that only the first step is one of
    many, and of a row alone."""
    given, slots = parts(torch.float32), torch.tensor([5, 0, 4, 0, 1])
    hidden, logits = inputs(len(slots), torch.float32)
    before = {name: value.clone() for name, value in vars(given.slots).items()}
    expected, summed = TorchHead(given).write(slots, hidden, logits)
    for part in (slice(None), slice(0, 3), slice(2, 3)):
        frames, rows = FusedHead(given).write(slots[part], hidden[part], logits[part])
        assert torch.equal(frames, expected[part])
        torch.testing.assert_close(rows, summed[part], rtol=1e-5, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in vars(given.slots).items()), "it writes no slot"


@graphs
def test_a_graph_writes_the_frames_of_its_kernels() -> None:
    """Also of rows that come after it has been captured."""
    given = parts(torch.bfloat16)
    head = FusedHead(given)
    slots = torch.tensor([5, 0, 3, 0, 4, 1], device=DEVICE)
    hidden, logits = inputs(len(slots), torch.bfloat16)
    expected = head.write(slots, hidden, logits)
    place = torch.zeros_like(hidden)
    head.write(slots, place, logits)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        written = head.write(slots, place, logits)
    place.copy_(hidden)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(written[0], expected[0])
    assert torch.equal(written[1], expected[1])
