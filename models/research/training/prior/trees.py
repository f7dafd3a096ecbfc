"""Ensembles of random oblivious trees: piecewise constant functions of a few features each."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.prior.randomness import Randomness

MAX_SPLITS = 48  # of all trees of a task together


def feature_preference(rng: Randomness, b: int, f: int) -> Tensor:
    """[b, f] probabilities: a few features matter much, most little."""
    sharpness = rng.uniform(0.0, 3.0, b, 1)
    return torch.softmax(sharpness * rng.normal(b, f), dim=-1)


def tree_ensemble(rng: Randomness, x: Tensor) -> Tensor:
    """x [b, R, F] -> signal [b, R]."""
    b, rows, f = x.shape
    depth = rng.host.choice((1, 2, 2, 3, 3, 4, 5, 6))
    trees = max(1, rng.host.choice((1, 2, 4, 8, 16, 32)))
    trees = max(1, min(trees, MAX_SPLITS // depth))
    splits = trees * depth
    preference = feature_preference(rng, b, f)
    feature = torch.multinomial(preference, splits, replacement=True, generator=rng.generator)
    at = rng.integer(0, rows, b, splits)
    threshold = x.flatten(1).gather(1, at * f + feature)
    seen = x.gather(2, feature[:, None, :].expand(b, rows, splits))
    bits = (seen > threshold[:, None, :]).view(b, rows, trees, depth)
    powers = 2 ** torch.arange(depth, device=x.device)
    first_leaf = torch.arange(trees, device=x.device) * 2**depth
    leaf = (bits * powers).sum(dim=-1) + first_leaf
    size = rng.log_uniform(0.3, 1.0, b, trees, 1)
    values = (rng.normal(b, trees, 2**depth) * size).flatten(1)
    return values.gather(1, leaf.flatten(1)).view(b, rows, trees).sum(dim=-1)
