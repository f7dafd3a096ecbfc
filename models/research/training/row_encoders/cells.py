"""The cells of some rows, as every row encoder reads them, and their elementwise features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SOFT_LIMIT = 3.0  # beyond it a value grows as its logarithm, so that heavy tails stay bounded
# Of the sines and cosines that give fine differences of a value room; wavelengths 6.3 to 0.1.
FREQUENCIES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
VALUE_FEATURES = 1 + 2 * len(FREQUENCIES)


class Cells(NamedTuple):
    value: Tensor  # [B, R, F] float32, z-scored over the context; 0 where missing
    missing: Tensor  # [B, R, F] bool
    categorical: Tensor  # [B, F] bool

    def rows(self, begin: int, end: int) -> Cells:
        return Cells(self.value[:, begin:end], self.missing[:, begin:end], self.categorical)


def soft_clip(value: Tensor) -> Tensor:
    """The value up to SOFT_LIMIT in size, its logarithm beyond; continuous with its slope."""
    size = value.abs()
    beyond = SOFT_LIMIT + torch.log1p((size - SOFT_LIMIT).clamp(min=0))
    return torch.where(size > SOFT_LIMIT, torch.sign(value) * beyond, value)


def value_features(value: Tensor, frequencies: Tensor) -> Tensor:
    """[...] -> [..., VALUE_FEATURES]: the clipped value c, sin(w c) for each frequency w, cos(w c);
    frequencies are FREQUENCIES. In float32, whatever autocast says: bf16 would merge neighbours."""
    clipped = soft_clip(value)
    angles = clipped[..., None] * frequencies
    return torch.cat([clipped[..., None], torch.sin(angles), torch.cos(angles)], dim=-1)


def value_feature_scales() -> Tensor:
    """[VALUE_FEATURES]: how large the initial weights of each feature are; coarse ones lead."""
    fine = torch.tensor(FREQUENCIES) ** -0.7
    return torch.cat([torch.ones(1), fine, fine])
