"""Linear functions, sums of bent features, and products of pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.randomness import Randomness


def additive_function(rng: Randomness, x: Tensor) -> Tensor:
    """x [b, R, F] -> signal [b, R]."""
    b, _, f = x.shape
    density = rng.log_uniform(min(1.0, 1.0 / f), 1.0, b, 1, 1)
    weights = rng.normal(b, 1, f) * (rng.uniform(0.0, 1.0, b, 1, f) < density)
    weights = weights + rng.normal(b, 1, 1) * (rng.permutation(b, 1, f) == 0)
    linear = rng.chance(0.4, b, 1, 1)
    kind = rng.choice([0.4, 0.12, 0.12, 0.12, 0.12, 0.12], b, 1, f)
    kind = torch.where(linear, 0, kind)
    shift = rng.normal(b, 1, f)
    bent = torch.where(kind == 1, (x - shift).clamp(-4, 4).square() * 0.5, x)
    bent = torch.where(kind == 2, torch.relu(x - shift), bent)
    bent = torch.where(kind == 3, (x - shift).abs(), bent)
    bent = torch.where(kind == 4, torch.tanh(3.0 * (x - shift)), bent)
    bent = torch.where(kind == 5, torch.sin(rng.uniform(0.8, 4.0, b, 1, f) * x + shift), bent)
    signal = (bent * weights).sum(dim=-1)
    if f > 1 and rng.host.random() < 0.5:
        pairs = rng.host.randint(1, 4)
        first, second = (rng.integer(0, f, b, 1, pairs).expand(-1, x.shape[1], -1) for _ in "ab")
        strength = rng.normal(b, 1, pairs) * rng.chance(0.5, b, 1, 1)
        signal = signal + (x.gather(2, first) * x.gather(2, second) * strength).sum(dim=-1)
    return signal
