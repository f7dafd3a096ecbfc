"""Repeated measurements: a column says of which unit a row is; each unit has effects of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.additive import additive_function
from models.research.training.prior.gaussian_process import spectral_process
from models.research.training.prior.inputs import MAX_CODES, observe, sample_latent, warp
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.targets import add_noise, transform_target
from models.research.training.prior.tasks import BatchShape, standardise
from models.research.training.prior.trees import tree_ensemble

FUNCTIONS = (additive_function, additive_function, spectral_process, tree_ensemble)


def units(rng: Randomness, b: int, rows: int) -> tuple[Tensor, Tensor]:
    """Each row's unit [b, R], and how many there are [b, 1]. In some tasks rows come unit by unit,
    so that the targets are of units that the context has not."""
    count = (rows / rng.log_uniform(1.5, 40.0, b, 1)).floor().clamp(2, MAX_CODES)
    place = rng.uniform(0.0, 1.0, b, rows) ** torch.exp(0.4 * rng.normal(b, 1))
    place = torch.where(rng.chance(0.2, b, 1), place.sort(dim=1).values, place)
    return torch.minimum((place * count).floor(), count - 1).long(), count.long()


def unit_column(rng: Randomness, unit: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """How a table shows the unit: as a category or as a number, in order or not. [b, R] and [b]."""
    b = len(unit)
    unused = torch.arange(MAX_CODES, device=unit.device) >= count
    codes = rng.uniform(0.0, 1.0, b, MAX_CODES).masked_fill(unused, 2.0).argsort(dim=-1)
    shuffled = codes.gather(1, unit)
    return torch.where(rng.chance(0.6, b, 1), shuffled, unit).float(), rng.chance(0.65, b)


def grouped_tasks(
    rng: Randomness, b: int, shape: BatchShape
) -> tuple[Tensor, Tensor, Tensor]:
    """x [b, R, F], categorical [b, F], y [b, R]."""
    rows, others = shape.rows, shape.features - 1
    unit, count = units(rng, b, rows)

    def of_unit(values: Tensor) -> Tensor:  # [b, MAX_CODES] -> [b, R]
        return values.gather(1, unit)

    intercepts = rng.normal(b, MAX_CODES)
    heavy = rng.student(rng.log_uniform(2.0, 8.0, b, 1), b, MAX_CODES).clamp(-12, 12)
    intercepts = torch.where(rng.chance(0.2, b, 1), heavy, intercepts)
    signal = rng.log_uniform(0.2, 3.0, b, 1) * of_unit(intercepts)
    x, is_category = unit_column(rng, unit, count)
    x, categorical, effect = x[..., None], is_category[:, None], signal[..., None]
    if others > 0:
        latent = sample_latent(rng, b, rows, others)
        of_units = rng.normal(b, MAX_CODES, others)
        of_units = of_units.gather(1, unit[..., None].expand(b, rows, others))
        between = rng.chance(0.3, b, 1, others) & rng.chance(0.5, b, 1, 1)
        latent = torch.where(between, of_units, latent)
        observed, effect, kinds = observe(rng, latent, discrete=0.4)
        common = standardise(rng.host.choice(FUNCTIONS)(rng, effect))
        signal = signal + rng.log_uniform(0.1, 3.0, b, 1) * common
        column = rng.integer(0, others, b, 1, 1).expand(b, rows, 1)
        slope = rng.log_uniform(0.1, 1.0, b, 1) * rng.chance(0.5, b, 1)
        slope = slope * of_unit(rng.normal(b, MAX_CODES))
        signal = signal + slope * effect.gather(2, column).squeeze(-1)
        x = torch.cat([x, warp(rng, observed, kinds)], dim=2)
        categorical = torch.cat([categorical, kinds], dim=1)
    y = transform_target(rng, add_noise(rng, signal, effect, 1.0), most=0.3)
    columns = rng.permutation(b, shape.features)
    x = x.gather(2, columns[:, None, :].expand_as(x))
    return x, categorical.gather(1, columns), y
