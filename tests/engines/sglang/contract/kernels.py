"""The kernels of the frame head, run by Triton's interpreter, beside plain torch.

A program of its own, because Triton decides when it is imported whether to compile or to interpret.
"""

from __future__ import annotations

import torch

from voice_omni.engines.sglang.frames.fused import FusedHead
from voice_omni.engines.sglang.frames.head import Parts, TorchHead
from voice_omni.engines.sglang.frames.predictor import CodePredictor, Shape
from voice_omni.engines.sglang.frames.slots import Slots

SHAPE = Shape(width=24, inner=40, layers=2, heads=4, kv_heads=2, head=16, books=4, codes=50, epsilon=1e-6, theta=1e6)
VOCABULARY = 70


def parts() -> Parts:
    predictor = CodePredictor(SHAPE)
    for weight in predictor.parameters():
        if weight.dim() == 1:
            weight.data.normal_(1, 0.1)
        else:
            weight.data.normal_(0, weight.shape[-1] ** -0.5)
    predictor.tables.data.normal_()
    predictor.heads.data.mul_(4)
    slots = Slots(6, SHAPE.width, VOCABULARY, SHAPE.books)
    slots.seed.copy_(torch.arange(6) * 3 - 5)
    slots.step.copy_(torch.arange(6))
    slots.temperature.copy_(torch.tensor([0.0, 0.9, 0.3, 0.0, 1.5, 0.9]))
    slots.top_k.copy_(torch.tensor([0, 5, 50, 3, 0, 1]))
    slots.top_p.copy_(torch.tensor([1.0, 0.7, 0.9, 1.0, 0.4, 1.0]))
    slots.penalty.fill_(1.2)
    slots.said[:, ::3] = True
    suppressed = torch.zeros(VOCABULARY)
    suppressed[-20:] = -torch.inf
    return Parts(slots, predictor, torch.randn(VOCABULARY, SHAPE.width), suppressed, top_k=10, top_p=0.8)


def main() -> None:
    torch.manual_seed(0)
    given = parts()
    hidden, logits = torch.randn(6, SHAPE.width), torch.randn(6, VOCABULARY) * 3
    for at in (torch.tensor([2]), torch.arange(6)):
        expected = TorchHead(given).write(at, hidden[at], logits[at])
        frames, rows = FusedHead(given).write(at, hidden[at], logits[at])
        assert torch.equal(frames, expected[0]), (frames, expected[0])
        assert torch.allclose(rows, expected[1], atol=1e-5)


if __name__ == "__main__":
    main()
