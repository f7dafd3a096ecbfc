"""Aligns values with labelled rows: by label if they have labels, otherwise by position."""

from __future__ import annotations

import collections
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chorale_client._cells import is_missing, meanings_of_cells
from chorale_client._column_reading import ColumnReader
from chorale_client._columns import Floats, NumericColumn
from chorale_client._errors import InvalidArgumentError
from chorale_client._meanings import Meaning

_MOST_SHOWN = 3  # labels in a message
_MEANINGS: dict[str, Meaning] = {"b": "boolean", "M": "date", "m": "duration"}  # by numpy's kinds


def is_labelled(values: Any) -> bool:
    """Whether values are a Series of pandas or of a similar library."""
    return getattr(values, "ndim", None) == 1 and all(
        hasattr(values, name) for name in ("index", "iloc")
    )


def column_names(values: Any) -> Any:
    """Returns the names of the columns of a DataFrame or an Arrow table; None for other objects."""
    return getattr(values, "column_names", None) or getattr(values, "columns", None)


def align(values: Any, index: Any, what: str) -> Any:
    """Returns values in the order of the rows.

    Args:
        values: [rows]. A Series with the labels of the rows, in any order, is reordered. Values
            without labels are in the order of the rows.
        index: The pandas index of the rows. Any other object means that the rows have no labels; a
            Series is then unchanged, unless its labels number the rows in another order.
        what: The name of the argument, for messages.

    Raises:
        InvalidArgumentError: The Series has other labels, or labels repeat and the order differs.
    """
    if not is_labelled(values):
        return values
    if not hasattr(index, "get_indexer"):
        if index is not None:
            _check_order(values.index.tolist(), list(range(len(index))), what)
        return values
    return values.iloc[_places(values.index, index, what)]


def align_vectors(values: Any, index: Any, names: list[str], what: str) -> Any:
    """Returns vectors of values in the order of the rows.

    Args:
        values: [vectors, rows]. A DataFrame whose column names are the labels of the rows, or their
            string forms, is reordered. A pandas DataFrame with other columns must have numbered
            columns. It is unchanged, and so are DataFrames of other libraries and arrays. In a list
            of vectors, each pandas Series is aligned.
        index: The pandas index of the rows. Any other object means that the rows have no labels.
        names: [rows]: the labels as strings.
        what: The name of the argument, for messages.

    Raises:
        InvalidArgumentError: The columns have other labels; see `align`.
    """
    if isinstance(values, list | tuple) and any(map(is_labelled, values)):
        return [
            values_for_rows(vector, index, what) if is_labelled(vector) else vector
            for vector in values
        ]
    columns = column_names(values)
    if columns is None:
        return values
    own = list(columns)
    if not hasattr(index, "get_indexer"):
        _check_order(list(map(str, own)), names, what)
        return values
    place = {str(column): i for i, column in enumerate(own)}
    of_pandas = hasattr(values, "iloc")
    if len(own) == len(names) and place.keys() == set(names):
        places = [place[name] for name in names]
        return values.iloc[:, places] if of_pandas else np.asarray(values)[:, places]
    numbered = _are_numbered(own) and set(own) != set(index.tolist())
    if not of_pandas and not place.keys().isdisjoint(names):
        raise InvalidArgumentError(
            f"{what}: only some of its columns are labels of rows: to match by position, pass an "
            "array, for example by .to_numpy()",
            fields=[what],
        )
    return values if numbered or not of_pandas else values.iloc[:, _places(columns, index, what)]


