"""Reads a column from a series of a library, an array, or a sequence of cells.

The docstring of `chorale_client` has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from chorale_client._cells import (
    categorical_from_cells,
    column_from_cells,
    days,
    days_since_1970,
    finite,
)
from chorale_client._columns import Column, Kind, NumericColumn
from chorale_client._data_warnings import DataWarning
from chorale_client._errors import InvalidArgumentError
from chorale_client._meanings import Meaning
from chorale_client._number_warnings import note_dates, note_lost_digits_of_array
from chorale_client._other_meanings import meet


def read_column(
    name: str,
    values: Any,
    kind: Kind | None,
    notes: list[DataWarning],
    held: Meaning | None = None,
) -> Column:
    """Reads a column from a series of a library, an array, or a sequence.

    Args:
        name: The name of the column.
        values: [rows].
        kind: The type of the column; None: inferred from the type of the values or from the cells.
        notes: The list to which warnings are added.
        held: For query rows, the meaning of the context's column; None: inferred in the same way.

    Raises:
        InvalidArgumentError: The values have another type, or a cell cannot be read.
    """
    series = nw.from_native(_as_series(values), series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _read_series(name, series, kind, notes, held)
    if isinstance(values, np.ndarray):
        return _read_array(name, values, kind, notes, held)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        if hasattr(values, "__array__"):
            return _read_array(name, np.asarray(values), kind, notes, held)
        raise InvalidArgumentError(
            f"column {name!r} has the type {type(values).__name__}, must be a list or an array "
            "with a value for each row",
            fields=[name],
        )
    return column_from_cells(name, values, kind, notes, held)


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


def _read_series(
    name: str,
    series: nw.Series[Any],
    kind: Kind | None,
    notes: list[DataWarning],
    held: Meaning | None,
) -> Column:
    dtype = series.dtype
    # Narwhals maps every categorical type to one of these two, whatever the categories are.
    if dtype == nw.Categorical or dtype == nw.Enum:
        if kind != "numeric":
            return categorical_from_cells(name, series.to_list())
    elif kind != "categorical":
        array = _as_numbers(series)
        if array is not None:
            own: Meaning = "boolean" if dtype == nw.Boolean else "number"
            return _read_array(name, array, kind, notes, held, own)
    return column_from_cells(name, series.to_list(), kind, notes, held)


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


def _read_array(
    name: str,
    array: npt.NDArray[Any],
    kind: Kind | None,
    notes: list[DataWarning],
    held: Meaning | None,
    own: Meaning = "number",
) -> Column:
    """Reads a column from a one-dimensional numpy array of any dtype.

    Args:
        name: The name of the column.
        array: [rows].
        kind: See `read_column`.
        notes: See `read_column`.
        held: See `read_column`.
        own: The meaning of an array of floats.
    """
    if array.ndim != 1:
        raise InvalidArgumentError(
            f"column {name!r} has {array.ndim} dimensions, must have 1: a value for each row",
            fields=[name],
        )
    if isinstance(array, np.ma.MaskedArray):
        return column_from_cells(name, array.tolist(), kind, notes, held)
    letter = array.dtype.kind
    if kind == "categorical" or letter not in "biufMm":
        cells = array.tolist() if letter != "O" else list(array)
        return column_from_cells(name, cells, kind, notes, held)
    if letter == "M":
        own, values = "date", days_since_1970(array)
    elif letter == "m":
        own, values = "duration", days(array)
    else:
        own = "boolean" if letter == "b" else own
        values = finite(name, array.astype(np.float64))
        if letter in "iu":
            note_lost_digits_of_array(name, array, notes)
        if kind is None and own == "number":
            note_dates(name, values, notes)
    if held is not None:
        meet(name, values, own, held, notes)
    return NumericColumn(name, values, held or own)
