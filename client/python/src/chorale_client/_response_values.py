"""Numbers in the fields of responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from chorale_client._columns import Floats
from chorale_client._errors import DataLossError


def joined(parts: Iterable[Sequence[float]]) -> Floats:
    """Returns the numbers of several fields as one array."""
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


def check_count(what: str, numbers: Sequence[float], expected: int) -> None:
    """Raises DataLossError if a field has another number of numbers than expected."""
    if len(numbers) != expected:
        raise DataLossError(f"the server sent {len(numbers)} {what} instead of {expected}")
