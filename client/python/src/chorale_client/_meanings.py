"""Meanings of numeric columns.

The API represents booleans as 0 and 1, dates as days since 1970-01-01, and durations as days. A
context stores the meaning of each column, so that query rows in other forms can be converted.
"""

from __future__ import annotations

from typing import Literal

Meaning = Literal["number", "boolean", "date", "duration"]
