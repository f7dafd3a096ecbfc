"""Gradient-boosted trees with a fitted Gaussian error.

The number and depth of trees are those of the best five-fold cross-validated error. The error's
variance is constant, or given by a second booster on the logarithm of the squared cross-validated
residuals: whichever has the better log-density there.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from models.research.evaluate.baselines.design_matrix import design_matrices
from models.research.evaluate.mixture import Mixture
from models.research.evaluate.split import Split

FOLDS = 5
MANY_ROWS = 1000  # from here on with binned columns, which is much faster
DEPTHS = (1, 3)
TREES = 150
LEARNING_RATE = 0.1
FLOOR = 0.1  # of a residual, in standard deviations of the residuals: none is taken for exact
WIDEST = np.log(4.0)  # a row's standard deviation is within this factor of the typical one


@dataclasses.dataclass(frozen=True)
class _Size:
    depth: int
    trees: int


def _booster(size: _Size, rows: int, seed: int):
    if rows >= MANY_ROWS:
        return HistGradientBoostingRegressor(
            learning_rate=LEARNING_RATE,
            max_iter=size.trees,
            max_depth=size.depth,
            early_stopping=False,
            random_state=seed,
        )
    return GradientBoostingRegressor(
        learning_rate=LEARNING_RATE,
        n_estimators=size.trees,
        max_depth=size.depth,
        min_samples_leaf=max(1, min(5, rows // 10)),
        subsample=0.8,
        random_state=seed,
    )


def _cross_validated(x: np.ndarray, y: np.ndarray, depth: int, seed: int) -> np.ndarray:
    """[trees, N] prediction of each row by boosters that did not see it, after each tree."""
    predictions = np.empty((TREES, len(y)))
    for train, held in KFold(FOLDS, shuffle=True, random_state=seed).split(x):
        booster = _booster(_Size(depth, TREES), len(y), seed).fit(x[train], y[train])
        predictions[:, held] = np.stack(list(booster.staged_predict(x[held])))
    return predictions


def _best(
    x: np.ndarray, y: np.ndarray, depths: tuple[int, ...], seed: int
) -> tuple[_Size, np.ndarray]:
    """The size of the least cross-validated squared error, and its predictions [N]."""
    found = []
    for depth in depths:
        predictions = _cross_validated(x, y, depth, seed)
        error = np.mean((predictions - y) ** 2, axis=1)
        trees = int(error.argmin())
        found.append((error[trees], _Size(depth, trees + 1), predictions[trees]))
    _, size, predictions = min(found, key=lambda entry: entry[0])
    return size, predictions


def predict(split: Split) -> Mixture:
    """A Gaussian for each target."""
    context, target = design_matrices(split)
    y, seed = split.context_y, split.seed
    size, held_out = _best(context, y, DEPTHS, seed)
    mean = _booster(size, len(y), seed).fit(context, y).predict(target)

    residual = y - held_out
    constant = np.sqrt(np.mean(residual**2))
    log_square = np.log(residual**2 + (FLOOR * constant) ** 2)
    centre = log_square.mean()

    def shape_of(log_variance: np.ndarray) -> np.ndarray:
        return np.exp(np.clip(0.5 * (log_variance - centre), -WIDEST, WIDEST))

    noise_size, log_variance = _best(context, log_square, (1,), seed)
    shape = shape_of(log_variance)
    # The logarithm's mean is not the mean's logarithm: the scale corrects the difference.
    scale = np.sqrt(np.mean((residual / shape) ** 2))
    gain = (
        Mixture.gaussian(held_out, scale * shape).log_density(y)
        - Mixture.gaussian(held_out, np.full(len(y), constant)).log_density(y)
    ).mean()
    if gain <= 0:
        return Mixture.gaussian(mean, np.full(len(mean), constant))
    noise = _booster(noise_size, len(y), seed).fit(context, log_square)
    return Mixture.gaussian(mean, scale * shape_of(noise.predict(target)))
