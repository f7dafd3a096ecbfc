"""Made-up tables of heavy-tailed columns or targets, whose conditional mean is known.

Columns and target are standard normal numbers, bent so that their margin has a heavy tail; the
target's is that of a smooth function of three columns plus noise.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import t as student

from models.research.evaluate.split import Split

SIZES = (16, 64, 256, 1024)
TARGETS = 256
FEATURES = 4
SIGNAL, NOISE = 0.8, 0.6

Bend = Callable[[np.ndarray], np.ndarray]


def lognormal(sigma: float) -> Bend:
    return lambda u: np.exp(sigma * u)


def student_two(u: np.ndarray) -> np.ndarray:
    """Student's t with two degrees of freedom, which has no variance."""
    return np.sign(u) * student.isf(ndtr(-np.abs(u)), 2)


def pareto(u: np.ndarray) -> np.ndarray:
    """The exponent is 1.5: a mean, but no variance."""
    return ndtr(-u) ** (-1 / 1.5)


def zero_inflated(zeros: float) -> Bend:
    """Lognormal above that share, 0 below."""

    def bend(u: np.ndarray) -> np.ndarray:
        rank = (ndtr(u) - zeros) / (1 - zeros)
        return np.where(rank > 0, np.exp(ndtri(np.clip(rank, 1e-12, 1 - 1e-12))), 0.0)

    return bend


BENDS: dict[str, Bend] = {
    "lognormal 1": lognormal(1.0),
    "lognormal 1.5": lognormal(1.5),
    "lognormal 2": lognormal(2.0),
    "student 2": student_two,
    "pareto 1.5": pareto,
    "80 % zeros": zero_inflated(0.8),
    "97 % zeros": zero_inflated(0.97),
}
WHERE = ("x", "y", "both")
KINDS = tuple(
    f"{where}: {name}"
    for where in WHERE
    for name in BENDS
    if where == "y" or "zeros" not in name
)


def _signal(z: np.ndarray) -> np.ndarray:
    """About standard normal."""
    return (np.sin(2 * z[:, 0]) + 0.7 * z[:, 1] + 0.5 * z[:, 1] * z[:, 2]) / 1.1


def _conditional_mean(bend: Bend, signal: np.ndarray) -> np.ndarray:
    noise = np.linspace(-7, 7, 561)
    weight = np.exp(-0.5 * noise**2)
    bent = bend(SIGNAL * signal[:, None] + NOISE * noise)
    return bent @ (weight / weight.sum())


def split(kind: str, rows: int, draw: int) -> tuple[Split, np.ndarray]:
    """A table of that kind, one of KINDS, and the means [T] of its targets given their features."""
    where, name = kind.split(": ")
    random = np.random.default_rng([zlib.crc32(kind.encode()), rows, draw])
    z = random.standard_normal((rows + TARGETS, FEATURES))
    signal = _signal(z)

    def plain(u: np.ndarray) -> np.ndarray:
        return u

    bend_x, bend_y = (BENDS[name] if where in (part, "both") else plain for part in ("x", "y"))
    x, y = bend_x(z), bend_y(SIGNAL * signal + NOISE * random.standard_normal(len(z)))
    mean = _conditional_mean(bend_y, signal[rows:])
    no_categories = np.zeros(FEATURES, dtype=bool)
    return Split(x[:rows], y[:rows], x[rows:], y[rows:], no_categories, ()), mean
