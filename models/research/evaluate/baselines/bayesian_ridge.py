"""Linear regression with Gaussian priors whose scales are fitted by evidence."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold

from models.research.evaluate.baselines.design_matrix import design_matrices
from models.research.evaluate.mixture import Mixture
from models.research.evaluate.split import Split

FOLDS = 5


def _fit(x: np.ndarray, y: np.ndarray) -> BayesianRidge:
    return BayesianRidge(max_iter=1000).fit(x, y)


def _cross_validated_error(x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Root mean square error on rows that the fit did not see."""
    residual = np.empty(len(y))
    for train, held in KFold(FOLDS, shuffle=True, random_state=seed).split(x):
        residual[held] = y[held] - _fit(x[train], y[train]).predict(x[held])
    return float(np.sqrt(np.mean(residual**2)))


def predict(split: Split) -> Mixture:
    """A Gaussian for each target: posterior variance of the weights plus fitted noise.

    With fewer rows than columns the evidence prefers no noise at all, and is far too sure: no
    standard deviation is smaller than the cross-validated error.
    """
    context, target = design_matrices(split)
    error = _cross_validated_error(context, split.context_y, split.seed)
    mean, std = _fit(context, split.context_y).predict(target, return_std=True)
    return Mixture.gaussian(mean, np.maximum(std, error))
