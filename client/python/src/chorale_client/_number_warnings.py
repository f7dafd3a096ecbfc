"""Warnings about numeric columns: dates written as numbers."""

from __future__ import annotations

import numpy as np

from chorale_client._columns import Floats
from chorale_client._data_warnings import DataWarning

_FIRST_YEAR, _LAST_YEAR = 1900, 2100  # as for strings in the server
_LEAST_DATES = 3  # distinct dates


def dates_as_numbers(name: str, values: Floats) -> DataWarning | None:
    """Returns a warning if all numbers are dates like 20240131, or all are months like 202401."""
    present = ~np.isnan(values)
    dates = values[present]
    form = compact_form(dates)
    if form is None or len(np.unique(dates)) < _LEAST_DATES:
        return None
    row = int(present.argmax())
    return DataWarning(
        f"column {name!r} is read as numbers, but all look like dates written as numbers (row "
        f"{row} is {int(dates[0])}), which are not evenly spaced: convert them to dates, for "
        f"example by pandas.to_datetime(..., format={form!r}); "
        f"types={{{name!r}: 'numeric'}} keeps the numbers",
        "DATES_AS_NUMBERS",
        name,
        len(dates),
    )


def compact_form(values: Floats) -> str | None:
    """Returns the format of numbers that are all days or months, in the notation of pandas.

    Args:
        values: Numbers without NaN.

    Returns:
        "%Y%m%d" for existing days such as 20240131; "%Y%m" for months such as 202401; otherwise
        None.
    """
    if not values.size or values.min() < 100 * _FIRST_YEAR or values.max() >= 10**8:
        return None
    whole = values.astype(np.int64)
    if (whole != values).any():
        return None
    form = "%Y%m" if whole.max() < 10**6 else "%Y%m%d"
    months, day = (whole, np.ones_like(whole)) if form == "%Y%m" else (whole // 100, whole % 100)
    year, month = months // 100, months % 100
    if ((year < _FIRST_YEAR) | (year > _LAST_YEAR) | (month < 1) | (month > 12) | (day < 1)).any():
        return None
    first = (year - 1970).astype("M8[Y]").astype("M8[M]") + (month - 1)
    days = first.astype("M8[D]") + (day - 1)
    return form if (days.astype("M8[M]") == first).all() else None
