"""Columns of a table: numbers with a meaning, or categories and codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from chorale_client._meanings import Meaning

Kind = Literal["numeric", "categorical"]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NumericColumn:
    """A numeric column.

    Attributes:
        name: The name of the column.
        values: [rows]; NaN for missing cells. Booleans are 0 and 1, dates are days since
            1970-01-01, and durations are days.
        meaning: "number", "boolean", "date" or "duration".
    """

    name: str
    values: Floats
    meaning: Meaning = "number"

    @property
    def kind(self) -> Kind:
        """The type of the column: numeric."""
        return "numeric"

    def __len__(self) -> int:
        return len(self.values)

    def missing(self) -> npt.NDArray[np.bool_]:
        """Returns which cells are missing [rows]."""
        return np.isnan(self.values)


@dataclass(frozen=True, eq=False)
class CategoricalColumn:
    """A categorical column.

    Attributes:
        name: The name of the column.
        categories: The distinct categories.
        codes: [rows]: indices into `categories`; -1 for missing cells.
    """

    name: str
    categories: list[str]
    codes: npt.NDArray[np.int32]

    @property
    def kind(self) -> Kind:
        """The type of the column: categorical."""
        return "categorical"

    def __len__(self) -> int:
        return len(self.codes)

    def missing(self) -> npt.NDArray[np.bool_]:
        """Returns which cells are missing [rows]."""
        return self.codes < 0


Column = NumericColumn | CategoricalColumn
