"""Cells of a column as Python objects: their types, their numbers, and their string forms."""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chorale_client._columns import CategoricalColumn, Floats, StringColumn
from chorale_client._encodable import check_encodable
from chorale_client._errors import InvalidArgumentError
from chorale_client._meanings import Meaning
from chorale_client._text_normalisation import normal_text

LARGEST_EXACT = 2**53  # float64 rounds some larger integers
_DAY = np.timedelta64(1, "D")
_EPOCH_DAY = np.datetime64(0, "D")


def categorical_from_cells(name: str, cells: Sequence[Any]) -> CategoricalColumn:
    """Reads the string forms of cells as categories, in the order of their first occurrence."""
    codes = np.empty(len(cells), dtype=np.int32)
    code_of_cell: dict[tuple[type, Any], int] = {}  # 1, 1.0 and True are equal in a dictionary
    code_of_text: dict[str, int] = {}
    for row, cell in enumerate(cells):
        if is_missing(cell):
            codes[row] = -1
            continue
        key = (type(cell), cell)
        code = code_of_cell.get(key)
        if code is None:
            text = _text(cell)
            code = code_of_text.setdefault(text, len(code_of_text)) if text else -1
            code_of_cell[key] = code
        codes[row] = code
    check_encodable(code_of_text, f"column {name!r}: its category", name)
    return CategoricalColumn(name, list(code_of_text), codes)


def strings_from_cells(name: str, cells: Sequence[Any]) -> StringColumn:
    """Reads the string forms of cells."""
    column = StringColumn(name, ["" if is_missing(cell) else _text(cell) for cell in cells])
    check_encodable(column.strings, f"column {name!r}: its string", name)
    return column


def is_missing(cell: Any) -> bool:
    """Whether a cell is missing: None, NaN, NaT, pandas' NA, or a blank string."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return not cell or cell.isspace()
    if type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return isinstance(cell, numbers.Number) and bool(cell != cell)


def days(spans: npt.NDArray[np.timedelta64]) -> Floats:
    """Converts to days with a fraction; NaN for NaT."""
    whole = spans.astype("m8[D]")
    rest = spans - whole  # exact; dividing nanoseconds by a day would round
    result: Floats = whole.astype(np.float64) + rest / _DAY
    result[np.isnat(spans)] = np.nan
    return result


def days_since_1970(times: npt.NDArray[np.datetime64]) -> Floats:
    """Converts to days since 1970-01-01 with the time of day as a fraction; NaN for NaT."""
    since: npt.NDArray[np.timedelta64] = np.subtract(times, _EPOCH_DAY)
    return days(since)


def meanings_of_cells(name: str, cells: Iterable[Any]) -> tuple[set[Meaning], bool]:
    """Returns the meanings of the cells of a column, and whether some cells are strings.

    Raises:
        InvalidArgumentError: A cell has another type.
    """
    found: set[Meaning] = set()
    strings = False
    for cell in cells:
        if is_missing(cell):
            continue
        if isinstance(cell, str | bytes):
            strings = True
            continue
        meaning = _meaning_of_cell(cell)
        if meaning is None:
            raise InvalidArgumentError(
                f"column {name!r} has a cell of type {type(cell).__name__}, which is not a number, "
                "a date or a string: convert it, or drop the column",
                fields=[name],
            )
        found.add(meaning)
    return found, strings


def is_large(cell: Any) -> bool:
    """Whether a cell is an integer beyond 2**53, which float64 may not represent."""
    if isinstance(cell, decimal.Decimal):
        return cell.is_finite() and abs(cell) > LARGEST_EXACT and cell == cell.to_integral_value()
    return isinstance(cell, numbers.Integral) and abs(int(cell)) > LARGEST_EXACT


def _meaning_of_cell(cell: Any) -> Meaning | None:
    if isinstance(cell, bool | np.bool_):
        return "boolean"
    if isinstance(cell, datetime.date | np.datetime64) or _is_period(cell):
        return "date"
    if isinstance(cell, datetime.timedelta | np.timedelta64):
        return "duration"
    return "number" if isinstance(cell, numbers.Real | decimal.Decimal) else None


def _is_period(cell: Any) -> bool:
    """Whether a cell is a pandas Period; does not require pandas."""
    return type(cell).__name__ == "Period" and hasattr(cell, "start_time")


def number_of_cell(name: str, row: int, cell: Any) -> float:
    """Converts a cell to a number; infinity if it is too large. `float` converts strings."""
    if is_missing(cell):
        return np.nan
    if _is_period(cell):
        cell = cell.start_time
    if isinstance(cell, datetime.date | np.datetime64):
        return float(days_since_1970(np.array([_naive_utc(cell)], "M8[us]"))[0])
    if isinstance(cell, datetime.timedelta | np.timedelta64):
        return float(days(np.array([cell], "m8[us]"))[0])
    try:
        return float(cell)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"column {name!r} is numeric, but its row {row} is {cell!r}: use a number, or None if "
            "it is missing",
            fields=[name],
        ) from None


def _naive_utc(cell: Any) -> Any:
    if isinstance(cell, datetime.datetime) and cell.tzinfo is not None:
        return cell.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return cell


def _text(cell: Any) -> str:
    if isinstance(cell, str):
        return normal_text(cell)
    if isinstance(cell, bytes):
        return normal_text(cell.decode("utf-8", "replace"))
    if isinstance(cell, np.bool_):
        return str(bool(cell))
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)
