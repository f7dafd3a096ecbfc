"""Which columns of a table count time, and of which series.

A numeric column without missing cells counts time if its values all differ, or at least differ within the series that
one or two other columns of few values tell, and are steps apart. Where neither is so, one row in REPEATS may have a
value that an earlier one has, of the table or else within such series: rows at one place count as one. The step is the
median gap: no gap is below half of it, all together are at most MOST_SPAN a place, and nine of ten are at most half
above it, or nine of ten are about whole numbers k of it (within a tenth of k and a quarter), as where days, weekends or
months are left out. Where so many are left out that this is not so, it may be the lower quartile of the gaps, if four
of ten are about one such step and nine of ten are about whole numbers of it.

Dates, in days since 1970-01-01, that are all the same day of a month up to the 28th, or all the last day of their
month, count months instead of days (`month_count.py`).

The server does the same (`engine/data/running_index.h`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from models.research.training.prior.month_count import MonthCount, month_count

Array = np.ndarray

ROWS = 16  # a context has at least
MOST_SPAN = 4  # steps a row
REPEATS = 20  # one row in so many may be at the place of another
SERIES_ROWS = 8  # of a series, on average
_GROUPINGS = 8  # columns that may tell the series, at most
_REPEATING = 8  # columns whose values repeat that are looked at, at most
_DISTINCT = 2  # columns of different values in which a period is sought, at most


class Index(NamedTuple):
    """A column of a context that counts time."""

    column: int
    first: float
    step: float
    series: list[Array]  # the context's rows of each series, by the column
    told_by: tuple[int, ...]  # the columns that tell the series
    months: MonthCount | None = None  # if it counts months: first and step are months, too

    def steps(self, x: Array) -> Array:
        """[R] of rows x [R, F], from the first row of the context."""
        values = x[:, self.column] if self.months is None else self.months.at(x[:, self.column])
        return (values - self.first) / self.step


def _step(series: list[Array]) -> float | None:
    """The step of values that count time, in series of ascending ones, of which equal ones count as one."""
    series = [np.unique(values) for values in series]
    gaps = np.concatenate([np.diff(values) for values in series])
    rows, spans = sum(map(len, series)), sum(float(values[-1] - values[0]) for values in series)
    if len(gaps) == 0 or gaps.min() <= 0 or not np.isfinite(spans):
        return None

    def share(holds: Array) -> float:
        return float(np.mean(holds))

    def whole(step: float) -> bool:
        count = np.rint(gaps / step)
        near = np.abs(gaps / step - count) <= np.minimum(0.1 * count, 0.25)
        return share((count >= 1) & near) >= 0.9 and gaps.min() >= 0.5 * step

    step, short = float(np.median(gaps)), float(np.sort(gaps)[(len(gaps) - 1) // 4])
    even = share(gaps <= 1.5 * step) >= 0.9 and gaps.min() >= 0.5 * step
    if not even and not whole(step):
        if not whole(short) or share(gaps <= 1.5 * short) < 0.4:
            return None
        step = short
    return step if spans / step <= MOST_SPAN * rows else None


def _codes(column: Array) -> tuple[Array, int]:
    """[R] the place of each value among those that there are, a missing one last, and how many there are."""
    values, codes = np.unique(column, return_inverse=True)  # NaN are one value, the last
    return codes.astype(np.int64), len(values)


def _split(groups: Array, count: int, values: Array) -> list[Array]:
    """The rows of each group, by value."""
    order = np.lexsort([values, groups])
    return np.split(order, np.searchsorted(groups[order], np.arange(1, count)))


class _Grouping(NamedTuple):
    told_by: tuple[int, ...]
    codes: Array  # [R]
    count: int


def _groupings(x: Array) -> Iterator[_Grouping]:
    """What may tell the series: columns of few values, those of fewest first, then two of them together."""
    most = len(x) // SERIES_ROWS
    single = [_Grouping((f,), *_codes(x[:, f])) for f in range(x.shape[1])]
    single = [grouping for grouping in single if 2 <= grouping.count <= most]
    single = sorted(single, key=lambda grouping: grouping.count)[:_GROUPINGS]
    yield from single
    for one, other in combinations(single, 2):
        codes, count = _codes(one.codes * other.count + other.codes)
        if count <= most:
            yield _Grouping(one.told_by + other.told_by, codes, count)


def _index(values: Array, column: int, series: list[Array], told_by: tuple[int, ...]) -> Index | None:
    step = _step([values[rows] for rows in series])
    return None if step is None else Index(column, float(values.min()), step, series, told_by)


def _of_one_series(values: Array, column: int) -> Index | None:
    return _index(values, column, [np.argsort(values, kind="stable")], ())


def _of_several(values: Array, column: int, groupings: list[_Grouping], repeats: int) -> Index | None:
    """By the first grouping in which so many values repeat at most."""
    codes, count = _codes(values)
    for grouping in groupings:
        different = len(np.unique(grouping.codes * count + codes))
        if column not in grouping.told_by and different >= len(values) - repeats:
            return _index(values, column, _split(grouping.codes, grouping.count, values), grouping.told_by)
    return None


def _of_repeating(values: Array, column: int, groupings: list[_Grouping]) -> Index | None:
    """Of a column whose values repeat: in no series, or in few rows."""
    index = _of_several(values, column, groupings, 0)
    few = len(values) // REPEATS
    if index is not None:
        return index
    if len(np.unique(values)) >= len(values) - few:
        return _of_one_series(values, column)
    return _of_several(values, column, groupings, few)


def find_indices(x: Array, is_categorical: Array, is_date: Array | None = None) -> list[Index]:
    """The numeric columns that may count time: the first that have only different values, then, of those that
    repeat them, the one with most."""
    if len(x) < ROWS:
        return []
    found: list[Index] = []
    repeating: list[tuple[int, int]] = []
    months = [month_count(x[:, f]) if is_date is not None and is_date[f] else None for f in range(x.shape[1])]

    def counted(column: int) -> Array:
        each = months[column]
        return x[:, column] if each is None else each.at(x[:, column])

    for column in np.flatnonzero(~np.asarray(is_categorical, bool)).tolist():
        values = x[:, column]
        if not np.isfinite(values).all():
            continue
        different = len(np.unique(values))
        if different < len(values):
            repeating += [(-different, column)] if different >= ROWS else []
        elif len(found) < _DISTINCT:
            index = _of_one_series(counted(column), column)
            found += [] if index is None else [index._replace(months=months[column])]
    groupings = list(_groupings(x)) if repeating else []
    for _, column in sorted(repeating)[:_REPEATING]:
        index = _of_repeating(counted(column), column, groupings)
        if index is not None:
            return [*found, index._replace(months=months[column])]
    return found
