"""Reads the tables of users into columns.

A table is a pandas, polars or PyArrow table (or a table of another library that Narwhals supports),
a dictionary of columns, or a numpy array: a two-dimensional array, whose columns are named "x0",
"x1", ..., or a structured array with named fields.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import narwhals as nw
import numpy as np

from chorale_client._cells import is_missing
from chorale_client._column_reading import ColumnReader, cells_of
from chorale_client._columns import Column, Floats, Integers, Kind, NumericColumn
from chorale_client._data_warnings import DataWarning
from chorale_client._encodable import check_encodable
from chorale_client._errors import InvalidArgumentError
from chorale_client._index_warnings import drop_unnamed, unused_index
from chorale_client._labels import Labels
from chorale_client._meanings import Meaning
from chorale_client._row_values import align, is_labelled
from chorale_client._text_normalisation import Names

Data = Any  # a table for read_table
Types = Mapping[str, Literal["numeric", "categorical"]]


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length with labelled rows.

    Attributes:
        columns: The columns by name, in their order.
        row_count: The number of rows.
        labels: The labels of the rows, and the library for DataFrames of results.
        warnings: Warnings about the cells of the table.
    """

    columns: dict[str, Column]
    row_count: int
    labels: Labels
    warnings: list[DataWarning] = dataclasses.field(default_factory=list)

    def with_column(self, column: Column) -> Table:
        """Returns the table with an additional column, which replaces a column of the same name."""
        return dataclasses.replace(self, columns={**self.columns, column.name: column})

    def take(self, rows: Integers) -> Table:
        """Returns some rows of the table."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        return dataclasses.replace(
            self, columns=columns, row_count=len(rows), labels=self.labels.take(rows)
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a hint for the end of a message: a similar name, or the names that exist."""
    by_small = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), by_small, n=1)
    if near:
        return f"; did you mean {by_small[near[0]]!r}?"
    listed = sorted(by_small.values())[:8]
    more = " ..." if len(by_small) > len(listed) else ""
    return f"; the columns are {', '.join(map(repr, listed))}{more}" if listed else ""


def read_table(data: Data, *, types: Types | None = None) -> Table:
    """Reads a table.

    Args:
        data: The table; see this module.
        types: The types of columns, by name, that are not inferred.
    """
    names, columns, labels = _columns_of(data)
    _check_names(names)
    known = Names(names)
    kinds: dict[str, Kind] = {}
    for asked, kind in (types or {}).items():
        name = known.find(asked)
        if name is None:
            raise InvalidArgumentError(
                f"types: there is no column {asked!r}{did_you_mean(asked, names)}", fields=["types"]
            )
        if kind not in ("numeric", "categorical"):
            raise InvalidArgumentError(
                f"types: {kind!r} for column {asked!r}, must be 'numeric' or 'categorical'",
                fields=["types"],
            )
        kinds[name] = kind
    warnings: list[DataWarning] = []
    read = {
        name: ColumnReader(name, warnings, kinds.get(name)).read(values)
        for name, values in zip(names, columns, strict=True)
    }
    read = drop_unnamed(read, kinds, warnings)
    warnings += unused_index(labels.index, read)
    return _table(read, labels, warnings)


def read_numbers(data: Data, name: str, *, finite: bool = True) -> NumericColumn | None:
    """Reads a column of numbers of a table; None if there is no such column.

    Args:
        data: The table; see this module.
        name: The name of the column.
        finite: Whether infinite numbers are rejected.
    """
    names, columns, _ = _columns_of(data)
    _check_names(names)
    own = Names(names).find(name)
    if own is None:
        return None
    column = ColumnReader(name, [], "numeric", finite=finite).read(columns[names.index(own)])
    assert isinstance(column, NumericColumn)
    return column


def read_cells(data: Data, name: str, what: str) -> list[Any]:
    """Returns the cells of a column; InvalidArgumentError, about `what`, if there is none."""
    names, columns, _ = _columns_of(data)
    own = Names(names).find(name)
    if own is None:
        raise InvalidArgumentError(
            f"{what}: the rows have no column {name!r}{did_you_mean(name, names)}", fields=[what]
        )
    return cells_of(columns[names.index(own)])


def take_rows(data: Data, rows: Integers) -> Data:
    """Returns some rows of a table, in the form of the table.

    Args:
        data: The table; see this module.
        rows: The positions of the rows.
    """
    if isinstance(data, np.ndarray):
        return data[rows]
    if isinstance(data, Mapping):
        return {name: _take_cells(cells, rows) for name, cells in data.items()}
    frame = nw.from_native(data)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return frame[rows.tolist()].to_native()


def _take_cells(cells: Any, rows: Integers) -> Any:
    if is_labelled(cells):
        return cells.iloc[rows]
    if isinstance(cells, Sequence) or not hasattr(cells, "take"):  # a Series of polars has no take
        return [cells[row] for row in rows.tolist()]
    return cells.take(rows)


