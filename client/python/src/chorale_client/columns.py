"""One column of a table: numbers and what they stand for, or categories and codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from chorale_client.meanings import Meaning

Kind = Literal["numeric", "categorical"]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NumericColumn:
    """Numbers.

    Attributes:
        name: Of the column.
        values: [rows], NaN where a cell is missing. Booleans are 0 and 1, dates days since
            1970-01-01, durations days.
        meaning: "number", "boolean", "date" or "duration".
    """

    name: str
    values: Floats
    meaning: Meaning = "number"

    @property
    def kind(self) -> Kind:
        """Numeric."""
        return "numeric"

    def __len__(self) -> int:
        return len(self.values)

    def missing(self) -> npt.NDArray[np.bool_]:
        """[rows]."""
        return np.isnan(self.values)


@dataclass(frozen=True, eq=False)
class CategoricalColumn:
    """Attributes: name; categories, all different; codes [rows], -1 where a cell is missing."""

    name: str
    categories: list[str]
    codes: npt.NDArray[np.int32]

    @property
    def kind(self) -> Kind:
        """Categorical."""
        return "categorical"

    def __len__(self) -> int:
        return len(self.codes)

    def missing(self) -> npt.NDArray[np.bool_]:
        """[rows]."""
        return self.codes < 0


Column = NumericColumn | CategoricalColumn
