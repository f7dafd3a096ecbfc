"""Tables as users have them, read into columns.

A table is a pandas, polars or PyArrow table (or another that Narwhals knows), a dictionary of
columns, or a numpy array: of two dimensions with columns "x0", "x1", ..., or with named fields.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import narwhals as nw
import numpy as np

from chorale_client.columns import Column, Kind, column_from_array, column_from_cells
from chorale_client.data_warnings import DataWarning
from chorale_client.errors import InvalidArgumentError
from chorale_client.labels import Labels

Data = Any  # what read_table takes
Types = Mapping[str, Literal["numeric", "categorical"]]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, and how the rows are labelled.

    Attributes:
        columns: By name, in order.
        row_count: Of each column.
        labels: Of the rows, and which library's frames results become.
        notes: What was not taken as it stands when the table was read.
    """

    columns: dict[str, Column]
    row_count: int
    labels: Labels
    notes: list[DataWarning] = field(default_factory=list)

    def with_column(self, column: Column) -> Table:
        """The table and one more column, which replaces one of the same name."""
        return Table({**self.columns, column.name: column}, self.row_count, self.labels, self.notes)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for the end of a sentence; empty if nothing is like `name`."""
    by_small = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), by_small, n=1)
    if near:
        return f"; did you mean {by_small[near[0]]!r}?"
    listed = sorted(by_small.values())[:8]
    more = " ..." if len(by_small) > len(listed) else ""
    return f"; there are {', '.join(map(repr, listed))}{more}" if listed else ""


def read_table(
    data: Data, *, types: Types | None = None, only: Iterable[str] | None = None
) -> Table:
    """Reads a table.

    Args:
        data: See this module.
        types: The kind of some columns, by name, where it is not to follow from the cells.
        only: The columns to read: others may be of any type.
    """
    names, columns, labels = _columns_of(data)
    _check_names(names)
    kinds = dict(types or {})
    for name in kinds:
        if name not in names:
            raise InvalidArgumentError(
                f"types: there is no column {name!r}{did_you_mean(name, names)}", fields=["types"]
            )
        if kinds[name] not in ("numeric", "categorical"):
            raise InvalidArgumentError(
                f"types: {name!r} is to be {kinds[name]!r}, must be 'numeric' or 'categorical'",
                fields=["types"],
            )
    notes: list[DataWarning] = []
    read: dict[str, Column] = {}
    by_name = dict(zip(names, columns, strict=True))
    for name in names if only is None else only:
        if name in by_name:
            read[name] = read_column(name, by_name[name], kinds.get(name), notes)
    lengths = {name: len(column) for name, column in read.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidArgumentError(f"the columns differ in length: {lengths}")
    count = next(iter(lengths.values()), len(labels))
    return Table(read, count, labels.of_length(count), notes)


def read_rows(data: Data, kinds: Mapping[str, Kind]) -> Table:
    """Reads the columns that a context has, as its kinds, in its order.

    Raises:
        InvalidArgumentError: A column is absent.
    """
    names, _, _ = _columns_of(data)
    for name in kinds:
        if name not in names:
            raise InvalidArgumentError(
                f"rows: there is no column {name!r}, which the context has"
                f"{did_you_mean(name, names)}",
                fields=[name],
            )
    return read_table(data, types=kinds, only=kinds)


def read_column(name: str, values: Any, kind: Kind | None, notes: list[DataWarning]) -> Column:
    """A column from a series of a library, an array, or a sequence."""
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _read_series(name, series, kind, notes)
    if isinstance(values, np.ndarray):
        return column_from_array(name, values, kind, notes)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):
        if hasattr(values, "__array__"):
            return column_from_array(name, np.asarray(values), kind, notes)
        raise InvalidArgumentError(
            f"column {name!r} is a {type(values).__name__}, must be a list or an array with a "
            "value for each row",
            fields=[name],
        )
    return column_from_cells(name, values, kind, notes)


def _read_series(
    name: str, series: nw.Series[Any], kind: Kind | None, notes: list[DataWarning]
) -> Column:
    kind_of = series.dtype
    if kind != "categorical":
        if kind_of.is_float() or kind_of == nw.Boolean:
            return column_from_array(
                name, series.cast(nw.Float64).to_numpy().astype(np.float64), kind, notes
            )
        if kind_of.is_integer() and series.null_count() == 0:
            return column_from_array(name, series.to_numpy(), kind, notes)
        if kind_of == nw.Datetime or kind_of == nw.Date or kind_of == nw.Duration:
            if getattr(kind_of, "time_zone", None):
                series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
            array = series.to_numpy()
            if array.dtype.kind in "Mm":
                return column_from_array(name, array, kind, notes)
    return column_from_cells(name, series.to_list(), kind, notes)


def _columns_of(data: Data) -> tuple[list[str], list[Any], Labels]:
    """Names, columns as they are, and labels of the rows."""
    if isinstance(data, np.ndarray):
        return _columns_of_array(data)
    if isinstance(data, Mapping):
        return [str(name) for name in data], list(data.values()), Labels()
    try:
        frame = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = getattr(data, "column_names", None) or data.columns
        return [str(name) for name in names], [], Labels()
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        native = frame.to_native()
        return (
            [str(name) for name in frame.columns],
            [series.to_native() for series in frame.iter_columns()],
            Labels.of_frame(native),
        )
    raise InvalidArgumentError(
        f"the table is a {type(data).__name__}, must be a DataFrame of pandas, polars or PyArrow, "
        "a dictionary of columns, or a numpy array"
    )


def _columns_of_array(data: np.ndarray[Any, Any]) -> tuple[list[str], list[Any], Labels]:
    if data.dtype.names is not None and data.ndim == 1:
        return list(data.dtype.names), [data[name] for name in data.dtype.names], Labels()
    if data.ndim != 2:
        raise InvalidArgumentError(
            f"the array has {data.ndim} dimensions, must have 2: rows and columns"
        )
    return (
        [f"x{i}" for i in range(data.shape[1])],
        [data[:, i] for i in range(data.shape[1])],
        Labels(),
    )


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(
            f"the table has more than one column {', '.join(map(repr, twice))}: names must be "
            "unique",
            fields=twice,
        )
    if any(not name.strip() for name in names):
        raise InvalidArgumentError("the table has a column without a name: give it one")
