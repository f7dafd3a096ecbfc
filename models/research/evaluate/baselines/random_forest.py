"""Random forest with a predictive distribution (quantile regression forest, Meinshausen 2006).

A target's distribution is that of the context values that share its leaves, smoothed by a Gaussian.
The leaf size and the width of the smoothing are those of the best out-of-bag log-density. The other
common choice, one Gaussian with the out-of-bag residual variance, competes by the same measure.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from models.research.evaluate.baselines.design_matrix import design_matrices
from models.research.evaluate.mixture import Mixture
from models.research.evaluate.split import Split

TREES = 200
LEAF_SIZES = (1, 5)
FEATURE_SHARE = 0.5  # of the columns tried at each split
WIDTHS = (
    0.03,
    0.06,
    0.12,
    0.25,
    0.5,
)  # of the smoothing, in standard deviations of the context's y
GROUPS = 100  # neighbouring context values form one component beyond this many rows


def _groups(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sorts y [N] into G groups of neighbours: group of each row [N], mean [G], variance [G]."""
    count = min(len(y), GROUPS)
    group = np.empty(len(y), dtype=np.int64)
    group[np.argsort(y, kind="stable")] = np.arange(len(y)) * count // len(y)
    size = np.bincount(group)
    mean = np.bincount(group, y) / size
    return group, mean, np.bincount(group, (y - mean[group]) ** 2) / size


def _leaf_shares(
    forest: RandomForestRegressor, group: np.ndarray, context: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Share of each group in a row's leaves: out of bag [Nctx, G], and of targets [T, G]."""
    groups = group.max() + 1
    out_of_bag = np.zeros((len(context), groups))
    of_target = np.zeros((len(target), groups))
    for tree, chosen in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        leaf, target_leaf = tree.apply(context), tree.apply(target)
        table = np.zeros((tree.tree_.node_count, groups))  # [leaf, G] counts of the tree's own rows
        np.add.at(table, (leaf[chosen], group[chosen]), 1.0)
        table /= np.maximum(table.sum(axis=1, keepdims=True), 1.0)
        left_out = np.setdiff1d(np.arange(len(context)), chosen)
        out_of_bag[left_out] += table[leaf[left_out]]
        of_target += table[target_leaf]
    total = out_of_bag.sum(axis=1, keepdims=True)
    # A row that no tree left out says nothing: it gets the context's own distribution.
    overall = np.bincount(group) / len(group)
    return np.where(total > 0, out_of_bag / np.maximum(total, 1.0), overall), of_target / TREES


def _candidates(
    centre: np.ndarray, variance: np.ndarray, y: np.ndarray, inside: np.ndarray
) -> list[Callable[[np.ndarray], Mixture]]:
    """Ways to turn shares [rows, G] into a mixture; inside: the out-of-bag shares of y's rows."""

    def smoothed(width: float) -> Callable[[np.ndarray], Mixture]:
        std = np.sqrt(variance + (width * y.std()) ** 2)
        return lambda shares: Mixture(
            shares, np.broadcast_to(centre, shares.shape), np.broadcast_to(std, shares.shape)
        )

    def one_gaussian() -> Callable[[np.ndarray], Mixture]:
        residual = np.sqrt(np.mean((y - inside @ centre) ** 2))
        return lambda shares: Mixture.gaussian(shares @ centre, np.full(len(shares), residual))

    return [smoothed(width) for width in WIDTHS] + [one_gaussian()]


def predict(split: Split) -> Mixture:
    """The candidate with the best out-of-bag log-density, applied to the targets."""
    context, target = design_matrices(split)
    y = split.context_y
    group, centre, variance = _groups(y)
    best_score, best = -np.inf, None
    for leaf_size in LEAF_SIZES:
        forest = RandomForestRegressor(
            TREES, min_samples_leaf=leaf_size, max_features=FEATURE_SHARE, random_state=split.seed
        )
        forest.fit(context, y)
        inside, outside = _leaf_shares(forest, group, context, target)
        for make in _candidates(centre, variance, y, inside):
            score = make(inside).log_density(y).mean()
            if score > best_score:
                best_score, best = score, make(outside)
    return best