def some_values_for_rows(values: Any, index: Any, names: list[str], what: str) -> Floats:
    """Returns numbers in the order of the rows [rows] or [vectors, rows]; NaN for missing values.

    Args:
        values: [rows] or [vectors, rows]; see `align` and `align_vectors`. Each pandas Series, and
            the columns of a DataFrame, may have the labels of some rows only. The other rows get
            NaN.
        index: The index of the rows.
        names: [rows]: the labels as strings.
        what: The name of the argument, for messages.

    Raises:
        InvalidArgumentError: See `align` and `align_vectors`; or a label repeats, or the values are
            not numbers.
    """
    if isinstance(values, list | tuple) and any(map(is_labelled, values)):
        return _as_floats([some_values_for_rows(v, index, names, what) for v in values], what)
    labelled = hasattr(index, "get_indexer")
    columns = column_names(values)
    own = values.index if is_labelled(values) else columns
    if own is not None and not labelled and len(own) != len(names):
        raise InvalidArgumentError(
            f"{what}: {len(own)} values for {len(names)} rows, which have no labels: pass a value "
            "or NaN for each row",
            fields=[what],
        )
    if labelled and is_labelled(values) and not values.index.equals(index):
        places = _places_of_some(values.index, index, what)
        numbers = np.full(len(index), np.nan)
        numbers[places] = _plain_numbers(values, what)
        return numbers
    if columns is None and (is_labelled(values) or _dimensions(values) == 1):
        return _plain_numbers(align(values, index, what), what)
    if labelled and columns is not None and len(columns) < len(names):
        places = _places_of_columns(columns, index, names, what)
        if places is None and hasattr(values, "iloc") and not _are_numbered(columns):
            places = _places_of_some(columns, index, what)
        if places is not None:
            numbers = np.full((len(values), len(names)), np.nan)
            numbers[:, places] = _as_floats(values, what)
            return numbers
    return _as_floats(align_vectors(values, index, names, what), what)


def values_for_rows(values: Any, index: Any, what: str) -> Floats:
    """Returns numbers in the order of the rows [rows]; NaN for missing values.

    Args:
        values: [rows], of any type of a numeric column; see `align`.
        index: The index of the rows.
        what: The name of the argument, for messages.

    Raises:
        InvalidArgumentError: See `align`; or a value is not a number.
    """
    column = ColumnReader(what, [], "numeric").read(align(values, index, what))
    assert isinstance(column, NumericColumn)
    return column.values


def as_mask(rows: Any, index: Any) -> npt.NDArray[np.bool_] | None:
    """Returns a mask in the order of the rows; None if `rows` are not booleans.

    Args:
        rows: Booleans of any type [rows], or another object.
        index: The index of the rows; see `align`.

    Raises:
        InvalidArgumentError: A boolean is missing; or see `align`.
    """
    array = np.asarray(rows)
    if array.dtype != np.bool_:
        if array.dtype != object or array.ndim != 1:
            return None
        missing = np.array([is_missing(cell) for cell in array], dtype=bool)
        if missing.all() or not all(isinstance(cell, bool | np.bool_) for cell in array[~missing]):
            return None
        if missing.any():
            raise InvalidArgumentError(
                f"rows: {int(missing.sum())} of the {len(array)} booleans of the mask are missing, "
                f"the first at position {int(missing.argmax())}: fill them, for example by "
                ".fillna(False)",
                fields=["rows"],
            )
    return np.asarray(align(rows, index, "rows")).astype(bool)


def has_tuples(rows: Any) -> bool:
    """Whether `rows` are several labels, some of them tuples, and therefore not a mask."""
    return isinstance(rows, list | tuple) and any(isinstance(row, tuple) for row in rows)


def looks_like_mask(labels: Sequence[Any]) -> bool:
    """Whether labels are all 0 or 1, as in a mask of numbers."""
    present = [label for label in labels if not is_missing(label)]
    return bool(present) and all(
        isinstance(label, numbers.Real) and label in (0, 1) for label in present
    )


def _check_order(own: list[Any], numbers: list[Any], what: str) -> None:
    """Rejects labels that number rows without labels in another order."""
    if own != numbers and len(own) == len(numbers) and set(own) == set(numbers):
        raise InvalidArgumentError(
            f"{what}: its labels are the numbers of the rows in another order, but the rows have "
            "no labels: to match by position, pass an array, for example by .to_numpy()",
            fields=[what],
        )


def _places_of_some(own: Any, wanted: Any, what: str) -> Any:
    """Returns the positions of the labels of values among those of the rows."""
    extra = own.difference(wanted, sort=False)
    if len(extra):
        raise InvalidArgumentError(
            f"{what}: {_some(extra)} {_is(extra)} not among the labels of the rows; to match by "
            "position, pass an array, for example by .to_numpy()",
            fields=[what],
        )
    if not own.is_unique:
        raise _repeated(own, wanted, what)
    places = wanted.get_indexer_for(own)
    if len(places) != len(own):
        twice = wanted[wanted.duplicated()]
        raise _of_several_rows(_some(own[own.isin(twice)][:1]), what)
    return places


