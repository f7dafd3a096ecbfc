"""Dates that are one day of each month, counted in calendar months.

The server does the same (`engine/data/month_count.h`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Array = np.ndarray

LAST_DAY = 31  # stands for the last day of each month
_MOST_SAME_DAY = 28  # of a month, which every month has
_FARTHEST = 1e8  # days from 1970, beyond which none is told


class MonthCount(NamedTuple):
    """Months from the same day of January 1970."""

    day: int  # of the month, or LAST_DAY

    def _starts(self, months: Array) -> Array:
        """[R] the days since 1970-01-01 at which these begin."""
        if self.day == LAST_DAY:
            return (months + 1).astype("datetime64[D]").astype(np.int64) - 1
        return months.astype("datetime64[D]").astype(np.int64) + self.day - 1

    def at(self, dates: Array) -> Array:
        """[R] of days since 1970-01-01; NaN where they are, or are too far away to tell."""
        told = np.abs(dates) <= _FARTHEST  # false for NaN
        days = np.where(told, dates, 0.0)
        months = np.floor(days).astype(np.int64).astype("datetime64[D]").astype("datetime64[M]")
        months = months - (days < self._starts(months))
        starts, ends = self._starts(months), self._starts(months + 1)
        return np.where(told, months.astype(np.int64) + (days - starts) / (ends - starts), np.nan)


def month_count(dates: Array) -> MonthCount | None:
    """Of days since 1970-01-01, none missing, that are all the same day of a month or the last one; else None."""
    if not (np.abs(dates) <= _FARTHEST).all() or (dates != np.floor(dates)).any():
        return None
    days = dates.astype(np.int64).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    of_month = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
    first = int(of_month[0])
    if (of_month == first).all() and first <= _MOST_SAME_DAY:
        return MonthCount(first)
    last = (months + 1).astype("datetime64[D]") - 1
    return MonthCount(LAST_DAY) if (days == last).all() else None
