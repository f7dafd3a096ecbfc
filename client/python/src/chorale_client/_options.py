"""The options of calls about query rows."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Order = Literal["given", "random"]
Sampling = Literal["independent", "sobol"]
Estimator = Literal["conditional", "values"]
# A number, a pair of ends, or a mapping or Series of labels to such totals; None: none.
Total = Any


class SampleOptions(NamedTuple):
    """The arguments of `sample` and `stream`, in their order, without `given` and `groupby`."""

    paths: int
    seed: int | None
    order: Order
    log_densities: bool
    wrap: bool
    snap: bool
    local_rows: int | None
    first_path: int = 0
    dtype: npt.DTypeLike = np.float64
    sampling: Sampling = "independent"
    total: Any = None


class PredictOptions(NamedTuple):
    """The arguments of `predict`, in their order, without `given` and `groupby`."""

    quantiles: npt.ArrayLike
    mixtures: bool
    wrap: bool
    snap: bool
    local_rows: int | None


class LogDensityOptions(NamedTuple):
    """The arguments of `log_density`, in their order, without `given` and `groupby`."""

    orders: int
    seed: int | None
    terms: bool
    cdfs: bool
    wrap: bool
    local_rows: int | None
