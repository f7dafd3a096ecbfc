"""A predictive distribution for each target as a mixture of Gaussians, and its proper scores.

Every method answers in this form, so that one piece of code scores them all.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)


def _expected_distance(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """E|Z| of Z ~ N(mean, std^2), elementwise."""
    z = mean / std
    return 2 * std * np.exp(-0.5 * z * z - _LOG_SQRT_2PI) + mean * (2 * ndtr(z) - 1)


@dataclasses.dataclass(frozen=True)
class Mixture:
    """T independent distributions of M components each."""

    weight: np.ndarray  # [T, M], rows sum to one
    mean: np.ndarray  # [T, M]
    std: np.ndarray  # [T, M], positive

    @classmethod
    def gaussian(cls, mean: np.ndarray, std: np.ndarray) -> Mixture:
        """One Gaussian for each target; mean and std are [T]."""
        return cls(np.ones((len(mean), 1)), mean[:, None], std[:, None])

    def point(self) -> np.ndarray:
        """[T] the means: the point prediction that squared error asks for."""
        return (self.weight * self.mean).sum(axis=1)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """[T] log-density at y [T]."""
        z = (y[:, None] - self.mean) / self.std
        return logsumexp(-0.5 * z * z - np.log(self.std) - _LOG_SQRT_2PI, b=self.weight, axis=1)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """[T] probability of a value of at most y [T]."""
        return (self.weight * np.exp(log_ndtr((y[:, None] - self.mean) / self.std))).sum(axis=1)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """[T] continuous ranked probability score at y [T], in closed form (Grimit et al. 2006)."""
        to_y = (self.weight * _expected_distance(y[:, None] - self.mean, self.std)).sum(axis=1)
        between = _expected_distance(
            self.mean[:, :, None] - self.mean[:, None, :],
            np.hypot(self.std[:, :, None], self.std[:, None, :]),
        )  # [T, M, M]
        spread = np.einsum("ti,tj,tij->t", self.weight, self.weight, between)
        return to_y - 0.5 * spread

    def covers(self, y: np.ndarray, level: float) -> np.ndarray:
        """[T] bool: y [T] lies in the central interval of that probability."""
        return np.abs(self.cdf(y) - 0.5) <= 0.5 * level
