"""Warnings about tables: cells that were changed or are suspicious."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from chorale_client._v1 import chorale_pb2 as pb

Severity = Literal["info", "warning"]

_PACKAGE = str(Path(__file__).parent)

_SEVERAL = "SEVERAL"
_MOST_NAMES = 20  # columns in a message
_CLIPPED_TARGET = "CLIPPED_TARGET"


class DataWarning(UserWarning):
    r"""A warning about cells of a column that were changed or are suspicious, or about a season.

    The `warnings` of a result have an entry for each column and reason. Python issues a single
    `DataWarning` per call, whose `parts` are the entries with the severity "warning". Entries with
    the severity "info", about seasons, snapping and strings that are dates, are not defects. The
    text of a warning ends with its reason, so that filters can match the reason:

        warnings.filterwarnings("ignore", r".*\[OUTLIERS\]", chorale_client.DataWarning)

    ignores the warnings with this reason, and keeps the others.

    Attributes:
        message: The warning as human-readable text.
        reason: From the server: "OUTLIERS", "DROPPED_COLUMN", "DROPPED_ROWS", "NEAREST_VALUE",
            "UNKNOWN_CATEGORY", "CLIPPED_TARGET", "SEASON", "SNAPPED", "NO_INDEX",
            "BEYOND_TRAINING"; about strings: "READ_AS_DATES", "NUMBERS_AS_TEXT", "DATES_AS_TEXT",
            "DATES_AS_NUMBERS", "MIXED_TYPES", "ALL_DISTINCT", "LEADING_ZEROS", "LARGE_INTEGERS".
            From this package: "DATES_AS_NUMBERS" about numbers, "OTHER_MEANING", "UNUSED_INDEX",
            "NO_KNOWN_VALUES" about `given`, "FEW_EFFECTIVE_PATHS" about `total`, "NOT_IMPUTED"
            about `impute`. "SEVERAL" if the parts have several reasons.
        column: The name of the column; empty if the server truncated its list of warnings, or if
            the parts are about several columns.
        cell_count: The number of affected cells, over all parts.
        severity: "info" for properties of the data that are not defects, otherwise "warning".
    """

    def __init__(
        self,
        message: str,
        reason: str = "",
        column: str = "",
        cell_count: int = 0,
        parts: Sequence[DataWarning] = (),
        severity: Severity = "warning",
    ) -> None:
        shown = not reason or message.endswith(f"[{reason}]") or reason == _SEVERAL
        super().__init__(message if shown else f"{message} [{reason}]")
        self.message = message
        self.reason = reason
        self.column = column
        self.cell_count = cell_count
        self.severity = severity
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[DataWarning, ...]:
        """The joined warnings, each about one column and reason, or otherwise this warning."""
        return self._parts or (self,)

    @property
    def columns(self) -> tuple[str, ...]:
        """The distinct names of the columns of all parts."""
        return tuple(dict.fromkeys(part.column for part in self.parts))

    def __reduce__(self) -> tuple[Any, ...]:
        return DataWarning, (
            self.message,
            self.reason,
            self.column,
            self.cell_count,
            self._parts,
            self.severity,
        )


def read_warnings(messages: Iterable[pb.Warning]) -> tuple[DataWarning, ...]:
    """Converts the server's warnings."""
    return tuple(
        DataWarning(
            m.message,
            pb.Warning.Reason.Name(m.reason).removeprefix("REASON_"),
            m.column,
            m.cell_count,
            severity="info" if m.severity == pb.Warning.SEVERITY_INFO else "warning",
        )
        for m in messages
    )


def merge_warnings(answers: Iterable[tuple[DataWarning, ...]]) -> tuple[DataWarning, ...]:
    """Merges the warnings about parts of a table into one warning per column and reason."""
    merged: dict[tuple[str, str], list[DataWarning]] = {}
    for answer in answers:
        for warning in answer:
            merged.setdefault((warning.reason, warning.column), []).append(warning)
    result = []
    for same in merged.values():
        first = same[0]
        if first.reason == _CLIPPED_TARGET:  # it counts values of the context, not of the request
            result.append(first)
            continue
        count = sum(warning.cell_count for warning in same)
        message = first.message
        if len(same) > 1 and count > 0:  # the message has the count of the first part
            message += f"; {count} cells in all rows together"
        result.append(
            DataWarning(message, first.reason, first.column, count, severity=first.severity)
        )
    return tuple(result)


def join_warnings(found: Sequence[DataWarning]) -> DataWarning:
    """Joins warnings into one, with the first message of each reason."""
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


def tell(found: Iterable[DataWarning]) -> None:
    """Issues the warnings of a call as a single Python warning, at the caller's line.

    Omits those with the severity "info": they are not defects, and must not end programs that turn
    warnings into errors. Also omits the warnings that a filter ignores, so that filters for a
    reason or column apply to joined warnings.
    """
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    module = str(frame.f_globals.get("__name__", ""))
    told = [
        warning
        for warning in found
        if warning.severity == "warning" and not _is_ignored(warning, module, frame.f_lineno)
    ]
    if told:
        warnings.warn(join_warnings(told), stacklevel=level)


def _is_ignored(warning: DataWarning, module: str, line: int) -> bool:
    """Whether the first of Python's filters that matches the warning ignores it."""
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
    """Whether a part of a filter (a pattern, a string or None) matches a text."""
    if pattern is None or isinstance(pattern, str):
        return pattern is None or pattern == text
    return pattern.match(text) is not None
