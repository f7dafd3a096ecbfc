"""Arguments that are numbers."""

from __future__ import annotations

import math
from typing import Any

from chorale_client._errors import InvalidArgumentError


def number_of(value: Any) -> float:
    """Returns an argument as a float; NaN if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def target_error(field: str, value: float | None) -> float:
    """Returns a target error as in requests, where 0 means that there is none.

    Raises:
        InvalidArgumentError: The value is not a finite number above 0.
    """
    if value is None:
        return 0.0
    number = number_of(value)
    if not (math.isfinite(number) and number > 0):
        message = f"{field}: {value!r}, must be a finite number above 0"
        raise InvalidArgumentError(message, fields=[field])
    return number
