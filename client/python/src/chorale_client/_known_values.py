"""Known values of the target in some query rows, on which the results of a call are conditional."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chorale_client._columns import Floats, Integers
from chorale_client._errors import (
    ChoraleError,
    DataLossError,
    InvalidArgumentError,
    UnimplementedError,
)
from chorale_client._groups import Groups
from chorale_client._groups import ignored as groups_ignored
from chorale_client._v1 import chorale_pb2 as pb

KnownLogDensity = float | Floats | None

# A field of the message, with the index of a known value, or of a value of a path or vector.
_FIELD = re.compile(r"\bknown\.(?:rows|values)(?:\[(\d+)\])?")


@dataclass(frozen=True, eq=False)
class KnownValues:
    """Known values of N of the query rows of a call; N may be 0.

    Attributes:
        rows: [N]: the positions of the rows whose values are known, in ascending order.
        others: [T - N]: the positions of the other rows, in ascending order.
        values: [N]: the values of the known rows; or [paths, N] or [vectors, N]: those of each path
            or vector.
    """

    rows: Integers
    others: Integers
    values: Floats

    @classmethod
    def none(cls, row_count: int) -> KnownValues:
        """Returns no known values."""
        return cls(np.arange(0), np.arange(row_count), np.empty(0))

    @classmethod
    def of(cls, values: Floats, row_count: int) -> KnownValues:
        """Returns the values that are not NaN.

        Args:
            values: [rows], [paths, rows] or [vectors, rows].
            row_count: The number of rows.

        Raises:
            InvalidArgumentError: The shape is another one, a value is infinite, different rows of
                the paths or vectors are NaN, or the values of all rows are known.
        """
        if values.ndim not in (1, 2) or values.shape[-1] != row_count or not values.size:
            raise _invalid(
                f"the shape is {values.shape}, must be ({row_count},), or (n, {row_count}) for n "
                "paths or vectors: the known values, and NaN for the other rows"
            )
        infinite = np.isinf(values)
        if infinite.any():
            row = int(np.argwhere(infinite)[0][-1])
            raise _invalid(f"infinite in row {row}, must be finite, or NaN if it is not known")
        known = ~np.isnan(np.atleast_2d(values))
        unlike = (known != known[0]).any(axis=1)
        if unlike.any():
            other = int(unlike.argmax())
            row = int((known[other] != known[0]).argmax())
            has, lacks = (0, other) if known[0, row] else (other, 0)
            raise _invalid(
                f"the value of row {row} is known in vector {has}, and NaN in vector {lacks}: the "
                "same rows must be known in each"
            )
        if known[0].all():
            raise _invalid(
                f"the values of all {row_count} rows are known: at least one must be NaN, or have "
                "no value"
            )
        if not known[0].any():
            return cls.none(row_count)
        rows = np.flatnonzero(known[0])
        return cls(rows, np.flatnonzero(~known[0]), values[..., rows])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def separate(self) -> bool:
        """Whether each path or vector has its own values."""
        return self.values.ndim == 2

    def check_count(self, what: str, count: int) -> None:
        """Raises InvalidArgumentError if the number of paths or vectors is not `count`."""
        if self.separate and len(self.values) != count:
            raise _invalid(f"known values for {len(self.values)} {what}, but there are {count}")

    def grouped(self, groups: Groups) -> KnownValues:
        """Returns the known values in the order of the rows of a request.

        Raises:
            InvalidArgumentError: The values of all rows of a group are known.
        """
        places = groups.places
        order = np.argsort(places[self.rows])
        known = KnownValues(
            places[self.rows][order], np.sort(places[self.others]), self.values[..., order]
        )
        ends = groups.sizes.cumsum()
        counts = np.bincount(np.searchsorted(ends, known.rows, side="right"), minlength=len(groups))
        whole = counts == groups.sizes
        if groups.labels is not None and whole.any():
            raise _invalid(
                f"the values of all rows of the group {groups.labels[int(whole.argmax())]!r} are "
                "known: at least one must be NaN, or have no value"
            )
        return known

    def within(self, rows: Integers) -> KnownValues:
        """Returns the known values of a request that has only these rows, in ascending order."""
        mine = np.isin(self.rows, rows)
        return KnownValues(
            np.searchsorted(rows, self.rows[mine]),
            np.flatnonzero(~np.isin(rows, self.rows)),
            self.values[..., mine],
        )

    def message(self, vectors: slice = slice(None)) -> pb.KnownValues | None:
        """Returns the message for some vectors; None if no values are known."""
        if not len(self):
            return None
        values = self.values[vectors] if self.separate else self.values
        return pb.KnownValues(rows=self.rows, values=values.ravel())

    def renumbered(self, numbers: Integers) -> KnownValues:
        """Returns the known values with other numbers of the rows; for `locate`.

        Args:
            numbers: [rows]: the numbers of the rows of the request.
        """
        return KnownValues(numbers[self.rows], numbers[self.others], self.values)

    def locate(self, error: ChoraleError) -> None:
        """Changes an error about the message to an error about the argument and its rows."""
        if not len(self):
            return

        def place(found: re.Match[str]) -> str:
            index = found[1]
            return "given" if index is None else f"given: row {self.rows[int(index) % len(self)]}"

        error.message = _FIELD.sub(place, error.message)
        error.args = (error.message,)
        error.fields = tuple(_FIELD.sub("given", field) for field in error.fields)

    def check_response(self, log_densities: Sequence[float], count: int, group_count: int) -> None:
        """Checks the `known_log_densities` of a response.

        Args:
            log_densities: The field.
            count: The number of paths or vectors of the request.
            group_count: The number of groups of the request.

        Raises:
            UnimplementedError: The server has ignored the known values or the groups.
            DataLossError: The number is another one.
        """
        if not len(self):
            return
        if not log_densities:
            raise ignored()
        sets = count if self.separate else 1
        expected = sets * group_count
        if len(log_densities) == sets < expected:
            raise groups_ignored()
        if len(log_densities) != expected:
            raise DataLossError(
                f"the server sent {len(log_densities)} log-densities of known values instead of "
                f"{expected}"
            )

    def log_density(self, parts: Iterable[Sequence[float]], groups: Groups) -> KnownLogDensity:
        """Returns the joint log-density of the known values.

        Args:
            parts: The `known_log_densities` of the responses, which `check_response` has checked.
            groups: The groups of the requests.

        Returns:
            A number, or an array with a number for each path or vector, or each group, or both;
            None if no values are known.
        """
        if not len(self):
            return None
        if self.separate:
            joined = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
            return joined if groups.labels is None else joined.reshape(-1, len(groups))
        first = np.asarray(next(iter(parts)), dtype=np.float64)
        return float(first[0]) if groups.labels is None else first


def ignored() -> UnimplementedError:
    """Returns the error for a server that ignores known values."""
    return UnimplementedError(
        "given: the server does not support known values, because it is older than this package: "
        "upgrade the server"
    )


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"given: {message}", fields=["given"])
