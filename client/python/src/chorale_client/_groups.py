"""Groups of query rows, each with a joint distribution of its own."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chorale_client._cells import is_missing
from chorale_client._columns import Integers
from chorale_client._errors import InvalidArgumentError, UnimplementedError
from chorale_client._tables import Table

GroupLabels = tuple[Hashable, ...] | None


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of the query rows of a call.

    A request has the rows of the first group, then those of the second, and so on.

    Attributes:
        labels: [groups]: the labels, in the order of their first rows; None without groups, in
            which case all rows count as one group.
        sizes: [groups]: the numbers of rows.
        order: [rows]: the positions of the request's rows in the table.
    """

    labels: GroupLabels
    sizes: Integers
    order: Integers

    @classmethod
    def none(cls, row_count: int) -> Groups:
        """Returns no groups."""
        return cls(None, np.array([row_count]), np.arange(row_count))

    @classmethod
    def of(cls, columns: Sequence[Sequence[Any]], row_count: int) -> Groups:
        """Returns the groups of rows with equal labels.

        Args:
            columns: [columns][rows]: parts of labels. With several columns, labels are tuples.
            row_count: The number of rows.

        Raises:
            InvalidArgumentError: The number of labels is another one, a label is missing, or labels
                cannot be compared.
        """
        for cells in columns:
            if len(cells) != row_count:
                raise invalid(f"{len(cells)} labels for {row_count} rows")
            missing = [row for row, cell in enumerate(cells) if is_missing(cell)]
            if missing:
                raise invalid(
                    f"{len(missing)} of the {row_count} rows have no label, the first of them is "
                    f"row {missing[0]}: fill in the labels, or drop these rows"
                )
        cells = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        number: dict[Hashable, int] = {}
        try:
            numbers = [number.setdefault(cell, len(number)) for cell in cells]
        except TypeError as error:  # not hashable
            raise invalid(str(error)) from None
        of_row = np.array(numbers, dtype=np.intp)
        return cls(
            tuple(number),
            np.bincount(of_row, minlength=len(number)),
            np.argsort(of_row, kind="stable"),
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def arranged(self, table: Table) -> Table:
        """Returns the rows of a table in the order of the request."""
        return table if self.labels is None else table.take(self.order)

    @property
    def places(self) -> Integers:
        """The positions of the table's rows in the request [rows]."""
        return np.argsort(self.order)

    def message(self) -> list[int]:
        """Returns the field `group_sizes` of a request; empty without groups."""
        return [] if self.labels is None else self.sizes.tolist()


def ignored() -> UnimplementedError:
    """Returns the error for a server that ignores groups."""
    return UnimplementedError(
        "groupby: the server does not support groups, because it is older than this package: "
        "upgrade the server"
    )


def invalid(message: str) -> InvalidArgumentError:
    """Returns the error for an invalid argument `groupby`."""
    return InvalidArgumentError(f"groupby: {message}", fields=["groupby"])
