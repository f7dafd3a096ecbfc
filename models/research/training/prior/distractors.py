"""Columns that mean nothing, beside those that a task was made of."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.inputs import observe, sample_latent
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.tasks import RawTasks

INDEXED = 0.15  # share of them that number the rows


def running_index(rng: Randomness, b: int, rows: int) -> Tensor:
    """[b, rows]: the numbers of rows, as tables are exported with. The rows to predict are among the
    others, or come after them."""
    among = rng.permutation(b, rows)
    after = torch.arange(rows, device=rng.device).expand(b, rows)
    return torch.where(rng.chance(0.5, b, 1), among, after) + rng.integer(0, 20_000, b, 1).float()


def copies(rng: Randomness, tasks: RawTasks, count: int) -> tuple[Tensor, Tensor]:
    """[b, R, count] columns of the tasks, exact or with noise, and whether they are categorical."""
    b, rows, f = tasks.x.shape
    source = rng.integer(0, f, b, count)
    x = tasks.x.gather(2, source[:, None, :].expand(b, rows, count))
    exact = rng.chance(0.3, b, count)
    size = x.std(dim=1, keepdim=True) * rng.log_uniform(0.02, 2.0, b, 1, count)
    noisy = x + size * rng.normal(b, rows, count)
    return torch.where(exact[:, None, :], x, noisy), tasks.categorical.gather(1, source) & exact


def add_distractors(rng: Randomness, tasks: RawTasks, features: int) -> RawTasks:
    """Tasks of fewer columns -> the same of `features` columns in random order. A true density
    stays true: nothing of y is in a new column that was not in the old ones."""
    b, rows, f = tasks.x.shape
    count = features - f
    x, _, categorical = observe(rng, sample_latent(rng, b, rows, count), discrete=0.3)
    if rng.host.random() < 0.4:
        copied, of_category = copies(rng, tasks, count)
        chosen = rng.chance(0.5, b, count) & rng.chance(0.7, b, 1)
        x = torch.where(chosen[:, None, :], copied, x)
        categorical = torch.where(chosen, of_category, categorical)
    if rng.host.random() < INDEXED:
        x[..., 0], categorical[:, 0] = running_index(rng, b, rows), False
    columns = rng.permutation(b, features)
    x = torch.cat([tasks.x, x], dim=2).gather(2, columns[:, None, :].expand(b, rows, features))
    categorical = torch.cat([tasks.categorical, categorical], dim=1).gather(1, columns)
    return tasks._replace(x=x, categorical=categorical)
