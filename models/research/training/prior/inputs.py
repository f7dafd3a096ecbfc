"""Feature columns: how they are distributed, how they are seen, what of them is missing."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.randomness import Randomness
from models.research.training.prior.tasks import standardise

MAX_LEVELS = 32  # of an ordinary column
MAX_CODES = 128  # of any, one that names units of repeated measurements among them
ATOMS = 0.3  # share of the calls of observe in which some columns are mostly one value
SQRT_HALF = 0.5**0.5


def normal_cdf(z: Tensor) -> Tensor:
    return 0.5 * (1.0 + torch.erf(z * SQRT_HALF))


def sample_latent(rng: Randomness, b: int, rows: int, f: int) -> Tensor:
    """[b, rows, f], each column with mean 0 and standard deviation 1: a Gaussian copula with random
    correlation, duplicates among the columns, and margins of five kinds."""
    z = rng.normal(b, rows, f)
    if f > 1 and rng.host.random() < 0.7:
        factors = rng.host.randint(1, 4)
        loading = rng.normal(b, factors, f)
        loading = loading / (loading.norm(dim=1, keepdim=True) + 1e-6)  # a draw may be 0
        share = rng.uniform(0.0, 1.0, b, 1, f) * rng.uniform(0.0, 1.0, b, 1, 1)
        shared = rng.normal(b, rows, factors) @ loading
        z = (1 - share).sqrt() * z + share.sqrt() * shared
        if rng.host.random() < 0.3:
            own = torch.arange(f, device=rng.device).expand(b, f)
            source = torch.where(rng.chance(0.2, b, f), rng.integer(0, f, b, f), own)
            copy = z.gather(2, source[:, None, :].expand_as(z))
            z = copy + 0.05 * rng.normal(b, rows, f) * (source != own)[:, None, :]
    kind = rng.choice([0.5, 0.25, 0.07, 0.08, 0.1], b, 1, f)
    plain = rng.chance(0.4, b, 1, 1)  # tasks with normal columns only
    kind = torch.where(plain, 0, kind)
    x = torch.where(kind == 1, normal_cdf(z), z)
    x = torch.where(kind == 2, torch.sinh(1.3 * z).clamp(-40, 40), x)
    x = torch.where(kind == 3, 0.4 * z + torch.sign(z), x)
    x = torch.where(kind == 4, torch.exp(z.clamp(max=4.0)), x)
    return standardise(x)


def mostly_one_value(rng: Randomness, latent: Tensor) -> tuple[Tensor, Tensor]:
    """Columns [b, R, f] that are 0 in 50 to 98 % of the rows, and their effect, which then is 0, and
    else goes with the size of what is there."""
    b, rows, f = latent.shape
    rank = (latent.argsort(dim=1).argsort(dim=1) + 0.5) / rows
    share = rng.uniform(0.5, 0.98, b, 1, f)
    rest = ((rank - share) / (1 - share)).clamp(1e-4, 1 - 1e-4)
    kind = rng.choice([0.4, 0.35, 0.25], b, 1, f)  # uniform, lognormal, counts
    size = rng.uniform(0.0, 0.5, b, 1, f) + rest
    lognormal = torch.exp(rng.uniform(0.2, 1.2, b, 1, f) * torch.special.ndtri(rest))
    size = torch.where(kind == 1, lognormal, size)
    counts = torch.ceil(rest.square() * rng.log_uniform(2.0, 12.0, b, 1, f))
    size = torch.where(kind == 2, counts, size)
    there = rank > share
    average = (size * there).sum(dim=1, keepdim=True) / there.sum(dim=1, keepdim=True).clamp(min=1)
    effect = (size / (average + 1e-6) * rng.log_uniform(0.3, 4.0, b, 1, f)).clamp(max=8)
    return torch.where(there, size, 0.0), torch.where(there, effect, 0.0)


def observe(rng: Randomness, latent: Tensor, discrete: float) -> tuple[Tensor, Tensor, Tensor]:
    """What the table shows of latent columns [b, R, f].

    Returns observed [b, R, f]; `effect` [b, R, f], a number of about unit scale that stands for
    what was observed, for functions that shall depend on it; and categorical [b, f]. `discrete` is
    the share of tasks in which some columns are whole numbers or categories.
    """
    b, _, f = latent.shape
    if rng.host.random() >= min(1.0, 2 * discrete):
        return latent, latent, torch.zeros(b, f, dtype=torch.bool, device=rng.device)
    kind = rng.choice([0.5, 0.2, 0.3], b, f)  # as it is, ordered levels, categories
    kind = torch.where(rng.chance(0.5, b, 1), 0, kind)
    levels = rng.log_uniform(2.0, 24.0, b, 1, f).floor()
    uneven = torch.exp(0.5 * rng.normal(b, 1, f))
    u = normal_cdf(latent).clamp(1e-6, 1 - 1e-6) ** uneven
    place = (u * levels).floor().clamp(max=MAX_LEVELS - 1)
    index = place.long().transpose(1, 2)  # [b, f, R]

    # Codes: a random permutation of the levels in use.
    keys = rng.uniform(0.0, 1.0, b, f, MAX_LEVELS)
    unused = torch.arange(MAX_LEVELS, device=rng.device) >= levels.transpose(1, 2)
    codes = keys.masked_fill(unused, 2.0).argsort(dim=-1).float()
    code = codes.gather(2, index).transpose(1, 2)
    meaning = rng.normal(b, f, MAX_LEVELS).gather(2, index).transpose(1, 2)

    ordered, categorical = (kind == 1)[:, None, :], (kind == 2)[:, None, :]
    observed = torch.where(ordered, place, torch.where(categorical, code, latent))
    spread = (place + 0.5) / levels * 3.4 - 1.7
    effect = torch.where(ordered, spread, torch.where(categorical, meaning, latent))
    if rng.host.random() < ATOMS:
        chosen = (kind == 0) & rng.chance(0.3, b, f) & rng.chance(0.7, b, 1)
        values, effects = mostly_one_value(rng, latent)
        observed = torch.where(chosen[:, None, :], values, observed)
        effect = torch.where(chosen[:, None, :], effects, effect)
    return observed, effect, kind == 2


def warp(rng: Randomness, x: Tensor, categorical: Tensor) -> Tensor:
    """Monotone changes of some numeric columns, after the target was made: units that no function
    of the prior knows."""
    b, _, f = x.shape
    if rng.host.random() < 0.5:
        return x
    kind = rng.choice([0.7, 0.1, 0.1, 0.1], b, 1, f)
    kind = torch.where(categorical[:, None, :], 0, kind)
    y = torch.where(kind == 1, torch.exp(x.clamp(-6, 4)), x)
    y = torch.where(kind == 2, torch.sign(x) * x.abs().sqrt(), y)
    return torch.where(kind == 3, x * x.abs().clamp(max=8), y)


def hide_cells(rng: Randomness, x: Tensor) -> Tensor:
    """NaN in some cells of some tasks: at random, or the more the larger the value."""
    b, rows, f = x.shape
    if rng.host.random() < 0.6:
        return x
    rate = rng.log_uniform(0.01, 0.6, b, 1, f)
    rate = rate * rng.chance(0.5, b, 1, 1) * rng.chance(0.5, b, 1, f)
    by_value = rng.chance(0.3, b, 1, f)
    tilt = torch.where(by_value, 2.0 * torch.sigmoid(2.0 * standardise(x)), 1.0)
    return x.masked_fill(rng.uniform(0.0, 1.0, b, rows, f) < rate * tilt, float("nan"))
