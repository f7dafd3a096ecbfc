"""Series with the columns that a calendar gives: a running index, month, weekday, hour."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.ordered import (
    damped_oscillation,
    other_columns,
    row_order,
    season,
)
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.tasks import BatchShape, standardise

Cycle = tuple[float, float]  # how many steps one value of the column lasts, how many values it has
UNITS: tuple[tuple[Cycle, ...], ...] = (
    ((1, 24), (24, 7), (730.5, 12)),  # hours: hour, weekday, month
    ((1, 7), (1, 30.44), (30.44, 12)),  # days: weekday, day of the month, month
    ((1, 52.18), (4.348, 12)),  # weeks: week of the year, month
    ((1, 12), (3, 4)),  # months: month, quarter
    ((1, 4),),  # quarters
)
DAYS = UNITS[1]
LEVELS = 64
WORKDAYS = 0.35  # share of daily tables that have no weekends


def position(t: Tensor, cycle: Cycle) -> Tensor:
    """Where in the cycle t is, in values of its column, a fraction included."""
    lasts, values = cycle
    return torch.remainder(t / lasts, values)


def cycle_effect(rng: Randomness, t: Tensor, cycle: Cycle) -> Tensor:
    """[b, R]: a smooth wave, or a number for each value of the column."""
    b, values = len(t), cycle[1]
    at = position(t, cycle)
    smooth = season(rng, at, torch.full((b, 1), values, device=t.device))
    of_values = rng.normal(b, LEVELS).gather(1, at.long())
    return standardise(torch.where(rng.chance(0.6, b, 1), smooth, of_values))


def calendar_series(
    rng: Randomness, t: Tensor, cycles: tuple[Cycle, ...], drivers: Tensor
) -> Tensor:
    """[b, R] over ascending times t; drivers [b, R, d] act linearly."""
    b, rows = t.shape
    unit = standardise(t)

    def size(probability: float) -> Tensor:
        sign = torch.sign(rng.uniform(-1.0, 1.0, b, 1))
        return rng.log_uniform(0.2, 3.0, b, 1) * rng.chance(probability, b, 1) * sign

    y = size(0.5) * unit
    y = y + size(0.2) * torch.relu(unit - rng.uniform(-1.5, 1.5, b, 1))
    y = y + size(0.2) * (unit > rng.uniform(-1.7, 1.7, b, 1))
    for cycle in cycles:
        y = y + size(0.75) * cycle_effect(rng, t, cycle)
    y = y + size(0.35) * damped_oscillation(rng, b, rows)
    y = y + size(0.25) * standardise(rng.normal(b, rows).cumsum(dim=1))
    if drivers.shape[-1] > 0:
        weights = rng.normal(b, 1, drivers.shape[-1]) * rng.chance(0.4, b, 1, drivers.shape[-1])
        y = y + (drivers * weights).sum(dim=-1)
    grows = torch.exp(rng.uniform(-0.2, 0.8, b, 1) * rng.chance(0.25, b, 1) * unit)
    y = standardise(y) + rng.log_uniform(0.02, 0.7, b, 1) * grows * rng.normal(b, rows)
    growth = torch.exp((rng.uniform(0.2, 1.0, b, 1) * y).clamp(-6, 6))
    return torch.where(rng.chance(0.25, b, 1), growth, y)


def draw_cycles(rng: Randomness) -> tuple[tuple[Cycle, ...], bool]:
    """The cycles of a table, and whether its days are those from Monday to Friday."""
    host = rng.host
    cycles = host.choice(UNITS)
    if host.random() < 0.2:
        return ((1, host.randint(3, 60)),), False
    return cycles, cycles is DAYS and host.random() < WORKDAYS


def calendar_times(rng: Randomness, b: int, rows: int, workdays: bool) -> Tensor:
    """[b, rows] a running index; now and then steps are left out."""
    missed = torch.floor(-torch.log(rng.uniform(1e-6, 1.0, b, rows))) * rng.chance(0.2, b, 1)
    t = (1.0 + missed).cumsum(dim=1)
    if workdays:  # the numbers of days that people work on: five, then a gap
        return t + 2 * torch.floor(t / 5) + 7 * rng.integer(0, 2900, b, 1)
    return t + rng.integer(0, 20_000, b, 1)


def calendar_columns(
    rng: Randomness, t: Tensor, cycles: tuple[Cycle, ...], room: int
) -> tuple[Tensor, Tensor]:
    """The index and where it is in some of the cycles, at most `room` of them: x [b, R, f] and
    categorical [b, f]."""
    host = rng.host
    most = host.choice((len(cycles), host.randint(0, len(cycles))))
    shown = host.sample(cycles, min(room, most))
    columns = [t, *(torch.floor(position(t, cycle)) for cycle in shown)]
    x = torch.stack(columns, dim=-1)
    categorical = rng.chance(0.5, len(t), x.shape[-1])
    categorical[:, 0] = False
    return x, categorical


def calendar_tasks(
    rng: Randomness, b: int, shape: BatchShape
) -> tuple[Tensor, Tensor, Tensor]:
    """x [b, R, F], categorical [b, F], y [b, R]."""
    cycles, workdays = draw_cycles(rng)
    t = calendar_times(rng, b, shape.rows, workdays)
    x, categorical = calendar_columns(rng, t, cycles, shape.features - 1)
    drivers = x[..., :0]
    if (rest := shape.features - x.shape[-1]) > 0:
        whole = rng.log_uniform(3.0, 60.0, b, 1).round()
        loose, drivers, kinds = other_columns(rng, t, whole, rest)
        x, categorical = torch.cat([x, loose], dim=-1), torch.cat([categorical, kinds], dim=1)
    y = calendar_series(rng, t, cycles, drivers)
    order = row_order(rng, b, shape)
    x, y = x.gather(1, order[..., None].expand_as(x)), y.gather(1, order)
    columns = rng.permutation(b, shape.features)
    x = x.gather(2, columns[:, None, :].expand_as(x))
    return x, categorical.gather(1, columns), y
