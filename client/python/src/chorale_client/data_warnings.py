"""Warnings about data: what of a table was not taken as it stands."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chorale_client.v1 import chorale_pb2 as pb

_PACKAGE = str(Path(__file__).parent)

_SEVERAL = "SEVERAL"
_MOST_NAMES = 20  # of columns in a message
_SEASON = pb.Warning.Reason.Name(pb.Warning.SEASON)
_SNAPPED = pb.Warning.Reason.Name(pb.Warning.SNAPPED)
_FAR_TARGET = pb.Warning.Reason.Name(pb.Warning.FAR_TARGET)


class DataWarning(UserWarning):
    r"""Cells that were not taken as they stand, of one column and for one reason; or a season.

    Results list all of them. Python warns of them once a call, in one `DataWarning` whose `parts`
    are those that a result lists; and not of a season, which is no defect, nor at registration of
    the values that draws will be snapped to. As a text, a warning has its reason at its end, so
    filters can name it:

        warnings.filterwarnings("ignore", r".*\[OUTSIDE_BULK\]", chorale_client.DataWarning)

    leaves those of this reason out, and keeps the others.

    Attributes:
        message: A sentence.
        reason: "OUTSIDE_BULK", "LEFT_OUT", "NEAREST_VALUE", "UNKNOWN_CATEGORY", "FAR_TARGET",
            "SEASON", "SNAPPED" or "NO_INDEX" from the server; "MIXED_TYPES", "NUMBERS_AS_TEXT",
            "DATES_AS_TEXT", "DATES_AS_NUMBERS", "READ_AS_DATES", "OTHER_MEANING", "ALL_DIFFERENT",
            "LOST_DIGITS" or "UNUSED_INDEX" from this package; "SEVERAL" if the parts have several.
        column: The column's name; empty where some warnings had no room, or the parts are of
            several columns.
        cell_count: How many cells, of all parts.
    """

    def __init__(
        self,
        message: str,
        reason: str = "",
        column: str = "",
        cell_count: int = 0,
        parts: Sequence[DataWarning] = (),
    ) -> None:
        shown = not reason or message.endswith(f"[{reason}]") or reason == _SEVERAL
        super().__init__(message if shown else f"{message} [{reason}]")
        self.message = message
        self.reason = reason
        self.column = column
        self.cell_count = cell_count
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[DataWarning, ...]:
        """Those that this one tells of, each of one column and reason: else itself."""
        return self._parts or (self,)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of all parts, each once."""
        return tuple(dict.fromkeys(part.column for part in self.parts))

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.message, self.reason, self.column, self.cell_count, self._parts)
        return DataWarning, arguments


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
        if first.reason == _FAR_TARGET:  # it counts the context's values, whatever was asked
            result.append(first)
            continue
        count = sum(warning.cell_count for warning in same)
        message = first.message
        if len(same) > 1 and count > 0:  # the sentence has the count of the first answer
            message += f"; {count} cells in all rows together"
        result.append(DataWarning(message, first.reason, first.column, count))
    return tuple(result)


def join_warnings(found: Sequence[DataWarning]) -> DataWarning:
    """One warning of all; of those with one reason it has the first's sentence."""
    if len(found) == 1:
        return found[0]
    by_reason: dict[str, list[DataWarning]] = {}
    for warning in found:
        by_reason.setdefault(warning.reason, []).append(warning)
    sentences = []
    for reason, same in by_reason.items():
        others = [repr(warning.column) for warning in same[1:] if warning.column]
        more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
        likewise = f"; likewise {', '.join(others[:_MOST_NAMES])}{more}" if others else ""
        sentences.append(f"{same[0].message}{likewise}" + (f" [{reason}]" if reason else ""))
    reasons = list(by_reason)
    columns = {warning.column for warning in found}
    return DataWarning(
        "; ".join(sentences),
        reasons[0] if len(reasons) == 1 else _SEVERAL,
        columns.pop() if len(columns) == 1 else "",
        sum(warning.cell_count for warning in found),
        found,
    )


def tell(found: Iterable[DataWarning], *, registered: bool = False) -> None:
    """Gives the warnings of a call to Python's, as one, at the line outside of this package.

    All but seasons and, when a table was `registered`, the values that draws will be snapped to:
    these are no defects, and nobody who turns warnings into errors should lose the context for
    them. And all but those that a filter ignores, so that a filter for one
    reason or column works although they are joined.
    """
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    module = str(frame.f_globals.get("__name__", ""))
    untold = {_SEASON, _SNAPPED} if registered else {_SEASON}
    told = [
        warning
        for warning in found
        if warning.reason not in untold and not _is_ignored(warning, module, frame.f_lineno)
    ]
    if told:
        warnings.warn(join_warnings(told), stacklevel=level)


def _is_ignored(warning: DataWarning, module: str, line: int) -> bool:
    """Whether the first of Python's filters that is about the warning ignores it."""
    for action, message, category, where, at in warnings.filters:
        if (
            issubclass(DataWarning, category)
            and (not at or at == line)
            and _is_about(message, str(warning))
            and _is_about(where, module)
        ):
            return action == "ignore"
    return False


def _is_about(pattern: Any, text: str) -> bool:
    """Whether a part of a filter, which has a pattern, a text or None, is about a text."""
    if pattern is None or isinstance(pattern, str):
        return pattern is None or pattern == text
    return pattern.match(text) is not None
