"""Splits the query rows of a call into requests of Predict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from chorale_client._columns import Integers
from chorale_client._groups import Groups
from chorale_client._known_values import KnownValues
from chorale_client._requests import (
    MAX_PREDICT_BYTES,
    encode_table,
    max_predict_rows,
    split_rows,
)
from chorale_client._tables import Table


class Piece(NamedTuple):
    """The rows of a request.

    Attributes:
        rows: The positions of the rows in the order of the groups, ascending.
        first_group: The group of the first row.
        sizes: The number of the rows of each group in the request, from the first.
    """

    rows: Integers
    first_group: int
    sizes: list[int]


def predict_pieces(
    table: Table, known: KnownValues, groups: Groups, local_rows: int
) -> Iterator[Piece]:
    """Yields the rows of each request.

    A request has whole groups. If a group is too large for a request, each of several requests has
    all its rows with known values and some of its other rows.

    Args:
        table: The rows, in the order of the groups.
        known: The known values of these rows.
        groups: The groups.
        local_rows: The number of rows of the context that a request uses; 0: all.
    """
    most = max_predict_rows(local_rows, 0)
    ends = groups.sizes.cumsum()
    first, start = 0, 0
    while first < len(groups):
        window = np.arange(start, min(start + most, table.row_count))
        _, fitting = next(split_rows(table.take(window), MAX_PREDICT_BYTES, most))
        last = int(np.searchsorted(ends, start + fitting, side="right"))
        if last > first:
            yield Piece(np.arange(start, ends[last - 1]), first, groups.sizes[first:last].tolist())
        else:
            last = first + 1
            for rows in _parts(table, known, start, int(ends[first]), local_rows):
                yield Piece(rows, first, [len(rows)])
        first, start = last, int(ends[last - 1])


def _parts(
    table: Table, known: KnownValues, start: int, end: int, local_rows: int
) -> Iterator[Integers]:
    """Yields the rows of each request about the rows from `start` to `end`."""
    rows = np.arange(start, end)
    of_known = np.isin(rows, known.rows)
    known_rows, other_rows = rows[of_known], rows[~of_known]
    known_bytes = encode_table(table.take(known_rows)).ByteSize() if len(known_rows) else 0
    max_bytes = max(MAX_PREDICT_BYTES - known_bytes, MAX_PREDICT_BYTES // 4)
    max_rows = max_predict_rows(local_rows, len(known_rows))
    for first, last in split_rows(table.take(other_rows), max_bytes, max_rows):
        yield np.sort(np.concatenate([known_rows, other_rows[first:last]]))
