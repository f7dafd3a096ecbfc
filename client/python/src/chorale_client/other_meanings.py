"""Cells of a request that stand for something else than the context's column holds."""

from __future__ import annotations

import datetime

import numpy as np
import numpy.typing as npt

from chorale_client.columns import Floats
from chorale_client.data_warnings import DataWarning
from chorale_client.errors import InvalidArgumentError
from chorale_client.meanings import Meaning
from chorale_client.number_notes import compact_form

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY = datetime.date.min.toordinal() - _EPOCH
_LAST_DAY = datetime.date.max.toordinal() - _EPOCH
# What a number that is no day may count since 1970, and the least such number.
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


def meet(name: str, values: Floats, own: Meaning, held: Meaning, notes: list[DataWarning]) -> None:
    """Holds cells of a request to what the context's column holds.

    Numbers stand for themselves in each column, as the API takes them. Where they can be no days,
    as 20240131 or seconds since 1970, they are refused in a column of dates, and so is what is
    neither 0 nor 1 in one of booleans; else a note tells how they are read.

    Args:
        name: Of the column.
        values: [rows]; NaN where a cell is missing, or is not of the meaning `own`.
        own: What the cells stand for.
        held: What the context's column holds.
        notes: Gets a note if they differ.

    Raises:
        InvalidArgumentError: The column cannot take them.
    """
    present = ~np.isnan(values)
    called = f"column {name!r} holds {_CALLED[held]} in the context, but "
    if (own, held) == ("number", "boolean"):
        _check_truth(called, name, values, present)
    if own == held or not present.any() or {own, held} == {"number", "boolean"}:
        return
    row = int(present.argmax())
    if "number" not in (own, held):
        raise InvalidArgumentError(
            f"{called}its row {row} is a {own}: give {_CALLED[held]}", fields=[name]
        )
    if held == "date":
        _check_days(called, name, values, present)
    shown = f"row {row} is {_text(values[row])}" if own == "number" else f"the first in row {row}"
    if held == "date":
        shown += f", which is {datetime.date.fromordinal(_EPOCH + int(values[row] // 1))}"
    count = int(present.sum())
    notes.append(
        DataWarning(
            f"{called}{_CALLED[own]} are given in {count} of {len(values)} cells, {shown}: read as "
            f"{_READ_AS[own if held == 'number' else held]}; if that is not meant, "
            f"{_way_out(held)}",
            "OTHER_MEANING",
            name,
            count,
        )
    )


def _check_truth(called: str, name: str, values: Floats, present: npt.NDArray[np.bool_]) -> None:
    """InvalidArgumentError if a number is neither 0 nor 1."""
    outside = present & (values != 0) & (values != 1)
    if outside.any():
        row = int(outside.argmax())
        raise InvalidArgumentError(
            f"{called}its row {row} is {_text(values[row])}: give true or false, or 1 and 0",
            fields=[name],
        )


def _check_days(called: str, name: str, values: Floats, present: npt.NDArray[np.bool_]) -> None:
    """InvalidArgumentError if a number is a day of no date."""
    outside = present & ~((values >= _FIRST_DAY) & (values < _LAST_DAY + 1))
    if not outside.any():
        return
    row = int(outside.argmax())
    how = _conversion(values[outside])
    raise InvalidArgumentError(
        f"{called}its row {row} is {_text(values[row])}, which is no date as a number of days "
        f"since 1970-01-01: {_way_out('date')}, for example by pandas.to_datetime(...{how})",
        fields=[name],
    )


def _conversion(values: Floats) -> str:
    """The arguments of pandas.to_datetime that numbers probably need."""
    form = compact_form(values)
    if form is not None:
        return f", format={form!r}"
    least = float(np.abs(values).min())
    return next((f", unit={unit!r}" for unit, start in _UNITS if least >= start), "")


def _way_out(held: Meaning) -> str:
    if held == "date":
        return "give dates, or texts such as '2024-01-31'"
    return f"give {_CALLED[held]}"


def _text(value: float) -> str:
    return repr(float(value)).removesuffix(".0")
