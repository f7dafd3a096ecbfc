"""Reads a column from a series of a library, an array, or a sequence of cells.

The docstring of `chorale_client` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from chorale_client._cells import (
    LARGEST_EXACT,
    categorical_from_cells,
    days,
    days_since_1970,
    is_large,
    meanings_of_cells,
    number_of_cell,
    strings_from_cells,
)
from chorale_client._columns import Column, Floats, Kind, NumericColumn
from chorale_client._data_warnings import DataWarning
from chorale_client._errors import InvalidArgumentError
from chorale_client._meanings import Meaning
from chorale_client._number_warnings import dates_as_numbers
from chorale_client._other_meanings import other_meaning


@dataclass(frozen=True)
class ColumnReader:
    """Reads a column.

    Attributes:
        name: The name of the column.
        warnings: The list to which warnings are added.
        kind: The type of the column; None: inferred from the type of the values or from the cells.
        held: For query rows, the meaning of the context's column; None: inferred in the same way.
        finite: Whether infinite numbers are rejected.
    """

    name: str
    warnings: list[DataWarning]
    kind: Kind | None = None
    held: Meaning | None = None
    finite: bool = True

    def read(self, values: Any) -> Column:
        """Reads a series of a library, an array, or a sequence [rows].

        Raises:
            InvalidArgumentError: The values have another type, or a cell cannot be read.
        """
        series = nw.from_native(_as_series(values), series_only=True, pass_through=True)
        if isinstance(series, nw.Series):
            return self._read_series(series)
        if isinstance(values, np.ndarray):
            return self._read_array(values)
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
            if hasattr(values, "__array__"):
                return self._read_array(np.asarray(values))
            raise InvalidArgumentError(
                f"column {self.name!r} has the type {type(values).__name__}, must be a list or an "
                "array with a value for each row",
                fields=[self.name],
            )
        return self._read_cells(values)

    def _read_series(self, series: nw.Series[Any]) -> Column:
        dtype = series.dtype
        # Narwhals maps every categorical type to one of these two, whatever the categories are.
        if dtype == nw.Categorical or dtype == nw.Enum:
            if self.kind != "numeric":
                return categorical_from_cells(self.name, series.to_list())
        elif self.kind != "categorical":
            array = _as_numbers(series)
            if array is not None:
                return self._read_array(array, "boolean" if dtype == nw.Boolean else "number")
        return self._read_cells(series.to_list())

    def _read_array(self, array: npt.NDArray[Any], own: Meaning = "number") -> Column:
        """Reads an array of any dtype [rows]; `own` is the meaning of an array of floats."""
        if array.ndim != 1:
            raise InvalidArgumentError(
                f"column {self.name!r} has {array.ndim} dimensions, must have 1: a value for each "
                "row",
                fields=[self.name],
            )
        letter = array.dtype.kind
        if isinstance(array, np.ma.MaskedArray):
            return self._read_cells(array.tolist())
        if self.kind == "categorical" or letter not in "biufMm":
            return self._read_cells(array.tolist() if letter != "O" else list(array))
        large = letter in "iu" and ((array > LARGEST_EXACT) | (array < -LARGEST_EXACT)).any()
        if self.kind is None and large:
            return strings_from_cells(self.name, array.tolist())
        if letter == "M":
            own, values = "date", days_since_1970(array)
        elif letter == "m":
            own, values = "duration", days(array)
        else:
            own = "boolean" if letter == "b" else own
            values = self._finite(array.astype(np.float64))
        return self._numeric(values, own)

    def _read_cells(self, cells: Sequence[Any]) -> Column:
        if self.kind == "categorical":
            return categorical_from_cells(self.name, cells)
        found, strings = meanings_of_cells(self.name, cells)
        strings = strings or (self.kind is None and any(map(is_large, cells)))
        chosen = self.kind == "numeric" and self.held is None
        if chosen and strings:
            found.add("number")
        several = len(found) > 1 and not found <= {"number", "boolean"}
        if chosen and several:
            raise InvalidArgumentError(
                f"column {self.name!r} has cells of several types: {', '.join(sorted(found))}: use "
                "one",
                fields=[self.name],
            )
        if several or (strings and not chosen):
            return strings_from_cells(self.name, cells)
        own: Meaning = found.pop() if len(found) == 1 else "number"
        values = np.empty(len(cells))
        for row, cell in enumerate(cells):
            values[row] = number_of_cell(self.name, row, cell)
        self._finite(values)
        return self._numeric(values, own)

    def _numeric(self, values: Floats, own: Meaning) -> NumericColumn:
        """Returns a column of numbers with the meaning `own`, and warns about them."""
        if self.held is not None:
            self._warn(other_meaning(self.name, values, own, self.held))
        elif self.kind is None and own == "number":
            self._warn(dates_as_numbers(self.name, values))
        return NumericColumn(self.name, values, self.held or own)

    def _finite(self, values: Floats) -> Floats:
        """Returns the values; InvalidArgumentError if a value is infinite and must not be."""
        infinite = np.isinf(values)
        if self.finite and infinite.any():
            raise InvalidArgumentError(
                f"column {self.name!r} is infinite in row {int(infinite.argmax())}: use a finite "
                "number, or None if it is missing",
                fields=[self.name],
            )
        return values

    def _warn(self, warning: DataWarning | None) -> None:
        if warning is not None:
            self.warnings.append(warning)


def cells_of(values: Any) -> list[Any]:
    """Returns the cells of a series of a library, an array, or a sequence [rows].

    Raises:
        TypeError: The values have another type, or several dimensions.
    """
    series = nw.from_native(_as_series(values), series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series.to_list()
    if not isinstance(values, np.ndarray) and hasattr(values, "__array__"):
        values = np.asarray(values)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise TypeError(f"the number of dimensions is {values.ndim}, must be 1")
        return list(values) if values.dtype.kind in "mM" else values.tolist()
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        raise TypeError(f"the type is {type(values).__name__}, must be an array or a list")
    return list(values)


def _as_series(values: Any) -> Any:
    """Converts arrays and indexes of pandas and PyArrow to series, which keep their types."""
    library = type(values).__module__.partition(".")[0]
    if library == "pandas" and hasattr(values, "dtype") and hasattr(values, "__len__"):
        if not hasattr(values, "index"):  # a Series has one; indexes and arrays have none
            import pandas

            return pandas.Series(values)
    elif library == "pyarrow" and hasattr(values, "to_pylist") and hasattr(values, "type"):
        import pyarrow

        return values if hasattr(values, "chunks") else pyarrow.chunked_array([values])
    return values


def _as_numbers(series: nw.Series[Any]) -> npt.NDArray[Any] | None:
    """Converts a series of numbers or times to an array [rows]; None for other types."""
    dtype = series.dtype
    if dtype.is_float() or dtype == nw.Boolean:
        return series.cast(nw.Float64).to_numpy().astype(np.float64)
    if dtype.is_integer() and series.null_count() == 0:
        return series.to_numpy()
    if dtype == nw.Datetime or dtype == nw.Date or dtype == nw.Duration:
        if getattr(dtype, "time_zone", None):
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        array = series.to_numpy()
        return array if array.dtype.kind in "Mm" else None
    return None
