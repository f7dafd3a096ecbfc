"""Targets that have one value, or a few, in many rows: amounts that are mostly zero, yes or no, small
counts, what stops at a bound, grades.

One function of the features says how likely the frequent value is, another how large the others are;
each may say nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.additive import additive_function
from models.research.training.prior.gaussian_process import spectral_process
from models.research.training.prior.inputs import observe, sample_latent, warp
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.targets import add_noise
from models.research.training.prior.tasks import BatchShape, standardise
from models.research.training.prior.trees import tree_ensemble

FUNCTIONS = (additive_function, additive_function, tree_ensemble, spectral_process)
KIND_WEIGHTS = [0.4, 0.15, 0.22, 0.14, 0.09]  # of spiked_target
# Of the rarer value a context has about so many at least: from none there is nothing to learn.
FEWEST = 1.0
MOST_LEVELS = 7
# What a task counts in the loss: spiked ones have by far the largest gradients, and where they count
# in full, functions with little noise are forgotten.
LIGHTEST, HEAVIEST = 0.5, 2.0


def least_share(context: int, least: float) -> float:
    return min(0.5, max(least, FEWEST / context))


def happens(rng: Randomness, share: Tensor, driver: Tensor) -> Tensor:
    """[b, R] bool: true in that share [b, 1] of rows, more often where the driver is large."""
    odds = torch.log(share / (1 - share)) + driver
    return rng.uniform(0.0, 1.0, *driver.shape) < torch.sigmoid(odds)


def rarity_weight(context_y: Tensor) -> Tensor:
    """[b] what a task counts in the loss, by the share of the context [b, N] that does not have the
    value of the middle. Where one row in fifty is a claim, whether it is said to be one in thirty
    hardly shows in a log-density, but in every sum. A context without any tells nothing of that."""
    middle = context_y.sort(dim=1).values[:, context_y.shape[1] // 2]
    rare = (context_y != middle[:, None]).float().mean(dim=1)
    weight = (0.1 * LIGHTEST / rare.clamp(min=1e-3)).clamp(LIGHTEST, HEAVIEST)
    return torch.where(rare > 0, weight, LIGHTEST)


def gamma(rng: Randomness, shape: Tensor) -> Tensor:
    """Gamma draws of mean 1."""
    return torch._standard_gamma(shape, generator=rng.generator) / shape


def amounts(rng: Randomness, driver: Tensor) -> Tensor:
    """[b, R] what is not zero: mostly positive, with tails up to those of insurance claims."""
    b, rows = driver.shape
    kind = rng.choice([0.45, 0.25, 0.2, 0.1], b, 1)
    y = torch.exp(rng.uniform(0.2, 1.6, b, 1) * rng.normal(b, rows).clamp(max=4.5))
    shape = rng.log_uniform(0.5, 8.0, b, 1).expand(b, rows).contiguous()
    y = torch.where(kind == 1, gamma(rng, shape), y)
    around = 1.0 + rng.log_uniform(0.02, 0.7, b, 1) * rng.normal(b, rows)
    y = torch.where(kind == 2, around, y)
    y = torch.where(kind == 3, rng.uniform(0.0, 1.0, b, rows), y)
    y = y * torch.exp(driver.clamp(-4, 3))
    step = rng.log_uniform(0.03, 0.5, b, 1)
    y = torch.where(rng.chance(0.2, b, 1), torch.ceil(y / step) * step, y)
    both_signs = torch.sign(rng.uniform(-1.0, 1.0, b, rows))
    return torch.where(rng.chance(0.1, b, 1), y * both_signs, y)


def zero_inflated(rng: Randomness, context: int, driver: Tensor, size: Tensor) -> Tensor:
    b = len(driver)
    share = rng.log_uniform(least_share(context, 0.01), 0.8, b, 1)
    # Now and then the frequent value is not at the end of the others, but among them.
    spike = rng.log_uniform(0.3, 3.0, b, 1) * rng.chance(0.1, b, 1)
    return torch.where(happens(rng, share, driver), amounts(rng, size), spike)


def counts(rng: Randomness, context: int, driver: Tensor) -> Tensor:
    """Poisson or negative binomial, some with more zeros than these have."""
    b, rows = driver.shape
    rate = rng.log_uniform(least_share(context, 0.05), 6.0, b, 1)
    rate = rate * torch.exp((0.7 * driver).clamp(-4, 3))
    shape = rng.log_uniform(0.2, 6.0, b, 1).expand(b, rows).contiguous()
    rate = torch.where(rng.chance(0.5, b, 1), rate * gamma(rng, shape), rate)
    y = torch.poisson(rate.clamp(max=500.0), generator=rng.generator)
    kept = rng.uniform(0.0, 1.0, b, rows) < rng.uniform(0.2, 1.0, b, 1)
    return torch.where(rng.chance(0.2, b, 1) & ~kept, 0.0, y)


def stopped(rng: Randomness, y: Tensor) -> Tensor:
    """Clipped below, above or at both ends, anywhere from the tails to past the middle."""
    b = len(y)
    low = rng.uniform(-1.4, 1.2, b, 1)
    both = torch.minimum(torch.maximum(y, low), low + rng.uniform(0.3, 2.5, b, 1))
    kind = rng.choice([0.4, 0.2, 0.4], b, 1)
    clipped = torch.where(kind == 0, torch.maximum(y, low), torch.minimum(y, -low))
    return torch.where(kind == 2, both, clipped)


def graded(rng: Randomness, y: Tensor) -> Tensor:
    """Two to seven levels, about evenly spaced or not."""
    b = len(y)
    levels = rng.integer(2, MOST_LEVELS + 1, b, 1)
    level = torch.floor((y + rng.uniform(1.0, 2.5, b, 1)) / 3.5 * levels).long()
    level = level.clamp(min=0).minimum(levels - 1)
    # Powers of each level once: of the same number they may differ in their last bit.
    values = torch.arange(MOST_LEVELS, device=y.device) ** rng.log_uniform(0.6, 2.0, b, 1)
    return values.gather(1, level)


def spiked_target(rng: Randomness, context: int, effect: Tensor) -> Tensor:
    """[b, R] from the features' effects [b, R, F]."""
    b = len(effect)
    often = standardise(rng.host.choice(FUNCTIONS)(rng, effect))
    large = standardise(rng.host.choice(FUNCTIONS)(rng, effect))
    large = torch.where(rng.chance(0.4, b, 1), often, large)
    noisy = standardise(add_noise(rng, often, effect, 2.0))
    often = often * rng.log_uniform(0.2, 2.5, b, 1) * rng.chance(0.65, b, 1)
    large = large * rng.log_uniform(0.1, 1.5, b, 1) * rng.chance(0.65, b, 1)

    kind = rng.choice(KIND_WEIGHTS, b, 1)
    y = zero_inflated(rng, context, often, large)
    share = rng.log_uniform(least_share(context, 0.01), 0.6, b, 1)
    y = torch.where(kind == 1, happens(rng, share, 1.3 * often).to(y.dtype), y)
    y = torch.where(kind == 2, counts(rng, context, often), y)
    y = torch.where(kind == 3, stopped(rng, noisy), y)
    y = torch.where(kind == 4, graded(rng, noisy), y)
    return torch.where(rng.chance(0.12, b, 1), -y, y)


def spiked_tasks(
    rng: Randomness, b: int, shape: BatchShape
) -> tuple[Tensor, Tensor, Tensor]:
    """x [b, R, F], categorical [b, F], y [b, R]."""
    latent = sample_latent(rng, b, shape.rows, shape.features)
    observed, effect, categorical = observe(rng, latent, discrete=0.4)
    y = spiked_target(rng, shape.context, effect)
    return warp(rng, observed, categorical), categorical, y
