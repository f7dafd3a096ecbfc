"""Panels: several series in one table, which share their dates and, in part, their seasons."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.calendar import (
    calendar_columns,
    calendar_series,
    calendar_times,
    draw_cycles,
)
from models.research.training.prior.grouped import unit_column
from models.research.training.prior.ordered import other_columns, row_order
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.tasks import BatchShape, standardise

MOST_SERIES = 24


def panel_values(rng: Randomness, t: Tensor, cycles: tuple, series: int) -> Tensor:
    """[b, dates, series] over dates t [b, dates]: what all share, in a size of their own each, what
    is of each alone, and levels."""
    b, dates = t.shape
    nothing = t.new_zeros(b, dates, 0)
    common = standardise(calendar_series(rng, t, cycles, nothing))
    each = t[:, None].expand(b, series, dates).reshape(b * series, dates)
    own = calendar_series(rng, each, cycles, nothing.new_zeros(b * series, dates, 0))
    own = standardise(own).view(b, series, dates)
    size = torch.exp(rng.uniform(0.0, 0.7, b, 1, 1) * rng.normal(b, series, 1))
    level = rng.log_uniform(0.1, 4.0, b, 1, 1) * rng.normal(b, series, 1)
    y = size * common[:, None] + rng.log_uniform(0.05, 1.5, b, 1, 1) * own
    # Levels add up, or large series move more.
    grown = torch.exp((0.4 * level + 0.3 * standardise(y, dim=2)).clamp(-6, 6))
    y = torch.where(rng.chance(0.3, b, 1, 1), grown, level + y)
    return y.transpose(1, 2)


def panel_tasks(
    rng: Randomness, b: int, shape: BatchShape
) -> tuple[Tensor, Tensor, Tensor]:
    """x [b, R, F], categorical [b, F], y [b, R]. With one column only the dates are shown."""
    host, rows, features = rng.host, shape.rows, shape.features
    most = max(2, min(MOST_SERIES, shape.context // 4))
    series = min(most, int(2 * (most / 2 + 0.5) ** host.random()))
    dates = -(-rows // series)
    cycles, workdays = draw_cycles(rng)
    t = calendar_times(rng, b, dates, workdays)
    y = panel_values(rng, t, cycles, series).flatten(1)[:, :rows]

    # Rows come date by date; which series is first does not matter.
    place = torch.arange(rows, device=rng.device)
    at = t[:, place // series]
    count = torch.full((b, 1), series, device=rng.device)
    unit, of_category = unit_column(rng, (place % series).expand(b, rows), count)
    x, categorical = calendar_columns(rng, at, cycles, max(0, features - 2))
    if features > 1:
        x = torch.cat([x, unit[..., None]], dim=-1)
        categorical = torch.cat([categorical, of_category[:, None]], dim=1)
    if (rest := features - x.shape[-1]) > 0:
        whole = rng.log_uniform(3.0, 60.0, b, 1).round()
        loose, drivers, kinds = other_columns(rng, at, whole, rest)
        x, categorical = torch.cat([x, loose], dim=-1), torch.cat([categorical, kinds], dim=1)
        weights = rng.normal(b, 1, rest) * rng.chance(0.3, b, 1, rest) * rng.chance(0.5, b, 1, 1)
        y = standardise(y) + 0.5 * (drivers * weights).sum(dim=-1)
    order = row_order(rng, b, shape)
    x, y = x.gather(1, order[..., None].expand_as(x)), y.gather(1, order)
    columns = rng.permutation(b, features)
    x = x.gather(2, columns[:, None, :].expand_as(x))
    return x, categorical.gather(1, columns), y
