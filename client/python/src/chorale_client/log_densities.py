"""Joint log-densities of given values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chorale_client.data_warnings import DataWarning
from chorale_client.descriptions import Source
from chorale_client.labels import Labelled, Labels

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LogDensities(Labelled):
    """What `log_density` returns: natural logarithms of densities per unit of the target.

    Attributes:
        joint: [vectors]: of each vector of values.
        standard_errors: [vectors], over the random orders; None with fewer than two of them.
        terms: [vectors, rows]: log p(y_t | context, y_0 ... y_t-1), which sum to `joint`; None
            unless asked for.
        seed: Of the random orders; None if there are none.
        labels: Of the rows.
        target: The name of the column.
        source: What the answer was computed from.
        warnings: Of the rows.
    """

    joint: Floats
    standard_errors: Floats | None
    terms: Floats | None
    seed: int | None
    labels: Labels
    target: str
    source: Source
    warnings: tuple[DataWarning, ...]

    def __len__(self) -> int:
        return len(self.joint)

    def __float__(self) -> float:
        """The joint log-density, if there is one vector."""
        return float(self.joint.item())

    def __repr__(self) -> str:
        return f"<LogDensities of {self.target!r}: {len(self)} vectors of {len(self.index)} rows>"
