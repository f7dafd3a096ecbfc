"""Marginal likelihood of a Gaussian process with one length scale for each column, and its maximum.

scikit-learn computes the same; its gradient builds an [N, N, P] array, which over the thousands of
fits of an evaluation takes hours. Here the columns' gradients come from matrix products. The optimum
is that of the marginal likelihood times weak priors, without which 16 rows of a dozen columns are
overfitted.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    WhiteKernel,
)

# Mean and standard deviation of the logarithms, for standardised columns and targets. That of the
# length grows with the number of columns P (Hvarfner et al. 2024), that of the linear part falls.
_VARIANCE_PRIOR = (0.0, 1.0)
_LENGTH_PRIOR = (np.sqrt(2.0), np.sqrt(3.0))  # plus log(P) / 2
_LINEAR_PRIOR = (-1.0, 1.5)  # less log(P)
_NOISE_PRIOR = (np.log(0.1), 1.5)
_BOUND = 12.0  # of the logarithms, either way


@dataclasses.dataclass(frozen=True)
class Family:
    """variance * shape(distance / length) + linear * (1 + x . x') + noise."""

    shape: Literal["rbf", "matern32"]
    own_lengths: bool  # one length for each column, or one for all

    def lengths(self, columns: int) -> int:
        """How many lengths there are to fit."""
        return columns if self.own_lengths else 1

    def kernel(self, theta: np.ndarray) -> Kernel:
        """The kernel of theta (log variance, log lengths, log linear, log noise variance)."""
        variance, *length, linear, noise = np.exp(theta)
        length = np.array(length) if self.own_lengths else length[0]
        shape = RBF(length) if self.shape == "rbf" else Matern(length, nu=1.5)
        return (
            ConstantKernel(variance) * shape
            + ConstantKernel(linear) * DotProduct(1.0)
            + WhiteKernel(noise)
        )


def _correlation(shape: str, r2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlation k at squared scaled distances r2, and g: dk / d log length_d = g * r2_d."""
    if shape == "rbf":
        k = np.exp(-0.5 * r2)
        return k, k
    s = np.sqrt(3.0 * r2)
    decay = np.exp(-s)
    return (1 + s) * decay, 3.0 * decay


def log_likelihood(
    family: Family, theta: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log marginal likelihood of y [N] at x [N, P] and its gradient by theta."""
    variance, linear, noise = np.exp(theta[[0, -2, -1]])
    z = x / np.exp(theta[1:-2])
    k, g = _correlation(family.shape, cdist(z, z, "sqeuclidean"))
    products = 1 + x @ x.T
    covariance = variance * k + linear * products
    covariance[np.diag_indices_from(covariance)] += noise + 1e-9 * variance
    factor = cholesky(covariance, lower=True)
    alpha = cho_solve((factor, True), y)
    value = -0.5 * y @ alpha - np.log(np.diag(factor)).sum() - 0.5 * len(y) * np.log(2 * np.pi)
    # d value / d K = w / 2; sum_ij a_ij (z_i - z_j)^2 = 2 sum_i z_i^2 sum_j a_ij - 2 z' a z.
    w = np.outer(alpha, alpha) - cho_solve((factor, True), np.eye(len(y)))
    a = w * g
    by_column = 2 * ((z**2).T @ a.sum(axis=1) - (z * (a @ z)).sum(axis=0))
    by_length = by_column if family.own_lengths else by_column.sum(keepdims=True)
    gradient = 0.5 * np.concatenate(
        [
            [variance * (w * k).sum()],
            variance * by_length,
            [linear * (w * products).sum(), noise * np.trace(w)],
        ]
    )
    return float(value), gradient


def _prior(family: Family, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of theta."""
    length = (_LENGTH_PRIOR[0] + 0.5 * np.log(columns), _LENGTH_PRIOR[1])
    linear = (_LINEAR_PRIOR[0] - np.log(columns), _LINEAR_PRIOR[1])
    rows = np.array([_VARIANCE_PRIOR, *[length] * family.lengths(columns), linear, _NOISE_PRIOR])
    return rows[:, 0], rows[:, 1]


def _search(family: Family, x: np.ndarray, y: np.ndarray, start: np.ndarray, steps: int):
    mean, std = _prior(family, x.shape[1])

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            value, gradient = log_likelihood(family, theta, x, y)
        except np.linalg.LinAlgError:  # the search tried a matrix that rounding made indefinite
            return 1e10, np.zeros_like(theta)
        z = (theta - mean) / std
        return 0.5 * z @ z - value, z / std - gradient

    return minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-_BOUND, _BOUND)] * len(mean),
        options={"maxiter": steps},
    )


def fit(family: Family, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The most probable theta; one length from a smooth and a wiggly start, more from that one."""
    columns = x.shape[1]
    if family.own_lengths:
        shared = fit(Family(family.shape, False), x, y)
        start = np.concatenate([shared[:1], np.full(columns, shared[1]), shared[2:]])
        return _search(family, x, y, start, steps=100).x
    smooth, _ = _prior(family, columns)
    wiggly = smooth - np.array([0.0, 1.5, 0.0, 0.0])
    found = [_search(family, x, y, start, steps=100) for start in (smooth, wiggly)]
    return min(found, key=lambda result: result.fun).x


def refit(family: Family, x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The most probable theta of other rows, from a few steps beginning at a fitted one."""
    return _search(family, x, y, theta, steps=20).x
