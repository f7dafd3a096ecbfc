"""From a signal to a target: noise, and what people do to a measured number."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.randomness import Randomness
from models.research.training.prior.tasks import standardise


def add_noise(rng: Randomness, signal: Tensor, x: Tensor, loudest: float) -> Tensor:
    """Noise of up to `loudest` times the size of the signal [b, R]; x [b, R, F] are effects of the
    features, which may decide how large the noise is."""
    b, rows = signal.shape
    signal = standardise(signal)
    scale = rng.log_uniform(0.03, loudest, b, 1)
    scale = torch.where(rng.chance(0.2, b, 1), rng.log_uniform(1e-3, 0.05, b, 1), scale)

    shape = rng.choice([0.62, 0.2, 0.09, 0.09], b, 1)  # normal, heavy, skewed, Laplace
    e = rng.normal(b, rows)
    heavy = rng.student(rng.log_uniform(1.5, 12.0, b, 1), b, rows).clamp(-30, 30)
    exponential = -torch.log(rng.uniform(1e-7, 1.0, b, rows))
    two_sided = exponential * torch.sign(rng.uniform(-1.0, 1.0, b, rows)) * 0.7
    e = torch.where(shape == 1, heavy, e)
    e = torch.where(shape == 2, exponential - 1.0, e)
    e = torch.where(shape == 3, two_sided, e)

    dependence = rng.choice([0.66, 0.18, 0.16], b, 1)  # none, on features, on the signal
    weights = rng.normal(b, x.shape[-1], 1) * rng.chance(0.4, b, x.shape[-1], 1)
    driver = standardise((x @ weights).squeeze(-1))
    by_feature = torch.exp(rng.uniform(0.3, 1.2, b, 1) * driver.clamp(-3, 3))
    by_signal = 0.1 + (signal + rng.uniform(-1.0, 1.5, b, 1)).abs()
    size = torch.where(dependence == 1, by_feature, 1.0)
    size = torch.where(dependence == 2, by_signal, size)
    return signal + scale * size * e


def transform_target(rng: Randomness, y: Tensor, most: float) -> Tensor:
    """Skews, clips, bounds, rounds or counts the target of some tasks; `most` is the largest share
    of them."""
    b, _ = y.shape
    y = standardise(y)
    kind = rng.choice([0.36, 0.17, 0.09, 0.07, 0.12, 0.05, 0.05, 0.06, 0.03], b, 1)
    kind = torch.where(rng.chance(most, b, 1), kind, 0)
    strength = rng.uniform(0.3, 1.2, b, 1)
    skewed = torch.exp((strength * y).clamp(-8, 5))
    tails = torch.sinh((strength * y).clamp(-5, 5))
    low = rng.uniform(-1.5, 0.3, b, 1)
    clipped = torch.maximum(y, low)
    step = rng.log_uniform(0.02, 1.0, b, 1)
    out = torch.where(kind == 1, skewed, y)
    out = torch.where(kind == 2, tails, out)
    out = torch.where(kind == 3, clipped, out)
    out = torch.where(kind == 4, torch.round(y / step) * step, out)
    counts = torch.floor(torch.exp((strength * y).clamp(-8, 4)) * rng.log_uniform(0.5, 8, b, 1))
    out = torch.where(kind == 5, counts, out)
    rates = torch.exp((strength * y).clamp(-8, 4)) * rng.log_uniform(0.5, 8, b, 1)
    out = torch.where(kind == 6, torch.poisson(rates, generator=rng.generator), out)
    middle = rng.uniform(-1.5, 1.5, b, 1)
    out = torch.where(kind == 7, torch.sigmoid(2.0 * strength * y + middle), out)
    both_ends = torch.minimum(clipped, low + rng.uniform(1.0, 3.0, b, 1))
    return torch.where(kind == 8, both_ends, out)
