"""Reads the arguments of scikit-learn's estimators."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils import check_random_state

from chorale_client._errors import InvalidArgumentError


def eager(X: Any) -> Any:  # noqa: N803
    """Returns X, or the collected DataFrame of a LazyFrame."""
    frame = nw.from_native(X, pass_through=True)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else X


def columns_of(X: Any) -> list[Any]:  # noqa: N803
    """Returns the columns of an array or a DataFrame."""
    if isinstance(X, np.ndarray):
        return list(X.T)
    frame = nw.from_native(X, eager_only=True)
    return [series.to_native() for series in frame.iter_columns()]


def check_numeric(y: Any) -> None:
    """InvalidArgumentError if the values contain strings that are not numbers."""
    values = np.asarray(y)
    if values.dtype.kind not in "OUST":
        return
    for value in values.ravel():
        if isinstance(value, str | bytes):
            try:
                float(value)
            except ValueError:
                raise InvalidArgumentError(
                    f"y: contains {str(value)!r}, but a target must be numeric; classification is "
                    "not supported",
                    fields=["y"],
                ) from None


def seed_of(random_state: Any) -> int | None:
    """Returns the seed for a random state of scikit-learn."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    return int(check_random_state(random_state).randint(1, 2**31 - 1))
