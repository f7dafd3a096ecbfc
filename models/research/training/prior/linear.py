"""Nearly linear functions: Gaussian processes with a linear kernel and, in some, a smooth rest."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.gaussian_process import (
    EXACT_ROWS,
    draw_exact,
    inverse_scales,
    spectral_process,
    squared_distances,
)
from models.research.training.prior.randomness import Randomness


def slopes(rng: Randomness, b: int, f: int) -> Tensor:
    """[b, 1, f]: standard deviation of each column's slope; their squares add up to 1."""
    each = torch.exp(rng.uniform(0.0, 1.5, b, 1, 1) * rng.normal(b, 1, f))
    each = each * torch.where(rng.chance(0.5, b, 1, 1), 1.0, rng.chance(0.5, b, 1, f).float())
    each = each + 1e-3
    return each / each.norm(dim=-1, keepdim=True)


def linear_process(rng: Randomness, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """x [b, R, f] -> y [b, R], noise included, and its true log-density, or None of many rows."""
    b, rows, f = x.shape
    size = slopes(rng, b, f)
    noise = rng.log_uniform(0.02, 1.5, b)
    bent = rng.log_uniform(0.03, 0.5, b, 1) * rng.chance(0.5, b, 1)
    if rows > EXACT_ROWS:
        signal = (x * size * rng.normal(b, 1, f)).sum(dim=-1)
        signal = signal + bent * spectral_process(rng, x)
        return signal + noise[:, None] * rng.normal(b, rows), None
    x = x.double()
    scaled = x * size
    smooth = torch.exp(-0.5 * squared_distances(x * inverse_scales(rng, b, f)))
    # Nobody knows where the line crosses zero: hence 1, the variance of its offset.
    kernel = 1.0 + scaled @ scaled.transpose(1, 2) + bent.double().square()[..., None] * smooth
    return draw_exact(rng, kernel, noise)
