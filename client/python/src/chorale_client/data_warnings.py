"""Warnings about data: what of a table was not taken as it stands."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chorale_client.v1 import chorale_pb2 as pb

_PACKAGE = str(Path(__file__).parent)

_SEASON = pb.Warning.Reason.Name(pb.Warning.SEASON)


class DataWarning(UserWarning):
    """Cells that were not taken as they stand, of one column and for one reason; or a season.

    Results list all of them. Python warns of them, but not of a season, which is no defect.

    Attributes:
        message: A sentence.
        reason: "OUTSIDE_BULK", "LEFT_OUT", "NEAREST_VALUE", "UNKNOWN_CATEGORY", "FAR_TARGET" or
            "SEASON" from the server; "MIXED_TYPES", "NUMBERS_AS_TEXT" or "LOST_DIGITS" from this
            package.
        column: The column's name; empty where some warnings had no room.
        cell_count: How many cells.
    """

    def __init__(
        self, message: str, reason: str = "", column: str = "", cell_count: int = 0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.column = column
        self.cell_count = cell_count

    def __reduce__(self) -> tuple[Any, ...]:
        return DataWarning, (self.message, self.reason, self.column, self.cell_count)


def read_warnings(messages: Iterable[pb.Warning]) -> tuple[DataWarning, ...]:
    """The server's warnings."""
    return tuple(
        DataWarning(m.message, pb.Warning.Reason.Name(m.reason), m.column, m.cell_count)
        for m in messages
    )


def merge_warnings(answers: Iterable[tuple[DataWarning, ...]]) -> tuple[DataWarning, ...]:
    """The warnings of answers about parts of one table: of a column and reason, one."""
    merged: dict[tuple[str, str], list[DataWarning]] = {}
    for answer in answers:
        for warning in answer:
            merged.setdefault((warning.reason, warning.column), []).append(warning)
    result = []
    for same in merged.values():
        first = same[0]
        count = sum(warning.cell_count for warning in same)
        message = first.message
        if len(same) > 1 and count > 0:  # the sentence has the count of the first answer
            message += f"; {count} cells in all rows together"
        result.append(DataWarning(message, first.reason, first.column, count))
    return tuple(result)


def tell(found: Iterable[DataWarning]) -> None:
    """Gives the warnings to Python's, at the line outside of this package that made the call.

    All but seasons, which are no defects: for one of these, nobody who turns warnings into errors
    should lose the context.
    """
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    for warning in found:
        if warning.reason != _SEASON:
            warnings.warn(warning, stacklevel=level)
