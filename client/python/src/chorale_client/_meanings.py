"""Meanings of numeric columns, and the conversion of text to such numbers.

The API represents booleans as 0 and 1, dates as days since 1970-01-01, and durations as days. A
context stores the meaning of each column, so that clients can convert query rows in other forms.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from chorale_client._date_text import parse_date
from chorale_client._number_text import parse_number

Meaning = Literal["number", "boolean", "date", "duration"]
MEANINGS: tuple[Meaning, ...] = get_args(Meaning)

_TRUE = frozenset({"true", "t", "yes", "y"})
_FALSE = frozenset({"false", "f", "no", "n"})
_DURATION = re.compile(
    r"(?:(?P<days>-?\d+) days?,?)? ?"
    r"(?:(?P<sign>[+-])?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?)?",
    re.ASCII,
)

EXAMPLES: dict[Meaning, str] = {
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as 2024-01-31",
    "duration": "a duration",
}


def is_boolean_text(text: str) -> bool:
    """Whether a text is "true" or "false", regardless of case."""
    return text.casefold() in ("true", "false")


def parse_as(text: str, meaning: Meaning) -> float | None:
    """Converts text to a number in a column with a meaning; None if that is not possible.

    Plain numbers are valid for each meaning; for booleans, only 0 and 1 are.
    """
    if meaning == "boolean":
        small = text.casefold()
        if small in _TRUE or small in _FALSE:
            return float(small in _TRUE)
        number = parse_number(text)
        return number if number in (0, 1) else None
    days: float | None = None
    if meaning == "date":
        days = parse_date(text)
    elif meaning == "duration":
        days = _parse_duration(text)
    return parse_number(text) if days is None else days


def _parse_duration(text: str) -> float | None:
    """Converts a duration in the notation of Python or pandas to days: "-1 day, 12:00:00"."""
    found = _DURATION.fullmatch(text)
    if found is None or (found["days"] is None and found["hour"] is None):
        return None
    seconds = (
        3600 * int(found["hour"] or 0)
        + 60 * int(found["minute"] or 0)
        + float(found["second"] or 0.0)
    )
    time = seconds / 86_400
    return int(found["days"] or 0) + (-time if found["sign"] == "-" else time)
