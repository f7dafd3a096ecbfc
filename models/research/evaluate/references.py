"""Gaussian processes that answer jointly: the exact one of synthetic data, and fitted ones."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import sklearn.base
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Kernel,
    Matern,
    WhiteKernel,
)

from models.research.evaluate import gaussian, scores
from models.research.evaluate.mixture import Mixture
from models.research.evaluate.scores import Scores
from models.research.evaluate.split import Split


def _scores(kernel: Kernel, split: Split, centre: float = 0.0, std: float = 1.0) -> Scores:
    """Scores of the process with that kernel, which describes (y - centre) / std."""
    mean, covariance = gaussian.condition(
        kernel, split.context_x, (split.context_y - centre) / std, split.target_x
    )
    mean, covariance = mean * std + centre, covariance * std**2
    marginal = Mixture.gaussian(mean, np.sqrt(np.diag(covariance)))
    found = scores.marginal(marginal, split)
    size = len(split.target_y)
    found[f"joint_{size}"] = gaussian.log_density(mean, covariance, split.target_y) / size
    found[f"independent_{size}"] = found["log_density"]
    return found


def exact(split: Split) -> Scores:
    """The process that made the data, hyperparameters known: the ceiling."""
    return _scores(split.kernel, split)


def _fit(kernel: Kernel, x: np.ndarray, y: np.ndarray, restarts: int) -> tuple[Kernel, float]:
    """The kernel of the greatest marginal likelihood, and its Bayesian information criterion."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a parameter at its bound is an answer
        fitted = GaussianProcessRegressor(
            kernel, n_restarts_optimizer=restarts, random_state=0
        ).fit(x, y)
    penalty = 0.5 * kernel.n_dims * np.log(len(y))
    return fitted.kernel_, fitted.log_marginal_likelihood_value_ - penalty


def fitted(split: Split) -> Scores:
    """The right family of kernels, each hyperparameter fitted within a factor of ten of the truth.

    What not knowing the hyperparameters costs: a model that does not know them either pays as well.
    """
    bounds = {
        f"{parameter.name}_bounds": (0.1 * value, 10 * value)
        for parameter in split.kernel.hyperparameters
        for value in [split.kernel.get_params()[parameter.name]]
    }
    start = sklearn.base.clone(split.kernel).set_params(**bounds)
    kernel, _ = _fit(start, split.context_x, split.context_y, restarts=0)
    return _scores(kernel, split)


def _series_kernels(period: float) -> list[Kernel]:
    """Level, trend and, for a series with a season, a slowly changing yearly pattern."""
    noise = WhiteKernel(0.1, (1e-5, 1e1))

    def part(shape: Kernel) -> Kernel:
        return ConstantKernel(1.0, (1e-3, 1e3)) * shape

    rough = part(Matern(10.0, (0.5, 1e3), nu=0.5))
    smooth = part(RBF(20.0, (1.0, 1e3)))
    season = part(ExpSineSquared(1.0, period, (0.1, 1e2), "fixed") * RBF(100.0, (10.0, 1e4)))
    kernels = [rough + noise, smooth + noise, rough + smooth + noise]
    return (
        kernels
        if period == 1
        else kernels + [season + rough + noise, season + rough + smooth + noise]
    )


def series_gaussian_process(split: Split) -> Scores:
    """A Gaussian process over time: the best kernel by the Bayesian information criterion."""
    period = float(split.context_x[:, 1].max() + 1) if split.context_x.shape[1] > 1 else 1.0
    time = dataclasses.replace(
        split, context_x=split.context_x[:, :1], target_x=split.target_x[:, :1]
    )
    centre, std = split.context_y.mean(), split.context_y.std()
    fits = [
        _fit(kernel, time.context_x, (time.context_y - centre) / std, restarts=1)
        for kernel in _series_kernels(period)
    ]
    kernel, _ = max(fits, key=lambda fit: fit[1])
    return _scores(kernel, time, centre, std)
