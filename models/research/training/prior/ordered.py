"""Ordered tasks: time series to continue, now and then to fill in.

The first rows are the context, the rest follow in time order: some as buffer, some as independent
targets. A time column is always there; others are the season, series that drive the target, and
noise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.research.training.prior.gaussian_process import (
    EXACT_ROWS,
    KINDS,
    correlation,
    draw_exact,
    observation_noise,
    spectral_process,
)
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.tasks import BatchShape, standardise

INTERPOLATION = 0.2  # share of tasks that fill in


def time_grid(rng: Randomness, b: int, rows: int) -> Tensor:
    """[b, rows] ascending, spacing about 1; even or not."""
    gaps = torch.where(
        rng.chance(0.7, b, 1), 1.0, 0.02 - torch.log(rng.uniform(1e-6, 1.0, b, rows))
    )
    return gaps.cumsum(dim=1)


def row_order(rng: Randomness, b: int, shape: BatchShape) -> Tensor:
    """[b, rows]: which position in time each row takes, in the order context, buffer, independent."""
    rows, n, future = shape.rows, shape.context, shape.buffer + shape.independent
    position = torch.arange(rows, device=rng.device).expand(b, rows)
    shuffled = rng.permutation(b, rows).argsort(dim=-1)
    held_out = torch.where(rng.chance(INTERPOLATION, b, 1), shuffled >= n, position >= n)
    # Among the held-out rows, those that are in the buffer: the first ones, or any.
    draw = torch.where(rng.chance(0.4, b, 1), position / rows, rng.uniform(0.0, 1.0, b, rows))
    rank = draw.masked_fill(~held_out, 2.0).argsort(dim=-1).argsort(dim=-1)
    independent = held_out & (rank >= future - shape.independent)
    group = held_out.long() + independent.long()
    return (group * rows + position).argsort(dim=-1)


def exact_series(rng: Randomness, t: Tensor, span: float) -> tuple[Tensor, Tensor]:
    """A Gaussian process over times t [b, R] in any order: y and oracle [b, R]."""
    b = t.shape[0]
    t = t.double()[..., None]
    lag = t - t.transpose(1, 2)
    parts, begin = [], 0
    for kind, count in zip(KINDS, rng.split(b, [1.0] * len(KINDS))):
        if count == 0:
            continue
        length = rng.log_uniform(0.015, 1.5, count, 1, 1) * span
        alpha = rng.log_uniform(0.3, 5.0, count, 1, 1).double()
        parts.append(correlation(kind, (lag[begin : begin + count] / length).square(), alpha))
        begin += count
    kernel = torch.cat(parts)
    if rng.host.random() < 0.5:
        period = rng.log_uniform(0.02, 0.7, b, 1, 1) * span
        length = rng.log_uniform(0.5, 2.5, b, 1, 1)
        wave = torch.exp(-2.0 * (torch.sin(math.pi * lag / period) / length).square())
        drift = torch.exp(-0.5 * (lag / (rng.log_uniform(0.5, 5.0, b, 1, 1) * span)).square())
        share = rng.uniform(0.1, 1.0, b, 1, 1) * rng.chance(0.7, b, 1, 1)
        kernel = (1 - share) * kernel + share * wave * drift
    if rng.host.random() < 0.3:
        centred = (t - t.mean(dim=1, keepdim=True)) / span * rng.log_uniform(0.3, 5.0, b, 1, 1)
        kernel = kernel + centred @ centred.transpose(1, 2)
    return draw_exact(rng, kernel, observation_noise(rng, b))


def damped_oscillation(rng: Randomness, b: int, rows: int) -> Tensor:
    """An autoregressive process of order two, as noise filtered by its impulse response."""
    memory = torch.exp(-1.0 / rng.log_uniform(1.0, 60.0, b, 1))
    angle = 2 * math.pi / rng.log_uniform(2.5, 80.0, b, 1) * rng.chance(0.6, b, 1)
    lag = torch.arange(2 * rows, device=rng.device)
    response = memory**lag * torch.cos(angle * lag)
    noise = rng.normal(b, 2 * rows)
    size = 1 << (4 * rows).bit_length()  # one plan for many lengths
    product = torch.fft.rfft(response, n=size) * torch.fft.rfft(noise, n=size)
    return standardise(torch.fft.irfft(product, n=size)[:, rows : 2 * rows])


def season(rng: Randomness, t: Tensor, period: Tensor) -> Tensor:
    """A periodic wave with three harmonics; t [b, R], period [b, 1]."""
    b = t.shape[0]
    wave = torch.zeros_like(t)
    for harmonic in (1, 2, 3):
        amplitude = rng.normal(b, 1) / harmonic
        wave = wave + amplitude * torch.cos(
            2 * math.pi * harmonic * t / period + rng.uniform(0.0, 6.3, b, 1)
        )
    return wave


def composed_series(rng: Randomness, t: Tensor, period: Tensor, drivers: Tensor) -> Tensor:
    """Sum of random parts over ascending times t [b, R]; drivers [b, R, d] act linearly."""
    b, rows = t.shape
    unit = standardise(t)

    def size(probability: float) -> Tensor:
        return rng.log_uniform(0.15, 3.0, b, 1) * rng.chance(probability, b, 1)

    y = size(0.35) * unit * torch.sign(rng.uniform(-1.0, 1.0, b, 1))
    y = y + size(0.1) * unit.square() * torch.sign(rng.uniform(-1.0, 1.0, b, 1))
    y = y + size(0.45) * season(rng, t, period)
    y = y + size(0.3) * standardise(rng.normal(b, rows).cumsum(dim=1))
    y = y + size(0.08) * standardise(standardise(rng.normal(b, rows)).cumsum(dim=1).cumsum(dim=1))
    y = y + size(0.4) * damped_oscillation(rng, b, rows)
    y = y + size(0.2) * spectral_process(rng, unit[..., None])
    steps = (unit > rng.uniform(-1.7, 1.7, b, 1)) * rng.normal(b, 1)
    y = y + size(0.1) * steps
    if drivers.shape[-1] > 0:
        weights = rng.normal(b, 1, drivers.shape[-1]) * rng.chance(0.4, b, 1, drivers.shape[-1])
        y = y + (drivers * weights).sum(dim=-1)
    y = standardise(y) + 1e-3 * rng.normal(b, rows)
    y = y + rng.log_uniform(0.02, 1.0, b, 1) * rng.chance(0.6, b, 1) * rng.normal(b, rows)
    growth = torch.exp((rng.uniform(0.2, 1.0, b, 1) * y).clamp(-6, 6))
    return torch.where(rng.chance(0.2, b, 1), growth, y)


def other_columns(
    rng: Randomness, t: Tensor, period: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Columns beside time: observed and effect [b, R, count], categorical [b, count]."""
    b, rows = t.shape
    smooth = torch.stack([damped_oscillation(rng, b, rows) for _ in range(min(count, 4))], dim=-1)
    loose = rng.normal(b, rows, count)
    loose[..., : smooth.shape[-1]] = torch.where(
        rng.chance(0.5, b, 1, smooth.shape[-1]), smooth, loose[..., : smooth.shape[-1]]
    )
    categorical = torch.zeros(b, count, dtype=torch.bool, device=rng.device)
    observed = loose.clone()
    # One column may say where in the season a row is.
    has_phase = rng.chance(0.5, b)
    phase = torch.floor(torch.remainder(t, period)).clamp(0, 31)
    observed[..., 0] = torch.where(has_phase[:, None], phase, observed[..., 0])
    categorical[:, 0] = has_phase & rng.chance(0.5, b)
    effect = loose.clone()
    effect[..., 0] = torch.where(has_phase[:, None], 0.0, effect[..., 0])
    return observed, effect, categorical


