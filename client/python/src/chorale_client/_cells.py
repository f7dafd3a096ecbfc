"""Reads a column from Python objects, one for each cell."""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from chorale_client._columns import CategoricalColumn, Column, Floats, Kind, NumericColumn
from chorale_client._data_warnings import DataWarning
from chorale_client._encodable import check_encodable
from chorale_client._errors import InvalidArgumentError
from chorale_client._meanings import EXAMPLES, Meaning, parse_as
from chorale_client._number_text import looks_like_number, parse_number
from chorale_client._number_warnings import note_dates, note_lost_digits_of_cells
from chorale_client._other_meanings import meet
from chorale_client._text_columns import column_of_texts, meaning_of_texts
from chorale_client._text_normalisation import normal_text

_DAY = np.timedelta64(1, "D")
_EPOCH_DAY = np.datetime64(0, "D")
_ORDER: tuple[Meaning, ...] = get_args(Meaning)


def column_from_cells(
    name: str,
    cells: Sequence[Any],
    kind: Kind | None,
    notes: list[DataWarning],
    held: Meaning | None = None,
) -> Column:
    """Reads a column from Python objects.

    Args:
        name: The name of the column.
        cells: [rows].
        kind: The type of the column; None: inferred from the cells.
        notes: The list to which warnings are added.
        held: For query rows, the meaning of the context's column; None: inferred from the cells.
    """
    if kind == "categorical":  # the caller's choice needs no warnings
        return categorical_from_cells(name, cells)
    if held is not None:
        values = _numbers(name, cells, held, notes)
        owns = _meanings_of_cells(cells, held)
        others = set(owns.tolist()) - {held}
        for own in filter(others.__contains__, _ORDER):
            meet(name, np.where(owns == own, values, np.nan), own, held, notes)
        return NumericColumn(name, values, held)
    found = _find_types(name, cells)
    if kind is None and found.texts:
        column = categorical_from_cells(name, cells)
        if not found.others:
            return column_of_texts(column, notes)
        if meaning_of_texts(column.categories) == "boolean":
            return NumericColumn(name, _numbers(name, cells, "boolean", notes), "boolean")
        notes.append(_mixture_with_texts(name, found))
        return column
    meaning = found.meaning
    if found.texts and not found.others:
        meaning = meaning_of_texts(categorical_from_cells(name, cells).categories)
    values = _numbers(name, cells, meaning, notes)
    if not found.counts.keys() <= {"number", "boolean"} and len(found.counts) > 1:
        notes.append(_mixture(name, found))
    elif kind is None and meaning == "number":
        note_dates(name, values, notes)
    return NumericColumn(name, values, meaning)


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


def finite(name: str, values: Floats) -> Floats:
    """Returns the values; InvalidArgumentError if a value is infinite."""
    infinite = np.isinf(values)
    if infinite.any():
        raise InvalidArgumentError(
            f"column {name!r} is infinite in row {int(infinite.argmax())}: use a finite number, "
            "or None if it is missing",
            fields=[name],
        )
    return values


class _Types:
    """The types of the cells of a column."""

    def __init__(self) -> None:
        self.texts = 0
        self.example: Any = None  # the first text
        self.counts: dict[Meaning, int] = {}  # the other cells, by their meaning
        self.rows: dict[Meaning, int] = {}  # the first row of each meaning

    @property
    def others(self) -> int:
        """The number of cells that are not strings."""
        return sum(self.counts.values())

    @property
    def meaning(self) -> Meaning:
        """The meaning of the cells that are not strings; "number" if they have several."""
        return next(iter(self.counts)) if len(self.counts) == 1 else "number"


def _find_types(name: str, cells: Iterable[Any]) -> _Types:
    found = _Types()
    for row, cell in enumerate(cells):
        if is_missing(cell):
            continue
        if isinstance(cell, str | bytes):
            found.texts += 1
            found.example = cell if found.example is None else found.example
            continue
        meaning = _meaning_of_cell(cell)
        if meaning is None:
            raise InvalidArgumentError(
                f"column {name!r} has a cell of type {type(cell).__name__}, which is not a number, "
                "a date or a string: convert it, or drop the column",
                fields=[name],
            )
        found.counts[meaning] = found.counts.get(meaning, 0) + 1
        found.rows.setdefault(meaning, row)
    return found


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


def _meanings_of_cells(cells: Sequence[Any], held: Meaning) -> npt.NDArray[Any]:
    """Returns the meanings of the cells of query rows [rows]; strings are numbers or `held`."""
    of_type: dict[type, Meaning | None] = {}
    for cell in cells:
        if type(cell) not in of_type:
            of_type[type(cell)] = _meaning_of_cell(cell)
    owns = np.array([of_type[type(cell)] for cell in cells], dtype=object)
    if any(issubclass(kind, str | bytes) for kind in of_type):
        for row, cell in enumerate(cells):
            if isinstance(cell, str | bytes):
                plain = held in ("date", "duration") and parse_number(_text(cell)) is not None
                owns[row] = "number" if plain else held
    return owns


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _mixture_with_texts(name: str, found: _Types) -> DataWarning:
    others = " and ".join(f"{meaning}s" for meaning in _ORDER if meaning in found.counts)
    return DataWarning(
        f"column {name!r} has {others} and {_counted(found.texts, 'string')} such as "
        f"{found.example!r}: read as categories; if such cells are missing, set them to None",
        "MIXED_TYPES",
        name,
        found.texts,
    )


def _mixture(name: str, found: _Types) -> DataWarning:
    """Returns the warning for a column that mixes dates or durations with other cells."""
    several = sorted(found.counts, key=lambda meaning: -found.counts[meaning])
    counted = " and ".join(_counted(found.counts[meaning], meaning) for meaning in several)
    read = ["dates as days since 1970-01-01"] if "date" in several else []
    read += ["durations as days"] if "duration" in several else []
    fewest = several[-1]
    return DataWarning(
        f"column {name!r} has {counted}, the first {fewest} in row {found.rows[fewest]}: read "
        f"as numbers, {' and '.join(read)}; use a single type, and None for missing cells",
        "MIXED_TYPES",
        name,
        found.counts[fewest],
    )


def _numbers(name: str, cells: Sequence[Any], meaning: Meaning, notes: list[DataWarning]) -> Floats:
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        values[row] = np.nan if is_missing(cell) else _number(name, row, cell, meaning)
    finite(name, values)
    note_lost_digits_of_cells(name, cells, values, notes)
    return values


def _number(name: str, row: int, cell: Any, meaning: Meaning) -> float:
    if _is_period(cell):
        cell = cell.start_time
    if isinstance(cell, datetime.date | np.datetime64):
        return float(days_since_1970(np.array([_naive_utc(cell)], "M8[us]"))[0])
    if isinstance(cell, datetime.timedelta | np.timedelta64):
        return float(days(np.array([cell], "m8[us]"))[0])
    if isinstance(cell, str | bytes):
        text = _text(cell)
        if not text or text.casefold() == "nan":
            return np.nan
        number = parse_as(text, meaning)
        if number is not None:
            return number
    else:
        try:
            return float(cell)
        except OverflowError:
            return math.inf
        except (TypeError, ValueError):
            pass
    called = "is numeric" if meaning == "number" else f"contains {meaning}s"
    spelling = isinstance(cell, str) and meaning == "number" and looks_like_number(cell)
    raise InvalidArgumentError(
        f"column {name!r} {called}, but its row {row} is {cell!r}: use {EXAMPLES[meaning]}"
        f"{' in the notation -1234.5' if spelling else ''}, or None if it is missing",
        fields=[name],
    )


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
