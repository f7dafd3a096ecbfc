"""Labels of rows, and results in the same kind of frame as the rows came in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from chorale_client.errors import InvalidArgumentError
from chorale_client.row_values import as_mask

Integers = npt.NDArray[np.intp]

_MIDNIGHT = " 00:00:00"


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a table's rows.

    Attributes:
        index: pandas' index of the rows, or the row numbers [rows] where the caller's kind of table
            has no labels.
        backend: The library that the table is of, as Narwhals names it: "pandas", "polars",
            "pyarrow", ...; None for arrays and dictionaries.
    """

    index: Any = None
    backend: str | None = None

    @classmethod
    def of_frame(cls, native: Any) -> Labels:
        """The labels of a frame of a library."""
        backend = nw.from_native(native).implementation.value
        index = native.index if backend in ("pandas", "modin", "cudf") else None
        return cls(index, backend)

    @classmethod
    def of_series(cls, series: Any) -> Labels:
        """The labels of a Series of pandas; tables of such are of no library."""
        return cls(series.index)

    def of_length(self, count: int) -> Labels:
        """The same, with row numbers where there are no labels."""
        return self if self.index is not None else Labels(np.arange(count), self.backend)

    def __len__(self) -> int:
        return 0 if self.index is None else len(self.index)

    def take(self, positions: Integers) -> Labels:
        """The labels of some rows."""
        return Labels(self.index[positions], self.backend)

    def position(self, label: Any) -> Integers | int:
        """Where the row with this label is; several positions if several rows have it."""
        if hasattr(self.index, "get_loc"):
            try:
                found = self.index.get_loc(label)
            except (KeyError, TypeError):
                raise KeyError(label) from None
            if isinstance(found, int | np.integer):
                return int(found)
            some: Integers = np.arange(len(self.index))[found]
            return some
        try:
            at = int(label)
        except (TypeError, ValueError):
            raise KeyError(label) from None
        if at != label or not -len(self.index) <= at < len(self.index):
            raise KeyError(label)
        return at

    def positions(self, rows: Any) -> Integers:
        """Where some rows are.

        Args:
            rows: None for all; a mask [rows], which a Series of pandas gives by label; or labels.

        Raises:
            InvalidArgumentError: The mask has missing cells, another length or other labels.
            KeyError: There is no such label.
        """
        if rows is None:
            return np.arange(len(self.index))
        if isinstance(rows, slice):
            return np.arange(len(self.index))[rows]
        mask = as_mask(rows, self.index)
        if mask is not None:
            if mask.shape != (len(self.index),):
                raise InvalidArgumentError(
                    f"rows: the mask has the shape {mask.shape}, must have ({len(self.index)},)",
                    fields=["rows"],
                )
            return np.flatnonzero(mask)
        labels: Iterable[Any] = rows if np.ndim(rows) == 1 else [rows]
        found = [np.atleast_1d(self.position(label)) for label in labels]
        return np.concatenate(found).astype(np.intp) if found else np.empty(0, np.intp)

    def names(self) -> list[str]:
        """The labels as texts."""
        names = [str(label) for label in self.index]
        if all(name.endswith(_MIDNIGHT) for name in names):  # dates
            return [name.removesuffix(_MIDNIGHT) for name in names]
        return names

    def frame(self, columns: Mapping[str, Any], *, by_row: bool = True) -> Any:
        """A frame with these columns, of the kind that the rows came in; else pandas, else polars.

        Args:
            columns: By name; of one length.
            by_row: Whether the frame has a line for each row, and so their index.
        """
        backend: Any = self.backend or _first_backend()
        frame = nw.from_dict(dict(columns), backend=backend).to_native()
        if by_row and hasattr(self.index, "get_loc"):
            frame.index = self.index
        return frame


def _first_backend() -> str:
    for name in ("pandas", "polars", "pyarrow"):
        try:
            __import__(name)
        except ImportError:
            continue
        return name
    raise ImportError("frames need a library: pip install 'chorale-client[pandas]'")


class Labelled:
    """An answer about labelled rows."""

    labels: Labels

    @property
    def index(self) -> Any:
        """Pandas' index of the rows, or their numbers."""
        return self.labels.index
