"""Columns that number or name the rows: pandas' index, and an index that was written to a file.

The command line drops the same columns of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from chorale_client._column_reading import ColumnReader
from chorale_client._columns import Column, NumericColumn
from chorale_client._data_warnings import DataWarning

_REASON = "UNUSED_INDEX"
# The name that pandas gives to columns without a name, such as an index that was written to a file.
_UNNAMED = re.compile(r"Unnamed: \d+(?:\.\d+)*", re.ASCII)


def unused_index(index: Any, columns: Mapping[str, Column]) -> Iterator[DataWarning]:
    """Yields warnings about levels of an index that may be meant as columns: dates, named levels.

    Args:
        index: The pandas index of the rows; other objects are ignored.
        columns: The columns of the table, by name; no warning for levels that a column repeats.
    """
    for level in range(getattr(index, "nlevels", 0)):
        labels = index.get_level_values(level)
        name = None if labels.name is None else str(labels.name)
        counts = type(labels).__name__ == "RangeIndex"
        dates = labels.dtype.kind == "M" or type(labels).__name__ == "PeriodIndex"
        if not (dates or name) or counts or name in columns:
            continue
        if dates and _is_among(labels, columns.values()):
            continue
        called = f"index {name!r}" if name else "index of dates"
        yield DataWarning(
            f"the table's {called} is not used: .reset_index() converts it to a column",
            _REASON,
            name or "",
            len(labels),
        )


def _is_among(dates: Any, columns: Iterable[Column]) -> bool:
    own = ColumnReader("index", []).read(dates)
    assert isinstance(own, NumericColumn)
    return any(
        isinstance(column, NumericColumn)
        and column.meaning == "date"
        and np.array_equal(column.values, own.values, equal_nan=True)
        for column in columns
    )


def drop_unnamed(
    columns: Mapping[str, Column], keep: Iterable[str], warnings: list[DataWarning]
) -> dict[str, Column]:
    """Drops the columns that have no name in a file and count the rows.

    Args:
        columns: The columns of a table, by name.
        keep: The names of columns whose type the caller has set.
        warnings: The list to which a warning is added for each dropped column.
    """
    kept = dict(columns)
    for name, column in columns.items():
        if _UNNAMED.fullmatch(name) is None or name in keep or not _counts_rows(column):
            continue
        del kept[name]
        warnings.append(
            DataWarning(
                f"column {name!r} has no name in its file and counts the rows: dropped as an "
                "index; to keep it, rename it",
                _REASON,
                name,
                len(column),
            )
        )
    return kept


def _counts_rows(column: Column) -> bool:
    """Whether a column has consecutive integers."""
    if not isinstance(column, NumericColumn) or column.meaning != "number" or not len(column):
        return False
    first = column.values[0]
    if not (first >= 0 and float(first).is_integer()):
        return False
    return bool((column.values == first + np.arange(len(column))).all())
