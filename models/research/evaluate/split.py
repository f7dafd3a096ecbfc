"""One question put to every method: a context, held-out targets, and how blocks are scored."""

from __future__ import annotations

import dataclasses

import numpy as np
from sklearn.gaussian_process.kernels import Kernel


@dataclasses.dataclass(frozen=True)
class Split:
    """A context with T targets whose values are known to the scorer only."""

    context_x: np.ndarray  # [Nctx, F] float64, NaN = missing
    context_y: np.ndarray  # [Nctx]
    target_x: np.ndarray  # [T, F]
    target_y: np.ndarray  # [T]
    is_categorical: np.ndarray  # [F] bool
    block_sizes: tuple[int, ...]  # joint densities are computed for blocks of these sizes
    ordered: bool = False  # targets follow in time: score that order, not random ones
    seed: int = 0  # of the random orders
    kernel: Kernel | None = None  # of the Gaussian process that made the data, noise included
