"""z-scoring over the context, as the server does it (see engine/data/feature_transform.h)."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.row_encoders.cells import Cells


def masked_statistics(x: Tensor, valid: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (1/n) over what is valid; 0 and 1 for nothing. Where all is
    equal, its magnitude stands for the deviation, or 1 for zeros. Keeps the dimension."""
    count = valid.sum(dim=dim, keepdim=True)
    divisor = count.clamp(min=1)
    filled = torch.where(valid, x, 0)
    mean = filled.sum(dim=dim, keepdim=True) / divisor
    centred = torch.where(valid, x - mean, 0)
    std = (centred.square().sum(dim=dim, keepdim=True) / divisor).sqrt()
    infinity = float("inf")
    low = torch.where(valid, x, infinity).amin(dim=dim, keepdim=True)
    high = torch.where(valid, x, -infinity).amax(dim=dim, keepdim=True)
    equal = (high <= low) | (std == 0)
    mean = torch.where(equal & (count > 0), low, mean)
    magnitude = torch.where(mean == 0, 1.0, mean.abs())
    return mean, torch.where(equal, magnitude, std)


def dictionary_places(x: Tensor, categorical: Tensor, context: int, most: int) -> Tensor:
    """Replaces the codes of categorical columns by their places in the sorted dictionary of those
    that occur in the context; a code that does not occur becomes NaN. Codes are in [0, most)."""
    b, rows, f = x.shape
    columns = x.transpose(1, 2)  # [b, f, R]
    code = torch.nan_to_num(columns, nan=0.0).clamp(0, most - 1).long()
    known = ~torch.isnan(columns)
    occurs = torch.zeros(b, f, most, device=x.device)
    occurs.scatter_add_(2, code[:, :, :context], known[:, :, :context].float())
    occurs = (occurs > 0).long()
    place = occurs.cumsum(dim=-1) - 1
    found = known & (occurs.gather(2, code) > 0)
    places = torch.where(found, place.gather(2, code).to(x.dtype), float("nan")).transpose(1, 2)
    return torch.where(categorical[:, None, :], places, x)


def scale_cells(x: Tensor, categorical: Tensor, context: int) -> Cells:
    """x [b, R, f] with the context's rows first; NaN is missing."""
    missing = torch.isnan(x)
    mean, std = masked_statistics(x[:, :context], ~missing[:, :context], dim=1)
    value = torch.where(missing, 0.0, (x - mean) / std)
    # A column that is all but constant in the context may put other rows anywhere.
    return Cells(value.clamp(-1e6, 1e6).float(), missing, categorical)


def scale_target(y: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """y [b, R] z-scored over the context, float32, and the standard deviation used, [b, 1]."""
    known = torch.ones_like(y[:, :context], dtype=torch.bool)
    mean, std = masked_statistics(y[:, :context], known, dim=1)
    return ((y - mean) / std).float(), std
