"""Infers the type of a column of strings: booleans, dates, or categories.

Warns about categories that are probably numbers, dates or IDs. The command line reads the text of a
file by the same rules, except for plain numbers: in a table of a library with its own types,
numbers that are strings may be meant as categories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from chorale_client._columns import CategoricalColumn, Column, NumericColumn
from chorale_client._data_warnings import DataWarning
from chorale_client._date_text import is_compact_date, is_compact_month, looks_like_date, parse_date
from chorale_client._meanings import Meaning, is_boolean_text, parse_as
from chorale_client._number_text import has_leading_zero, looks_like_number, parse_number

_FEW_NUMBERS = 2  # distinct strings, such as "0" and "1", which may be categories
_LEAST_MONTHS = 3  # distinct months, as for months that are numbers
_MOST_JUDGED = 10_000  # distinct strings; servers reject columns with more categories
_LEAST_DIFFERENT = 20  # cells
_SHARE_DIFFERENT = 0.9


def meaning_of_texts(texts: Sequence[str]) -> Meaning:
    """Returns the meaning of strings that are converted to numbers."""
    if any(map(is_boolean_text, texts)) and all(
        is_boolean_text(text) or parse_number(text) in (0, 1) for text in texts
    ):
        return "boolean"
    if texts and all(parse_date(text) is not None for text in texts):
        return "date"
    return "number"


def column_of_texts(column: CategoricalColumn) -> tuple[Column, DataWarning | None]:
    """Returns the column of strings whose type the caller has not set, and a warning about it.

    Args:
        column: The strings as categories.
    """
    meaning = meaning_of_texts(column.categories)
    if meaning == "number":
        return column, _warning(column)
    numbers = [parse_as(text, meaning) for text in column.categories]
    values = np.array([*numbers, np.nan], dtype=np.float64)[column.codes]
    warning = None
    if meaning == "date":
        warning = DataWarning(
            f"column {column.name!r} has dates as strings, such as {column.categories[0]!r}: read "
            f"as days since 1970-01-01; types={{{column.name!r}: 'categorical'}} keeps the strings",
            "READ_AS_DATES",
            column.name,
            int((column.codes >= 0).sum()),
        )
    return NumericColumn(column.name, values, meaning), warning


class _Texts:
    """The distinct strings of a column, and the number of cells with each."""

    def __init__(self, column: CategoricalColumn) -> None:
        self.column = column
        present = column.codes[column.codes >= 0]
        self.counts = np.bincount(present, minlength=len(column.categories))
        self.cells = int(self.counts.sum())

    def that(self, test: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """Returns which strings pass a test [categories]."""
        return np.array([test(text) for text in self.column.categories], dtype=bool)

    def cells_of(self, some: npt.NDArray[np.bool_]) -> int:
        """Returns the number of cells with one of some strings."""
        return int(self.counts[some].sum())

    def first(self, some: npt.NDArray[np.bool_]) -> str:
        """Describes the first cell with one of some strings."""
        row = int(np.isin(self.column.codes, np.flatnonzero(some)).argmax())
        return f"row {row} is {self.column.categories[self.column.codes[row]]!r}"


def _warning(column: CategoricalColumn) -> DataWarning | None:
    """Returns the most specific warning about a column of categories, if there is one."""
    texts = _Texts(column)
    if not texts.cells or len(column.categories) > _MOST_JUDGED:
        return None
    numbers = texts.that(lambda text: parse_number(text) is not None)
    dates = texts.that(looks_like_date)
    odd = texts.that(looks_like_number) & ~dates
    called = f"column {column.name!r}"
    if numbers.all():
        if len(numbers) >= _LEAST_MONTHS and texts.that(is_compact_month).all():
            return _dates_as_text(texts, numbers, "(..., format='%Y%m')")
        if texts.that(is_compact_date).all():
            return _dates_as_text(texts, numbers)
        if not texts.that(has_leading_zero).any() and len(numbers) > _FEW_NUMBERS:
            return DataWarning(
                f"{called} has numbers as strings, read as {len(numbers)} categories: "
                f"types={{{column.name!r}: 'numeric'}} reads them as numbers",
                "NUMBERS_AS_TEXT",
                column.name,
                texts.cells,
            )
    elif 2 * texts.cells_of(odd) > texts.cells:
        return DataWarning(
            f"{called} is read as {len(numbers)} categories, but {texts.cells_of(odd)} of its "
            f"{texts.cells} cells look like numbers in another notation ({texts.first(odd)}): "
            "convert them to numbers, or to the notation -1234.5",
            "NUMBERS_AS_TEXT",
            column.name,
            texts.cells_of(odd),
        )
    elif 2 * texts.cells_of(dates) > texts.cells:
        return _dates_as_text(texts, dates)
    elif 2 * texts.cells_of(numbers) >= texts.cells:
        return DataWarning(
            f"{called} is read as categories because {texts.cells_of(~numbers)} of its "
            f"{texts.cells} cells are not numbers ({texts.first(~numbers)}): if these are missing, "
            f"set them to None, and pass types={{{column.name!r}: 'numeric'}}",
            "MIXED_TYPES",
            column.name,
            texts.cells_of(~numbers),
        )
    if texts.cells >= _LEAST_DIFFERENT and len(numbers) >= _SHARE_DIFFERENT * texts.cells:
        return DataWarning(
            f"{called} has {len(numbers)} distinct strings in {texts.cells} cells, which are "
            "hardly informative as categories: if these are IDs or free text, drop the column",
            "ALL_DISTINCT",
            column.name,
            texts.cells,
        )
    return None


def _dates_as_text(texts: _Texts, dates: npt.NDArray[np.bool_], arguments: str = "") -> DataWarning:
    name = texts.column.name
    readable = texts.that(lambda text: parse_date(text) is not None)
    called = f"column {name!r} is read as categories, which have no order, "
    if 2 * texts.cells_of(readable) > texts.cells:
        message = (
            f"{called}because {texts.cells_of(~readable)} of its {texts.cells} cells are not dates "
            f"like the others ({texts.first(~readable)}): correct these, or set them to None if "
            "they are missing"
        )
    else:
        message = (
            f"{called}but {texts.cells_of(dates)} of its {texts.cells} cells look like dates "
            f"({texts.first(dates & ~readable)}): convert them to dates, for example by "
            f"pandas.to_datetime{arguments}, or to strings such as '2024-01-31'"
        )
    return DataWarning(message, "DATES_AS_TEXT", name, texts.cells_of(dates))
