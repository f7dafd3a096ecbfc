"""Numbers as text: numbers that are parsed, and numbers in another notation."""

from __future__ import annotations

import math
import re

_PLAIN = re.compile(r"[+\-\u2212]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)

_LONGEST = 64  # characters of a text that a person reads as a number
# Text before or after a number: comparisons, signs, currencies, percent signs, parentheses.
_DECORATIONS = re.compile(
    r"(?:[<>=~*()+\-%$\u00a3\u00a5\u20ac\u20b9\u20bd\u2264\u2265\u2248\u2030\u2212\u2013 ]"
    r"|USD|EUR|GBP|CHF|JPY|Rs\.?|kr)+"
)
_STARTS = re.compile(rf"(?:{_DECORATIONS.pattern})?[\d.\u221eiI]", re.ASCII)
# In lower case. Single letters are included if codes seldom end with them.
_UNITS = (
    "kg", "mg", "\u00b5g", "ug", "g", "t", "lb", "lbs", "oz", "km", "cm", "mm", "\u00b5m", "um",
    "nm", "m", "mi", "miles", "ft", "yd", "in", "inch", "inches", "m2", "m\u00b2", "m3",
    "m\u00b3", "km2", "km\u00b2", "cm2", "sqm", "sqft", "ha", "acres", "l", "ml", "cl", "gal",
    "s", "ms", "ns", "sec", "secs", "min", "mins", "h", "hr", "hrs", "hour", "hours", "d", "day",
    "days", "week", "weeks", "month", "months", "year", "years", "yr", "yrs", "km/h", "kmh",
    "kph", "mph", "m/s", "rpm", "hz", "khz", "mhz", "ghz", "w", "kw", "mw", "gw", "kwh", "mwh",
    "v", "mv", "kv", "ma", "j", "kj", "mj", "cal", "kcal", "pa", "hpa", "kpa", "mpa", "bar",
    "psi", "db", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "bytes", "ppm", "ppb", "pct",
    "percent", "\u00b0c", "\u00b0f", "\u00b0", "k", "pcs", "kg/m3", "kg/m\u00b3", "mg/l", "mg/dl",
    "\u00b5g/m3", "\u00b5g/m\u00b3",
)  # fmt: skip
_WIDE_SPACES = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2019": "'"})


def parse_number(text: str) -> float | None:
    """Parses a number such as "-1234.5" or "1e-3"; None for other texts and for infinity.

    The minus may be the typographic minus.
    """
    if _PLAIN.fullmatch(text) is None:
        return None
    value = float(text.replace("\u2212", "-"))
    return value if math.isfinite(value) else None


def looks_like_number(text: str) -> bool:
    """Whether a person reads a number that `parse_number` rejects: "1,5", "$3", "7 %", "5 kg"."""
    if len(text) > _LONGEST or not _STARTS.match(text) or parse_number(text) is not None:
        return False
    plain = _without_unit(_without_decorations(text.translate(_WIDE_SPACES)))
    if plain.lower() in ("inf", "infinity", "\u221e"):
        return True
    return parse_number(plain) is not None or _is_grouped(plain)


def has_leading_zero(text: str) -> bool:
    """Whether a text is an integer with a leading zero, such as a ZIP code."""
    return re.fullmatch(r"[+\-\u2212]?0\d+", text, re.ASCII) is not None


def _without_decorations(text: str) -> str:
    before = _DECORATIONS.match(text)
    start = before.end() if before else 0
    end = len(text)
    for after in _DECORATIONS.finditer(text, start):
        if after.end() == end:
            end = after.start()
    return text[start:end]


def _without_unit(text: str) -> str:
    small = text.lower()
    if small.endswith(_UNITS):
        for unit in _UNITS:
            number = text[: -len(unit)].removesuffix(" ")
            if small.endswith(unit) and number[-1:].isdigit():
                return number
    return text


def _is_grouped(text: str) -> bool:
    """Whether a text has digits with thousands separators and an optional decimal separator."""
    if re.fullmatch(r"\d+([ ,.'_]\d+)*", text, re.ASCII) is None:
        return False
    signs = re.findall(r"[ ,.'_]", text)
    sizes = [len(group) for group in re.split(r"[ ,.'_]", text)]
    for i, sign in enumerate(signs):
        last = i + 1 == len(signs)
        if last and sign in ",." and (i == 0 or sign != signs[i - 1]):
            continue  # it may be the decimal separator
        in_pairs = not last and sign == "," and sizes[i + 1] == 2  # as in India
        if sign != signs[0] or (sizes[i + 1] != 3 and not in_pairs):
            return False
    return True
