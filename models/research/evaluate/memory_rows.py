"""Chooses rows of a table that are encoded anew, without the others: rows that represent the
table, or rows near the query rows of a call.

Distances are between rows in the model's standardised columns; a missing cell is at the mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

STRATA = 8  # quantiles of y
ROUNDS = 8  # of k-means


def _nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """[..., N, F] and [..., K, F] -> squared distances [..., N, K] less the square of the row."""
    return centres.square().sum(dim=-1)[..., None, :] - 2 * rows @ centres.transpose(-1, -2)


def stratified(
    cells: Tensor, y: Tensor, count: int, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """[M] of the rows cells [N, F] with y [N]: in each quantile of y the rows nearest to the
    centres that k-means finds, the first of the other rows where two centres share one. Also the
    logarithms of their weights [M]: how many rows of the table are nearest to each."""
    size = len(y) // STRATA
    strata = y.argsort()[: size * STRATA].view(STRATA, size)
    rows = cells[strata]  # [STRATA, size, F]
    each = count // STRATA
    first = torch.rand(strata.shape, generator=random, device=y.device).topk(each, dim=1).indices
    wide = first[..., None].expand(-1, -1, cells.shape[1])
    centres = rows.gather(1, wide)
    for _ in range(ROUNDS):
        home = _nearest(rows, centres).argmin(dim=2)
        total = torch.zeros_like(centres).scatter_add_(1, home[..., None].expand_as(rows), rows)
        size_of = torch.zeros_like(centres[..., 0]).scatter_add_(
            1, home, torch.ones_like(home, dtype=rows.dtype)
        )
        mean = total / size_of.clamp(min=1)[..., None]
        centres = torch.where(size_of[..., None] > 0, mean, centres)
    own = rows.square().sum(dim=2)[..., None]
    closest = (_nearest(rows, centres) + own).argmin(dim=1)  # [STRATA, each]
    chosen = fill_up(strata.gather(1, closest).flatten()[None], len(y), count)[0]
    return chosen, members(cells, chosen)


def members(cells: Tensor, chosen: Tensor) -> Tensor:
    """Logarithms of how many rows of cells [N, F] are nearest to each row chosen [M]: [M]."""
    home = _nearest(cells, cells[chosen]).argmin(dim=1)
    return torch.bincount(home, minlength=len(chosen)).clamp(min=1).to(cells.dtype).log()


def fill_up(chosen: Tensor, rows: int, count: int) -> Tensor:
    """Distinct ones of the rows chosen [G, n], n <= M, and as many of the first others as bring
    them to M, [G, M]. Rows are in random order, so the first are a random choice."""
    place = torch.arange(rows, device=chosen.device, dtype=torch.float32).expand(len(chosen), -1)
    place = place.scatter(1, chosen, -1.0)
    return place.topk(count, dim=1, largest=False).indices


def local(cells: Tensor, targets: Tensor, count: int, share: float) -> Tensor:
    """[C, M] rows of cells [N, F] for each block of query rows [C, S, F]: `share` of M / S nearest
    to each query row, the rest at random."""
    each = int(share * count) // targets.shape[1]
    near = _nearest(targets, cells.expand(len(targets), -1, -1))
    near = near.topk(each, dim=2, largest=False).indices  # [C, S, each]
    return fill_up(near.flatten(1), len(cells), count)
