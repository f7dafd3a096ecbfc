"""Gaussian process with a linear part, one length scale for each column, and fitted noise.

RBF and Matern 3/2 shapes compete, each with one length scale for all columns and with one for each.
The best cross-validated log-density wins, and widens its intervals by what cross-validation finds
missing.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from sklearn.model_selection import KFold

from models.research.evaluate import gaussian
from models.research.evaluate.baselines import evidence
from models.research.evaluate.baselines.design_matrix import design_matrices
from models.research.evaluate.mixture import Mixture
from models.research.evaluate.split import Split

FAMILIES = tuple(
    evidence.Family(shape, own_lengths)
    for shape in ("rbf", "matern32")
    for own_lengths in (False, True)
)
FIT_ROWS = 384  # hyperparameters are fitted on at most this many random context rows
CONDITION_ROWS = 2048  # and the process is conditioned on at most this many
FOLDS = 5


@dataclasses.dataclass(frozen=True)
class _Candidate:
    family: evidence.Family
    theta: np.ndarray
    log_density: float  # cross-validated, after widening
    widening: float  # factor of the standard deviations, at least 1


def _conditioned(
    family: evidence.Family, theta: np.ndarray, x: np.ndarray, y: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean [T] and standard deviation [T] of each target."""
    mean, covariance = gaussian.condition(family.kernel(theta), x, y, target)
    return mean, np.sqrt(np.diag(covariance))


def _candidate(family: evidence.Family, x: np.ndarray, y: np.ndarray, seed: int) -> _Candidate:
    theta = evidence.fit(family, x, y)
    mean, std = np.empty(len(y)), np.empty(len(y))
    for train, held in KFold(FOLDS, shuffle=True, random_state=seed).split(x):
        fold_theta = evidence.refit(family, x[train], y[train], theta)
        mean[held], std[held] = _conditioned(family, fold_theta, x[train], y[train], x[held])
    widening = max(1.0, float(np.sqrt(np.mean(((y - mean) / std) ** 2))))
    log_density = Mixture.gaussian(mean, widening * std).log_density(y).mean()
    return _Candidate(family, theta, float(log_density), widening)


def predict(split: Split) -> Mixture:
    """The posterior predictive Gaussian of each target, fitted noise included."""
    context, target = design_matrices(split)
    centre, scale = split.context_y.mean(), split.context_y.std()
    y = (split.context_y - centre) / scale
    order = np.random.default_rng(split.seed).permutation(len(y))
    fit_rows, rows = order[:FIT_ROWS], order[:CONDITION_ROWS]
    candidates = [
        _candidate(family, context[fit_rows], y[fit_rows], split.seed) for family in FAMILIES
    ]
    best = max(candidates, key=lambda candidate: candidate.log_density)
    mean, std = _conditioned(best.family, best.theta, context[rows], y[rows], target)
    return Mixture.gaussian(mean * scale + centre, best.widening * std * scale)
