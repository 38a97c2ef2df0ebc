"""How close two results are."""

from __future__ import annotations

import numpy as np
import torch

TOLERANCE = 1e-4


def distance(actual: torch.Tensor | np.ndarray, expected: torch.Tensor | np.ndarray) -> float:
    """The largest difference, relative to the largest value; infinite for different shapes."""
    actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
    if actual.shape != expected.shape:
        return float("inf")
    return float((actual - expected).abs().max() / expected.abs().max())
