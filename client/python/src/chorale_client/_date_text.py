"""Dates as text: ISO 8601 dates, which are parsed, and others, which are only recognised."""

from __future__ import annotations

import datetime
import re

_ISO = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{2})"
    r"(?:-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|(?P<sign>[+-])(?P<zone_hour>\d{2})(?::?(?P<zone_minute>\d{2}))?)?)?)?",
    re.ASCII,
)
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_SECONDS_OF_DAY = 86_400
_NANOSECONDS = 10**9

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*[.,]? )?"
_YEAR = r"(?:\d{4}|'?\d{2})"
_TIME = r"(?:[T ,]+\d{1,2}:\d{2}.*)?"
_FORMS = (
    rf"\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}{_TIME}",  # 2012/1/31
    rf"\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}}){_TIME}",  # 31.1.2012, 1/31/12
    r"\d{4}-\d{1,2}",  # 2012-1
    r"\d{1,2}/\d{4}",  # 1/2012
    rf"{_MONTH}[ -]{_YEAR}",  # Jan 2012, Jan-12
    rf"\d{{4}}[ -]{_MONTH}",  # 2012 Jan
    rf"\d{{1,2}}\.?[ -]{_MONTH}[ -]{_YEAR}{_TIME}",  # 31 Jan 2012
    rf"{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}{_TIME}",  # January 31, 2012
    r"\d{4}[ -]?q[1-4]",  # 2012Q1
    r"q[1-4][ -/]?\d{4}",  # Q1 2012
    r"\d{4}-?w\d{2}(?:-?\d)?",  # 2012-W05
)
_LIKE_DATE = re.compile(_WEEKDAY + "(?:" + "|".join(_FORMS) + ")", re.ASCII | re.IGNORECASE)
_COMPACT_MONTH = re.compile(r"(19\d{2}|20\d{2}|2100)(0[1-9]|1[0-2])", re.ASCII)
_COMPACT = re.compile(r"(1[6-9]|2[01])\d{6}", re.ASCII)  # the years 1600 to 2199


def parse_date(text: str) -> float | None:
    """Converts an ISO 8601 date to days since 1970-01-01, with the time of day as a fraction.

    Formats are YYYY-MM-DD, optionally followed by "T" or a space, a time HH:MM[:SS[.FFFFFFFFF]] and
    an optional zone (Z, +HH, +HH:MM, +HHMM); and YYYY-MM, which denotes the first day of the month.
    A time with a zone is converted to UTC. None for other texts, and for days that do not exist.
    """
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    try:
        day = datetime.date(int(found["year"]), int(found["month"]), int(found["day"] or 1))
        hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
        time = datetime.time(hour, minute, second)
        zone = datetime.time(int(found["zone_hour"] or 0), int(found["zone_minute"] or 0))
    except ValueError:
        return None
    offset = 3600 * zone.hour + 60 * zone.minute
    seconds = 3600 * time.hour + 60 * time.minute + time.second
    seconds += offset if found["sign"] == "-" else -offset
    days, seconds = divmod(seconds, _SECONDS_OF_DAY)
    rest = seconds * _NANOSECONDS + int((found["fraction"] or "0").ljust(9, "0"))
    return day.toordinal() - _EPOCH + days + rest / (_SECONDS_OF_DAY * _NANOSECONDS)


def looks_like_date(text: str) -> bool:
    """Whether a person reads a text as a date, month, quarter or week, in any notation."""
    return _LIKE_DATE.fullmatch(text) is not None


def is_compact_date(text: str) -> bool:
    """Whether a text is an existing day in the notation YYYYMMDD."""
    return (
        _COMPACT.fullmatch(text) is not None
        and parse_date(f"{text[:4]}-{text[4:6]}-{text[6:]}") is not None
    )


def is_compact_month(text: str) -> bool:
    """Whether a text is a month of the years 1900 to 2100 in the notation YYYYMM."""
    return _COMPACT_MONTH.fullmatch(text) is not None
