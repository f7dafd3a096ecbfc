"""Data drawn from Gaussian processes, whose exact joint density no method can beat on average.

Part "gp": rows with random features, in no order. Part "forecast": a series at times 0, 1, 2, ...,
of which the past is the context and the next values are the targets, in time order.
"""

from __future__ import annotations

import zlib

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Kernel,
    Matern,
    WhiteKernel,
)

from models.research.evaluate import gaussian
from models.research.evaluate.split import Split

TARGETS = 16
GP_SIZES = (4, 16, 64, 256)
FORECAST_SIZES = (8, 16, 32, 64, 128, 256)

_LENGTHS = {1: 1.0, 2: 1.5, 4: 2.5}  # by number of features; these are standard normal
_NOISES = (0.1, 0.3)  # standard deviations; the processes have unit variance


def _gp_processes() -> dict[str, tuple[Kernel, int]]:
    """Kernel and number of features by name, such as "matern32_d2_noise0.1"."""
    found: dict[str, tuple[Kernel, int]] = {}
    for features, length in _LENGTHS.items():
        for noise in _NOISES:
            for name, shape in (("rbf", RBF(length)), ("matern32", Matern(length, nu=1.5))):
                kernel = ConstantKernel(1.0) * shape + WhiteKernel(noise**2)
                found[f"{name}_d{features}_noise{noise}"] = (kernel, features)
    return found


GP_PROCESSES = _gp_processes()

# Length scales are in steps of time.
FORECAST_PROCESSES: dict[str, Kernel] = {
    "smooth": ConstantKernel(1.0) * RBF(8.0) + WhiteKernel(0.05**2),
    "rough": ConstantKernel(1.0) * Matern(10.0, nu=1.5) + WhiteKernel(0.1**2),
    "random_walk": ConstantKernel(1.0) * Matern(40.0, nu=0.5) + WhiteKernel(0.05**2),
    "trend": (
        ConstantKernel(0.03**2) * DotProduct(1.0)
        + ConstantKernel(0.5) * Matern(10.0, nu=0.5)
        + WhiteKernel(0.1**2)
    ),
    "season": (
        ConstantKernel(1.0) * ExpSineSquared(1.0, 12.0)
        + ConstantKernel(0.3) * Matern(20.0, nu=1.5)
        + WhiteKernel(0.1**2)
    ),
}


def _random(name: str, size: str, draw: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), int(size), draw])


def gp_split(name: str, size: str, draw: int) -> Split:
    """A fresh draw of a process at random features: a context of `size` rows and 16 targets."""
    kernel, features = GP_PROCESSES[name]
    random, count = _random(name, size, draw), int(size)
    x = random.standard_normal((count + TARGETS, features))
    y = gaussian.sample(kernel, x, random)
    return Split(
        x[:count],
        y[:count],
        x[count:],
        y[count:],
        np.zeros(features, dtype=bool),
        (TARGETS,),
        seed=draw,
        kernel=kernel,
    )


def forecast_split(name: str, size: str, draw: int) -> Split:
    """A fresh draw of a series: `size` past values and the next 16."""
    kernel, count = FORECAST_PROCESSES[name], int(size)
    x = np.arange(count + TARGETS, dtype=np.float64)[:, None]
    y = gaussian.sample(kernel, x, _random(name, size, draw))
    return Split(
        x[:count],
        y[:count],
        x[count:],
        y[count:],
        np.zeros(1, dtype=bool),
        (TARGETS,),
        ordered=True,
        seed=draw,
        kernel=kernel,
    )
