"""What numbers or names the rows and is no feature: pandas' index, and what one becomes in a file.

The command line leaves out the same columns of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from chorale_client.column_reading import read_column
from chorale_client.columns import Column, NumericColumn
from chorale_client.data_warnings import DataWarning

_REASON = "UNUSED_INDEX"
# What pandas calls a column of a file that has no name, such as an index that was written with it.
_UNNAMED = re.compile(r"Unnamed: \d+(?:\.\d+)*", re.ASCII)


def note_index(index: Any, columns: Mapping[str, Column], notes: list[DataWarning]) -> None:
    """Notes the levels of an index that may be meant as columns: dates, and what has a name.

    Args:
        index: pandas' index of the rows, or anything else, which is none.
        columns: Of the table, by name.
        notes: Gets a note for each such level that no column repeats.
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
        notes.append(
            DataWarning(
                f"the table's {called} is not used: .reset_index() makes it a column",
                _REASON,
                name or "",
                len(labels),
            )
        )


def _is_among(dates: Any, columns: Iterable[Column]) -> bool:
    own = read_column("index", dates, None, [])
    assert isinstance(own, NumericColumn)
    return any(
        isinstance(column, NumericColumn)
        and column.meaning == "date"
        and np.array_equal(column.values, own.values, equal_nan=True)
        for column in columns
    )


def leave_out_unnamed(
    columns: Mapping[str, Column], keep: Iterable[str], notes: list[DataWarning]
) -> dict[str, Column]:
    """The columns without those that have no name in a file and count the rows.

    Args:
        columns: Of a table, by name.
        keep: Names of columns of which the caller has said what they are.
        notes: Gets a note for each that is left out.
    """
    kept = dict(columns)
    for name, column in columns.items():
        if _UNNAMED.fullmatch(name) is None or name in keep or not _counts_rows(column):
            continue
        del kept[name]
        notes.append(
            DataWarning(
                f"column {name!r} has no name in its file and counts the rows: it is left out as "
                "an index; to keep it, give it another name",
                _REASON,
                name,
                len(column),
            )
        )
    return kept


def _counts_rows(column: Column) -> bool:
    """Whether a column has whole numbers, each one more than the one before."""
    if not isinstance(column, NumericColumn) or column.meaning != "number" or not len(column):
        return False
    first = column.values[0]
    if not (first >= 0 and float(first).is_integer()):
        return False
    return bool((column.values == first + np.arange(len(column))).all())