def replace_columns(data: Data, columns: Mapping[str, Floats]) -> Data:
    """Returns a table with other numbers in some columns, in the form of the table.

    Args:
        data: The table; see this module.
        columns: The numbers [rows] by the name of the column.
    """
    names, _, _ = _columns_of(data)
    places = {names.index(name): values for name, values in columns.items()}
    if isinstance(data, Mapping):
        return {name: places.get(place, cells) for place, (name, cells) in enumerate(data.items())}
    if isinstance(data, np.ndarray) and data.dtype.names is None:
        copy = data.copy() if data.dtype == object else data.astype(np.float64)
        for place, values in places.items():
            copy[:, place] = values
        return copy
    if isinstance(data, np.ndarray):  # structured: a field of integers could not have the numbers
        return {name: columns.get(name, data[name]) for name in names}
    frame = nw.from_native(data)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    native = frame.to_native()
    if hasattr(native, "isetitem"):  # pandas, whose names need not be strings
        native = native.copy()
        for place, values in places.items():
            native.isetitem(place, values)
        return native
    series = [
        nw.new_series(name, values, backend=frame.implementation)
        for name, values in columns.items()
    ]
    return frame.with_columns(*series).to_native()


def read_rows(
    data: Data, kinds: Mapping[str, Kind], meanings: Mapping[str, Meaning] | None = None
) -> Table:
    """Reads the columns of a context, by their types and meanings there and in its order.

    Args:
        data: The table; see this module.
        kinds: The types of the context's columns, by name. Names match after normalisation.
        meanings: The meanings of numeric columns, by name; None or absent: plain numbers.

    Raises:
        InvalidArgumentError: A column is missing, or a cell is not valid for the column.
    """
    names, columns, labels = _columns_of(data)
    _check_names(names)
    by_name = dict(zip(names, columns, strict=True))
    known = Names(names)
    warnings: list[DataWarning] = []
    read: dict[str, Column] = {}
    for name, kind in kinds.items():
        own = known.find(name)
        if own is None:
            raise InvalidArgumentError(
                f"rows: the context's column {name!r} is missing{did_you_mean(name, names)}",
                fields=[name],
            )
        meaning = (meanings or {}).get(name, "number")
        read[name] = ColumnReader(name, warnings, kind, meaning).read(by_name[own])
    return _table(read, labels, warnings)


def _table(columns: dict[str, Column], labels: Labels, warnings: list[DataWarning]) -> Table:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidArgumentError(f"the columns differ in length: {lengths}")
    count = next(iter(lengths.values()), len(labels))
    return Table(columns, count, labels.of_length(count), warnings)


def _columns_of(data: Data) -> tuple[list[str], list[Any], Labels]:
    """Returns the names, the unconverted columns, and the labels of the rows."""
    if isinstance(data, np.ndarray):
        return _columns_of_array(data)
    if isinstance(data, Mapping):
        return _columns_of_mapping(data)
    try:
        frame = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = getattr(data, "column_names", None) or data.columns
        return _texts(names), [], Labels()
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        native = frame.to_native()
        return (
            _texts(frame.columns),
            [series.to_native() for series in frame.iter_columns()],
            Labels.of_frame(native),
        )
    raise InvalidArgumentError(
        f"the table has the type {type(data).__name__}, must be a pandas or polars DataFrame, a "
        "PyArrow table, a dictionary of columns, or a numpy array"
    )


def _columns_of_mapping(data: Mapping[Any, Any]) -> tuple[list[str], list[Any], Labels]:
    """Returns columns by name; the labels of the rows are those of the first pandas Series."""
    labels = next(
        (Labels.of_series(values) for values in data.values() if is_labelled(values)), Labels()
    )
    names = _texts(data)
    columns = [
        align(values, labels.index, f"column {name!r}")
        for name, values in zip(names, data.values(), strict=True)
    ]
    return names, columns, labels


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


def _texts(names: Iterable[Any]) -> list[str]:
    """Returns names of columns, of any type, as strings."""
    texts = []
    for position, name in enumerate(names):
        if is_missing(name) and not isinstance(name, str):
            raise InvalidArgumentError(
                f"the table has a column without a name: the name at position {position} is "
                f"{name}; rename the column"
            )
        texts.append(str(name))
    return texts


def _check_names(names: Sequence[str]) -> None:
    twice = sorted(name for name, count in collections.Counter(names).items() if count > 1)
    if twice:
        raise InvalidArgumentError(
            f"the table has more than one column {', '.join(map(repr, twice))}: names must be "
            "unique",
            fields=twice,
        )
    if any(not name.strip() for name in names):
        raise InvalidArgumentError("the table has a column without a name: rename the column")
    check_encodable(names, "the name of column", "table")
