"""Known totals of the rows of a call, or of each of its groups."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from chorale_client._columns import Floats, Integers
from chorale_client._data_warnings import DataWarning
from chorale_client._errors import (
    ChoraleError,
    DataLossError,
    InvalidArgumentError,
    UnimplementedError,
)
from chorale_client._groups import Groups
from chorale_client._v1 import chorale_pb2 as pb

# A field of the message, with the index of a group.
_FIELD = re.compile(r"\bknown_totals(?:\.(?:lower|upper))?(?:\[(\d+)\])?")
# With fewer effective paths, intervals of 90 % are noticeably too narrow.
_FEW_PATHS = 100


@dataclass(frozen=True, eq=False)
class KnownTotals:
    """The known totals of the groups of a call.

    Attributes:
        groups: The groups; without groups, all rows count as one group.
        lower: [groups]: the lower ends; -inf: none. The total is known exactly if both are equal.
        upper: [groups]: the upper ends; inf: none.
    """

    groups: Groups
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, total: Any, groups: Groups) -> KnownTotals | None:
        """Returns the totals of an argument; None if it is None.

        Args:
            total: A total: a number, or a pair of ends, of which None is no end. With groups, a
                total for each group, or a mapping of labels to totals.
            groups: The groups.

        Raises:
            InvalidArgumentError: It is something else, a number is NaN, the ends are in the wrong
                order, or a label is not that of a group.
        """
        if total is None:
            return None
        if hasattr(total, "items"):
            ends = _of_labels(dict(total.items()), groups)
        else:
            ends = [_ends(total, "")] * len(groups)
        lower, upper = np.array(ends, dtype=np.float64).T
        return cls(groups, lower, upper)

    def message(self) -> pb.KnownTotals:
        """Returns the message."""
        return pb.KnownTotals(lower=self.lower, upper=self.upper)

    def locate(self, error: ChoraleError) -> None:
        """Changes an error about the message to an error about the argument and its group."""

        def place(found: re.Match[str]) -> str:
            if found[1] is None or self.groups.labels is None:
                return "total"
            return f"total of the group {self.groups.labels[int(found[1])]!r}"

        error.message = _FIELD.sub(place, error.message)
        error.args = (error.message,)
        error.fields = tuple(_FIELD.sub("total", field) for field in error.fields)

    def log_weights(self, summary: pb.SampleSummary, path_count: int) -> Floats:
        """Returns the log-weights in a summary: [paths], or [paths, groups].

        Raises:
            UnimplementedError: The server has ignored the totals.
            DataLossError: The number is another one.
        """
        weights = np.asarray(summary.total_log_weights, dtype=np.float64)
        if not weights.size:
            raise UnimplementedError(
                "total: the server does not support known totals, because it is older than this "
                "package: upgrade the server"
            )
        if weights.size != path_count * len(self.groups):
            raise DataLossError(
                f"the server sent {weights.size} weights of {path_count} paths of "
                f"{len(self.groups)} groups"
            )
        return weights if self.groups.labels is None else weights.reshape(path_count, -1)

    def warnings(self, log_weights: Floats) -> tuple[DataWarning, ...]:
        """Returns the warning about a small effective sample size."""
        sizes = np.atleast_1d(effective_sample_size(log_weights))
        smallest = int(sizes.argmin())
        if sizes[smallest] >= _FEW_PATHS:
            return ()
        labels = self.groups.labels
        where = "" if labels is None else f" in the group {labels[smallest]!r}"
        message = (
            f"the effective sample size is {sizes[smallest]:.3g} of {len(log_weights)} paths{where}"
            f"; with fewer than {_FEW_PATHS}, intervals are too narrow: draw more paths"
        )
        return (DataWarning(message, "FEW_EFFECTIVE_PATHS"),)

    def group_of_row(self) -> Integers:
        """Returns the position of the group of each row of the table [rows]."""
        return np.repeat(np.arange(len(self.groups)), self.groups.sizes)[self.groups.places]


def effective_sample_size(log_weights: Floats) -> Floats:
    """Returns (sum w)^2 / sum w^2 over the paths: a number, or [groups]; 0 if all weights are 0."""
    largest = log_weights.max(axis=0)
    weights = np.exp(log_weights - np.where(np.isfinite(largest), largest, 0.0))
    squares = (weights**2).sum(axis=0)
    return np.asarray(weights.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0))


def _of_labels(totals: dict[Any, Any], groups: Groups) -> list[tuple[float, float]]:
    """Returns the ends of each group; a group without a total has infinite ends."""
    if groups.labels is None:
        raise _invalid("totals of labels require groupby")
    unknown = [label for label in totals if label not in groups.labels]
    if unknown:
        raise _invalid(f"there is no group {unknown[0]!r}")
    return [
        _ends(totals[label], f" of the group {label!r}")
        if label in totals and not _is_missing(totals[label])
        else (-math.inf, math.inf)
        for label in groups.labels
    ]


def _is_missing(total: Any) -> bool:
    return total is None or (isinstance(total, float) and math.isnan(total))


def _ends(total: Any, of: str) -> tuple[float, float]:
    pair = isinstance(total, tuple | list | np.ndarray) and np.ndim(total) > 0
    try:
        lower, upper = total if pair else (total, total)
        low = -math.inf if pair and lower is None else float(lower)
        high = math.inf if pair and upper is None else float(upper)
    except (TypeError, ValueError):
        raise _invalid(f"{total!r}, must be a number, or a pair of numbers or None", of) from None
    if math.isnan(low) or math.isnan(high) or low == math.inf or high == -math.inf:
        raise _invalid(f"{total!r}, must not be NaN, and not infinite on the wrong side", of)
    if low > high:
        raise _invalid(f"the lower end {low:g} exceeds the upper end {high:g}", of)
    return low, high


def _invalid(message: str, of: str = "") -> InvalidArgumentError:
    return InvalidArgumentError(f"total{of}: {message}", fields=["total"])
