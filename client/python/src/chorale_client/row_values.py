"""Values for rows that have labels: by label where they have some, else by position."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chorale_client.cells import is_missing
from chorale_client.column_reading import read_column
from chorale_client.columns import Floats, NumericColumn
from chorale_client.errors import InvalidArgumentError

_MOST_SHOWN = 3  # labels in a message


def is_labelled(values: Any) -> bool:
    """Whether values are a Series of pandas, or of a library that is like it."""
    return getattr(values, "ndim", None) == 1 and all(
        hasattr(values, name) for name in ("index", "iloc")
    )


def align(values: Any, index: Any, what: str) -> Any:
    """Values in the order of the rows.

    Args:
        values: [rows]. A Series whose labels are those of the rows, in whatever order, is put into
            theirs. Values without labels are in the order of the rows already.
        index: pandas' index of the rows. Anything else: the rows have no labels, and a Series is
            taken as it stands, unless its labels number the rows in another order.
        what: The argument's name, for messages.

    Raises:
        InvalidArgumentError: The Series has other labels, or some repeat and the order differs.
    """
    if not is_labelled(values):
        return values
    if not hasattr(index, "get_indexer"):
        if index is not None:
            _check_order(values.index.tolist(), list(range(len(index))), what)
        return values
    return values.iloc[_places(values.index, index, what)]


def align_vectors(values: Any, index: Any, names: list[str], what: str) -> Any:
    """Vectors of values, in the order of the rows.

    Args:
        values: [vectors, rows]. A frame whose columns are the rows' labels, or these as texts, is
            put into their order. One of pandas with other columns must have them only numbered, and
            is taken as it stands, as are frames of other libraries and any other array. In a list
            of vectors, each Series of pandas is aligned.
        index: pandas' index of the rows. Anything else: the rows have no labels.
        names: [rows]: the labels as texts.
        what: The argument's name, for messages.

    Raises:
        InvalidArgumentError: The columns have other labels; see `align`.
    """
    if isinstance(values, list | tuple) and any(map(is_labelled, values)):
        return [
            values_for_rows(vector, index, what) if is_labelled(vector) else vector
            for vector in values
        ]
    columns = getattr(values, "column_names", None) or getattr(values, "columns", None)
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
    numbered = own == list(range(len(own))) and set(own) != set(index.tolist())
    if not of_pandas and not place.keys().isdisjoint(names):
        raise InvalidArgumentError(
            f"{what}: only some of its columns are called like rows: give an array, such as "
            ".to_numpy(), to go by position",
            fields=[what],
        )
    return values if numbered or not of_pandas else values.iloc[:, _places(columns, index, what)]


def values_for_rows(values: Any, index: Any, what: str) -> Floats:
    """Numbers in the order of the rows, [rows]; NaN where one is missing.

    Args:
        values: [rows], of any kind that a numeric column may have; see `align`.
        index: Of the rows.
        what: The argument's name, for messages.

    Raises:
        InvalidArgumentError: See `align`; or a value is no number.
    """
    column = read_column(what, align(values, index, what), "numeric", [])
    assert isinstance(column, NumericColumn)
    return column.values


def as_mask(rows: Any, index: Any) -> npt.NDArray[np.bool_] | None:
    """A mask in the order of the rows; None if `rows` are no booleans.

    Args:
        rows: Booleans of any type [rows], or anything else.
        index: Of the rows; see `align`.

    Raises:
        InvalidArgumentError: A boolean is missing, or see `align`.
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
    """Whether `rows` are several labels of which some are tuples, and so no mask."""
    return isinstance(rows, list | tuple) and any(isinstance(row, tuple) for row in rows)


def looks_like_mask(labels: Sequence[Any]) -> bool:
    """Whether labels are numbers that are all 0 or 1, as in a mask that is not of booleans."""
    present = [label for label in labels if not is_missing(label)]
    return bool(present) and all(
        isinstance(label, numbers.Real) and label in (0, 1) for label in present
    )


def _check_order(own: list[Any], numbers: list[Any], what: str) -> None:
    """Refuses labels that are the numbers of rows without labels in another order."""
    if own != numbers and len(own) == len(numbers) and set(own) == set(numbers):
        raise InvalidArgumentError(
            f"{what}: its labels are the numbers of the rows in another order, but the rows have "
            "no labels: give an array, such as .to_numpy(), to go by position",
            fields=[what],
        )


def _places(own: Any, wanted: Any, what: str) -> Any:
    """Where the labels of the rows are among those of the values."""
    if own.equals(wanted):
        return slice(None)
    extra, absent = own.difference(wanted, sort=False), wanted.difference(own, sort=False)
    if len(extra) or len(absent):
        parts = []
        if len(absent):
            parts.append(f"{_some(absent)} of the rows {_is(absent)} not among them")
        if len(extra):
            parts.append(f"{_some(extra)} {_is(extra)} none of the rows'")
        raise InvalidArgumentError(
            f"{what}: its labels are not those of the rows: {', and '.join(parts)}; "
            "give an array, such as .to_numpy(), to go by position",
            fields=[what],
        )
    if not own.is_unique or not wanted.is_unique or len(own) != len(wanted):
        raise InvalidArgumentError(
            f"{what}: labels come more than once, such as {_some(own[own.duplicated()][:1])}, and "
            "the order is not that of the rows: give an array, such as .to_numpy(), to go by "
            "position",
            fields=[what],
        )
    return own.get_indexer(wanted)


def _some(labels: Any) -> str:
    shown = ", ".join(repr(label) for label in labels[:_MOST_SHOWN].tolist())
    more = len(labels) - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _is(labels: Any) -> str:
    return "is" if len(labels) == 1 else "are"
