"""Columns of a table: numbers with a meaning, categories and codes, or strings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from chorale_client._meanings import Meaning

Kind = Literal["numeric", "categorical"]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]


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

    def take(self, rows: Integers) -> NumericColumn:
        """Returns the column of some rows."""
        return dataclasses.replace(self, values=self.values[rows])


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

    def take(self, rows: Integers) -> CategoricalColumn:
        """Returns the column of some rows."""
        return dataclasses.replace(self, codes=self.codes[rows])


@dataclass(frozen=True, eq=False)
class StringColumn:
    """A column of strings.

    The server infers the type of the column or, in query rows, parses the strings by the context's
    column.

    Attributes:
        name: The name of the column.
        strings: [rows]; a blank string is a missing cell.
    """

    name: str
    strings: list[str]

    @property
    def kind(self) -> Literal["strings"]:
        """The form of the column: strings."""
        return "strings"

    def __len__(self) -> int:
        return len(self.strings)

    def missing(self) -> npt.NDArray[np.bool_]:
        """Returns which cells are missing [rows]."""
        return np.array([not string or string.isspace() for string in self.strings], dtype=bool)

    def take(self, rows: Integers) -> StringColumn:
        """Returns the column of some rows."""
        return dataclasses.replace(self, strings=[self.strings[row] for row in rows])


Column = NumericColumn | CategoricalColumn | StringColumn
