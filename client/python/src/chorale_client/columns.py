"""One column of a table: numbers, or categories and codes.

What becomes what:

| cells | column |
| --- | --- |
| integers, floats, decimals | numeric |
| booleans | numeric, 0 and 1; as categories "False" and "True" |
| dates and times | numeric: days since 1970-01-01, with the time of day as a fraction; of times with a zone those of UTC |
| durations | numeric: days |
| texts, categoricals | categorical; of another type, its text |
| None, NaN, NaT, NA, and texts without a visible character | missing |
"""  # noqa: E501

from __future__ import annotations

import datetime
import decimal
import numbers
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from chorale_client.data_warnings import DataWarning
from chorale_client.errors import InvalidArgumentError

Kind = Literal["numeric", "categorical"]
Floats = npt.NDArray[np.float64]

_EXACT = 2**53  # integers beyond are rounded by float64
_DAY = np.timedelta64(1, "D")
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class NumericColumn:
    """Attributes: name; values [rows], NaN where a cell is missing."""

    name: str
    values: Floats

    @property
    def kind(self) -> Kind:
        """Numeric."""
        return "numeric"

    def __len__(self) -> int:
        return len(self.values)

    def missing(self) -> npt.NDArray[np.bool_]:
        """[rows]."""
        return np.isnan(self.values)


@dataclass(frozen=True, eq=False)
class CategoricalColumn:
    """Attributes: name; categories, all different; codes [rows], -1 where a cell is missing."""

    name: str
    categories: list[str]
    codes: npt.NDArray[np.int32]

    @property
    def kind(self) -> Kind:
        """Categorical."""
        return "categorical"

    def __len__(self) -> int:
        return len(self.codes)

    def missing(self) -> npt.NDArray[np.bool_]:
        """[rows]."""
        return self.codes < 0


Column = NumericColumn | CategoricalColumn


def column_from_array(
    name: str, array: npt.NDArray[Any], kind: Kind | None, notes: list[DataWarning]
) -> Column:
    """A column from a numpy array of one dimension, of any dtype."""
    if array.ndim != 1:
        raise InvalidArgumentError(
            f"column {name!r} has {array.ndim} dimensions, must have 1: one value a row",
            fields=[name],
        )
    if isinstance(array, np.ma.MaskedArray):
        return column_from_cells(name, array.tolist(), kind, notes)
    letter = array.dtype.kind
    if letter in "biuf" and kind != "categorical":
        if letter in "iu":
            _note_lost_digits(name, array, notes)
        return NumericColumn(name, _finite(name, array.astype(np.float64)))
    if letter == "M" and kind != "categorical":
        return NumericColumn(name, _days(array - np.datetime64(0, "D")))
    if letter == "m" and kind != "categorical":
        return NumericColumn(name, _days(array))
    return column_from_cells(name, array.tolist() if letter != "O" else list(array), kind, notes)


def column_from_cells(
    name: str, cells: Sequence[Any], kind: Kind | None, notes: list[DataWarning]
) -> Column:
    """A column from Python objects: the kind follows from them where it is None."""
    inferred = _infer(name, cells, notes) if kind is None else kind
    if inferred == "numeric":
        return NumericColumn(name, _finite(name, _numbers(name, cells)))
    column = _categorical(name, cells)
    if kind is None:  # who has said that they are categories need not be asked
        _note_numbers_as_text(column, notes)
    return column


def is_missing(cell: Any) -> bool:
    """Whether a cell stands for no value: None, NaN, NaT, pandas' NA, a text with nothing in it."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return not cell or cell.isspace()
    if type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return isinstance(cell, numbers.Number) and bool(cell != cell)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, numbers.Real | decimal.Decimal | np.bool_)


def _is_time(cell: Any) -> bool:
    return isinstance(
        cell, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64
    )  # a datetime is a date


def _infer(name: str, cells: Sequence[Any], notes: list[DataWarning]) -> Kind:
    texts = others = 0
    example = None
    for cell in cells:
        if is_missing(cell):
            continue
        if _is_number(cell) or _is_time(cell):
            others += 1
        elif isinstance(cell, str | bytes):
            texts += 1
            example = example if example is not None else cell
        else:
            raise InvalidArgumentError(
                f"column {name!r} has a {type(cell).__name__}, which is neither a number, a date "
                "nor a text: convert it, or leave the column out",
                fields=[name],
            )
    if texts == 0:
        return "numeric"
    if others:
        notes.append(
            DataWarning(
                f"column {name!r} has numbers and {texts} texts such as {example!r}: read as "
                f"categories; if these cells are missing, set them to None",
                "MIXED_TYPES",
                name,
                texts,
            )
        )
    return "categorical"


def _numbers(name: str, cells: Sequence[Any]) -> Floats:
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        values[row] = np.nan if is_missing(cell) else _number(name, row, cell)
    return values


def _number(name: str, row: int, cell: Any) -> float:
    if isinstance(cell, datetime.date | np.datetime64):
        return float(_days(np.array([_naive_utc(cell)], "M8[us]") - np.datetime64(0, "D"))[0])
    if isinstance(cell, datetime.timedelta | np.timedelta64):
        return float(_days(np.array([cell], "m8[us]"))[0])
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"column {name!r} is numeric, but its row {row} is {cell!r}: give a number, or None if "
            "it is missing",
            fields=[name],
        ) from None


def _naive_utc(cell: Any) -> Any:
    if isinstance(cell, datetime.datetime) and cell.tzinfo is not None:
        return cell.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return cell


def _days(spans: npt.NDArray[np.timedelta64]) -> Floats:
    """Days with their fraction; NaN for NaT."""
    whole = spans.astype("m8[D]")
    rest = spans - whole  # exact, where one division of nanoseconds by a day would round
    days: Floats = whole.astype(np.float64) + rest / _DAY
    days[np.isnat(spans)] = np.nan
    return days


def _finite(name: str, values: Floats) -> Floats:
    infinite = np.isinf(values)
    if infinite.any():
        raise InvalidArgumentError(
            f"column {name!r} is infinite in row {int(infinite.argmax())}: give a finite number, "
            "or NaN if the cell is missing",
            fields=[name],
        )
    return values


def _note_lost_digits(name: str, array: npt.NDArray[Any], notes: list[DataWarning]) -> None:
    if not array.size or (array.max() <= _EXACT and array.min() >= -_EXACT):
        return
    count = int(((array > _EXACT) | (array < -_EXACT)).sum())
    notes.append(
        DataWarning(
            f"column {name!r} has {count} integers beyond 2**53, whose last digits are lost: leave "
            "it out if they are ids",
            "LOST_DIGITS",
            name,
            count,
        )
    )


def normal_text(text: str) -> str:
    """The one form of all texts that look equal: NFC, single spaces, nothing that is invisible."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")
    visible = (mark for mark in text if mark.isspace() or unicodedata.category(mark) != "Cf")
    return " ".join(unicodedata.normalize("NFC", "".join(visible)).split())


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


def _categorical(name: str, cells: Sequence[Any]) -> CategoricalColumn:
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
    return CategoricalColumn(name, list(code_of_text), codes)


def _note_numbers_as_text(column: CategoricalColumn, notes: list[DataWarning]) -> None:
    categories = column.categories
    if len(categories) > 2 and all(_reads_as_number(text) for text in categories):
        notes.append(
            DataWarning(
                f"column {column.name!r} has numbers as texts, read as {len(categories)} "
                f"categories: types={{{column.name!r}: 'numeric'}} reads them as numbers",
                "NUMBERS_AS_TEXT",
                column.name,
                int((column.codes >= 0).sum()),
            )
        )


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
