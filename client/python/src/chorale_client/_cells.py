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

from chorale_client._columns import CategoricalColumn, Floats
from chorale_client._data_warnings import DataWarning
from chorale_client._encodable import check_encodable
from chorale_client._errors import InvalidArgumentError
from chorale_client._meanings import EXAMPLES, MEANINGS, Meaning, parse_as
from chorale_client._number_text import looks_like_number, parse_number
from chorale_client._text_normalisation import normal_text

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


class CellTypes:
    """The types of the cells of a column.

    Attributes:
        texts: The number of strings.
        others: The number of cells that are neither strings nor missing.
    """

    def __init__(self, name: str, cells: Iterable[Any]) -> None:
        self.texts = 0
        self._name = name
        self._example: Any = None  # the first string
        self._counts: dict[Meaning, int] = {}  # the other cells, by their meaning
        self._rows: dict[Meaning, int] = {}  # the first row of each meaning
        for row, cell in enumerate(cells):
            if not is_missing(cell):
                self._add(row, cell)
        self.others = sum(self._counts.values())

    def _add(self, row: int, cell: Any) -> None:
        if isinstance(cell, str | bytes):
            self.texts += 1
            self._example = cell if self._example is None else self._example
            return
        meaning = _meaning_of_cell(cell)
        if meaning is None:
            raise InvalidArgumentError(
                f"column {self._name!r} has a cell of type {type(cell).__name__}, which is not a "
                "number, a date or a string: convert it, or drop the column",
                fields=[self._name],
            )
        self._counts[meaning] = self._counts.get(meaning, 0) + 1
        self._rows.setdefault(meaning, row)

    @property
    def meaning(self) -> Meaning:
        """The meaning of the cells that are not strings; "number" if they have several."""
        return next(iter(self._counts)) if len(self._counts) == 1 else "number"

    def strings_and_others(self) -> DataWarning:
        """Returns the warning for a column of strings and other cells."""
        others = " and ".join(f"{meaning}s" for meaning in MEANINGS if meaning in self._counts)
        return DataWarning(
            f"column {self._name!r} has {others} and {_counted(self.texts, 'string')} such as "
            f"{self._example!r}: read as categories; if such cells are missing, set them to None",
            "MIXED_TYPES",
            self._name,
            self.texts,
        )

    def several_meanings(self) -> DataWarning | None:
        """Returns a warning if a column mixes dates or durations with other cells."""
        counts = self._counts
        if len(counts) < 2 or counts.keys() == {"number", "boolean"}:
            return None
        several = sorted(counts, key=lambda meaning: -counts[meaning])
        counted = " and ".join(_counted(counts[meaning], meaning) for meaning in several)
        read = ["dates as days since 1970-01-01"] if "date" in several else []
        read += ["durations as days"] if "duration" in several else []
        fewest = several[-1]
        return DataWarning(
            f"column {self._name!r} has {counted}, the first {fewest} in row {self._rows[fewest]}: "
            f"read as numbers, {' and '.join(read)}; use a single type, and None for missing cells",
            "MIXED_TYPES",
            self._name,
            counts[fewest],
        )


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


def meanings_of_cells(cells: Sequence[Any], held: Meaning) -> npt.NDArray[Any]:
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


def number_of_cell(name: str, row: int, cell: Any, meaning: Meaning) -> float:
    """Converts a cell to a number in a column with a meaning; infinity if it is too large."""
    if is_missing(cell):
        return np.nan
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
