"""Joint samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chorale.data_warnings import DataWarning
from chorale.descriptions import Source, Timings
from chorale.labels import Labels

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Samples:
    """Joint sample paths."""

    values: Floats
    labels: Labels
    target: str
    seed: int
    source: Source
    timings: Timings
    log_densities: Floats | None
    warnings: tuple[DataWarning, ...]

    @property
    def index(self) -> Any:
        """Pandas' index of the rows, or their numbers."""
        return self.labels.index