def _places_of_columns(columns: Any, index: Any, names: list[str], what: str) -> list[int] | None:
    """Returns the positions of the rows that columns of values name; None for other names.

    The names are the labels of the rows, or their string forms.
    """
    error: InvalidArgumentError | None = None
    for own, wanted in ((list(map(str, columns)), names), (list(columns), index.tolist())):
        places: dict[Any, list[int]] = {}
        for row, label in enumerate(wanted):
            places.setdefault(label, []).append(row)
        if not places.keys() >= set(own):
            continue
        twice = [label for label, count in collections.Counter(own).items() if count > 1]
        of_rows = [label for label in own if len(places[label]) > 1]
        if not twice and not of_rows:
            return [places[label][0] for label in own]
        if twice:
            error = InvalidArgumentError(
                f"{what}: labels repeat, such as {twice[0]!r}: pass a single column for each row",
                fields=[what],
            )
        else:
            error = _of_several_rows(repr(of_rows[0]), what)
    if error is not None:
        raise error
    return None


def _of_several_rows(label: str, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{what}: the labels of the rows repeat, such as {label}: to match by position, pass an "
        "array with a value or NaN for each row",
        fields=[what],
    )


def _are_numbered(columns: Any) -> bool:
    return list(columns) == list(range(len(columns)))


def _plain_numbers(values: Any, what: str) -> Floats:
    """Reads numbers [rows]; NaN for missing values."""
    column = ColumnReader(what, [], "numeric").read(values)
    assert isinstance(column, NumericColumn)
    _check_plain({column.meaning}, what)
    return column.values


def _check_plain(meanings: set[Meaning], what: str) -> None:
    """Raises InvalidArgumentError for booleans, such as a mask, for dates and for durations."""
    if meanings and "number" not in meanings:
        kinds = " and ".join(f"{meaning}s" for meaning in sorted(meanings))
        raise InvalidArgumentError(
            f"{what}: the values are {kinds}, must be numbers in the target's unit: convert them",
            fields=[what],
        )


def _dimensions(values: Any) -> int:
    try:
        return np.ndim(values)
    except ValueError:  # lists of different lengths, which _as_floats rejects
        return 2


def _as_floats(values: Any, what: str) -> Floats:
    """Converts vectors of numbers to an array; NaN for missing values."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            floats = np.where(np.ma.getmaskarray(values), np.nan, values.data).astype(np.float64)
        elif hasattr(values, "iloc"):
            floats = np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            floats = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{what}: {error}", fields=[what]) from None
    cells = np.asarray(values)
    if cells.dtype.kind == "O":
        _check_plain(meanings_of_cells(what, cells.ravel())[0], what)
    elif cells.dtype.kind in _MEANINGS:
        _check_plain({_MEANINGS[cells.dtype.kind]}, what)
    return floats


def _places(own: Any, wanted: Any, what: str) -> Any:
    """Returns the positions of the rows' labels among the labels of the values."""
    if own.equals(wanted):
        return slice(None)
    extra, absent = own.difference(wanted, sort=False), wanted.difference(own, sort=False)
    if len(extra) or len(absent):
        parts = []
        if len(absent):
            parts.append(f"{_some(absent)} of the rows {_is(absent)} missing")
        if len(extra):
            parts.append(f"{_some(extra)} {_is(extra)} unknown")
        raise InvalidArgumentError(
            f"{what}: its labels are not those of the rows: {', and '.join(parts)}; "
            "to match by position, pass an array, for example by .to_numpy()",
            fields=[what],
        )
    if not own.is_unique or not wanted.is_unique or len(own) != len(wanted):
        raise _repeated(own, wanted, what)
    return own.get_indexer(wanted)


def _repeated(own: Any, wanted: Any, what: str) -> InvalidArgumentError:
    """Returns the error for labels that do not identify rows."""
    labels = wanted if own.is_unique else own
    example = _some(labels[labels.duplicated()][:1])
    return InvalidArgumentError(
        f"{what}: labels repeat, such as {example}, and the order is not that of the rows: to "
        "match by position, pass an array, for example by .to_numpy()",
        fields=[what],
    )


def _some(labels: Any) -> str:
    shown = ", ".join(repr(label) for label in labels[:_MOST_SHOWN].tolist())
    more = len(labels) - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _is(labels: Any) -> str:
    return "is" if len(labels) == 1 else "are"
