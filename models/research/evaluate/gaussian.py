"""Exact joint distributions of a Gaussian process: sampling, conditioning, densities."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import Kernel

_JITTER = 1e-10  # of the prior's mean variance, for noise-free kernels


def _covariance(kernel: Kernel, x: np.ndarray) -> np.ndarray:
    """[N, N] covariance of the values at x [N, F]; a WhiteKernel in the kernel is their noise."""
    covariance = kernel(x)
    covariance[np.diag_indices_from(covariance)] += _JITTER * np.diag(covariance).mean()
    return covariance


def sample(kernel: Kernel, x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """[N] one draw of the values at x [N, F], noise included."""
    return np.linalg.cholesky(_covariance(kernel, x)) @ random.standard_normal(len(x))


def condition(
    kernel: Kernel, context_x: np.ndarray, context_y: np.ndarray, target_x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean [T] and covariance [T, T] of the targets' values, noise included, given the context."""
    factor = cho_factor(_covariance(kernel, context_x), lower=True)
    cross = kernel(context_x, target_x)  # [Nctx, T], without noise
    mean = cross.T @ cho_solve(factor, context_y)
    return mean, _covariance(kernel, target_x) - cross.T @ cho_solve(factor, cross)


def log_density(mean: np.ndarray, covariance: np.ndarray, y: np.ndarray) -> float:
    """Joint log-density of y [T] under a Gaussian of mean [T] and covariance [T, T]."""
    return float(multivariate_normal(mean, covariance).logpdf(y))