def ordered_tasks(
    rng: Randomness, b: int, shape: BatchShape
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """x [b, R, F], categorical [b, F], y [b, R], oracle [b, R] or None."""
    t = time_grid(rng, b, shape.rows)
    order = row_order(rng, b, shape)
    period = rng.log_uniform(3.0, 60.0, b, 1)
    whole = torch.where(rng.chance(0.7, b, 1), period.round(), period)
    others = shape.features - 1
    oracle = None
    if others > 0:
        observed, effect, categorical = other_columns(rng, t, whole, others)
    else:
        observed = effect = t.new_zeros(b, shape.rows, 0)
        categorical = torch.zeros(b, 0, dtype=torch.bool, device=rng.device)
    if shape.rows <= EXACT_ROWS and rng.host.random() < 0.45:
        y, oracle = exact_series(rng, t.gather(1, order), span=float(shape.rows))
    else:
        y = composed_series(rng, t, whole, effect).gather(1, order)
    x = torch.cat([observed, t[..., None]], dim=-1)
    x = x.gather(1, order[..., None].expand_as(x))
    categorical = torch.cat([categorical, torch.zeros_like(categorical[:, :1])], dim=1)
    if others == 0:
        categorical = torch.zeros(b, 1, dtype=torch.bool, device=rng.device)
    columns = rng.permutation(b, shape.features)
    x = x.gather(2, columns[:, None, :].expand_as(x))
    return x, categorical.gather(1, columns), y, oracle
