"""Mixtures of Gaussians as the head gives them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Mixture(NamedTuple):
    """M components of each of any number of predictions; float32 in training."""

    log_weight: Tensor  # [..., M], logsumexp 0
    mean: Tensor  # [..., M]
    std: Tensor  # [..., M], > 0

    def log_density(self, y: Tensor) -> Tensor:
        """Of y [...], natural log, [...]."""
        z = (y[..., None] - self.mean) / self.std
        terms = self.log_weight - 0.5 * z * z - torch.log(self.std)
        return torch.logsumexp(terms, dim=-1) - 0.5 * math.log(2 * math.pi)
