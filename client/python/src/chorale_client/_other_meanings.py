"""Query rows whose cells have another meaning than the context's column."""

from __future__ import annotations

import datetime

import numpy as np
import numpy.typing as npt

from chorale_client._columns import Floats
from chorale_client._data_warnings import DataWarning
from chorale_client._errors import InvalidArgumentError
from chorale_client._meanings import Meaning
from chorale_client._number_warnings import compact_form

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY = datetime.date.min.toordinal() - _EPOCH
_LAST_DAY = datetime.date.max.toordinal() - _EPOCH
# The units in which a number may count time since 1970, and the least such number.
_UNITS = (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", 1e8))

_CALLED: dict[Meaning, str] = {
    "number": "numbers",
    "boolean": "booleans",
    "date": "dates",
    "duration": "durations",
}
_READ_AS: dict[Meaning, str] = {
    "date": "days since 1970-01-01",
    "duration": "numbers of days",
}


def other_meaning(name: str, values: Floats, own: Meaning, held: Meaning) -> DataWarning | None:
    """Checks cells of query rows against the meaning of the context's column.

    Numbers are valid for each meaning, as in the API, with a warning. Exceptions are numbers that
    cannot be days, such as 20240131 or seconds since 1970, in a column of dates, and numbers other
    than 0 and 1 in a column of booleans. These are rejected.

    Args:
        name: The name of the column.
        values: [rows]; NaN for missing cells.
        own: The meaning of the cells.
        held: The meaning of the context's column.

    Returns:
        A warning if the meanings differ.

    Raises:
        InvalidArgumentError: The cells are not valid for the column.
    """
    present = ~np.isnan(values)
    called = f"column {name!r} holds {_CALLED[held]} in the context, but "
    if (own, held) == ("number", "boolean"):
        _check_truth(called, name, values, present)
    if own == held or not present.any() or {own, held} == {"number", "boolean"}:
        return None
    row = int(present.argmax())
    if "number" not in (own, held):
        raise InvalidArgumentError(
            f"{called}its row {row} is a {own}: use {_CALLED[held]}", fields=[name]
        )
    if held == "date":
        _check_days(called, name, values, present)
    shown = f"row {row} is {_text(values[row])}" if own == "number" else f"the first in row {row}"
    if held == "date":
        shown += f", which is {datetime.date.fromordinal(_EPOCH + int(values[row] // 1))}"
    count = int(present.sum())
    return DataWarning(
        f"{called}{count} of {len(values)} cells are {_CALLED[own]} ({shown}): read as "
        f"{_READ_AS[own if held == 'number' else held]}; if this is not intended, "
        f"{_way_out(held)}",
        "OTHER_MEANING",
        name,
        count,
    )


def _check_truth(called: str, name: str, values: Floats, present: npt.NDArray[np.bool_]) -> None:
    """Raises InvalidArgumentError if a number is neither 0 nor 1."""
    outside = present & (values != 0) & (values != 1)
    if outside.any():
        row = int(outside.argmax())
        raise InvalidArgumentError(
            f"{called}its row {row} is {_text(values[row])}: use true and false, or 1 and 0",
            fields=[name],
        )


def _check_days(called: str, name: str, values: Floats, present: npt.NDArray[np.bool_]) -> None:
    """Raises InvalidArgumentError if a number of days is outside the range of dates."""
    outside = present & ~((values >= _FIRST_DAY) & (values < _LAST_DAY + 1))
    if not outside.any():
        return
    row = int(outside.argmax())
    how = _conversion(values[outside])
    raise InvalidArgumentError(
        f"{called}its row {row} is {_text(values[row])}, which is not a valid number of days since "
        f"1970-01-01: {_way_out('date')}, for example by pandas.to_datetime(...{how})",
        fields=[name],
    )


def _conversion(values: Floats) -> str:
    """Returns the arguments of pandas.to_datetime that numbers probably need."""
    form = compact_form(values)
    if form is not None:
        return f", format={form!r}"
    least = float(np.abs(values).min())
    return next((f", unit={unit!r}" for unit, start in _UNITS if least >= start), "")


def _way_out(held: Meaning) -> str:
    if held == "date":
        return "use dates, or strings such as '2024-01-31'"
    return f"use {_CALLED[held]}"


def _text(value: float) -> str:
    return repr(float(value)).removesuffix(".0")
