"""Scores of one split: of each target by itself, and of blocks of targets together."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from models.research.evaluate.mixture import Mixture
from models.research.evaluate.split import Split

ORDERS = 16  # random target orders over which a joint density is averaged
MAX_BLOCKS = 2  # disjoint blocks of each size and split

Scores = dict[str, float]


def marginal(mixture: Mixture, split: Split) -> Scores:
    """Means over the targets, each by itself; rmse is the root of the mean square."""
    y = split.target_y
    return {
        "log_density": float(mixture.log_density(y).mean()),
        "crps": float(mixture.crps(y).mean()),
        "rmse": float(np.sqrt(np.mean((mixture.point() - y) ** 2))),
        "cover_50": float(mixture.covers(y, 0.5).mean()),
        "cover_90": float(mixture.covers(y, 0.9).mean()),
    }


def blocks(split: Split, size: int) -> list[np.ndarray]:
    """The first disjoint blocks [size] of target positions; none when the targets do not fill one."""
    count = min(len(split.target_y) // size, MAX_BLOCKS)
    return [np.arange(i * size, (i + 1) * size) for i in range(count)]


def orders(split: Split, size: int) -> np.ndarray:
    """[R, size] target orders under which a block is scored."""
    if split.ordered:
        return np.arange(size)[None]
    random = np.random.default_rng([split.seed, size])
    return np.stack([random.permutation(size) for _ in range(ORDERS)])


def of_joint(by_order: np.ndarray, size: int) -> tuple[float, float]:
    """From total log-densities [R], per target: mean over orders; log-mean-exp over orders."""
    mixed = logsumexp(by_order) - np.log(len(by_order))
    return float(by_order.mean()) / size, float(mixed) / size
