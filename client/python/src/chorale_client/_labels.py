"""Labels of rows, and DataFrames of the same library as the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from chorale_client._columns import Integers
from chorale_client._errors import InvalidArgumentError
from chorale_client._row_values import as_mask, has_tuples, looks_like_mask

_MIDNIGHT = " 00:00:00"
_MOST_SHOWN = 3  # labels in a message


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a table's rows.

    Attributes:
        index: The pandas index of the rows, or the row numbers [rows] if the rows have no labels.
        backend: Narwhals' name of the library of the table: "pandas", "polars", "pyarrow", ...;
            None for arrays and dictionaries.
    """

    index: Any = None
    backend: str | None = None

    @classmethod
    def of_frame(cls, native: Any) -> Labels:
        """Returns the labels of a DataFrame."""
        backend = nw.from_native(native).implementation.value
        index = native.index if backend in ("pandas", "modin", "cudf") else None
        return cls(index, backend)

    @classmethod
    def of_series(cls, series: Any) -> Labels:
        """Returns the labels of a pandas Series."""
        return cls(series.index)

    def of_length(self, count: int) -> Labels:
        """Returns these labels, or row numbers if there are none."""
        return self if self.index is not None else Labels(np.arange(count), self.backend)

    def __len__(self) -> int:
        return 0 if self.index is None else len(self.index)

    def take(self, positions: Integers) -> Labels:
        """Returns the labels of some rows."""
        return Labels(self.index[positions], self.backend)

    @classmethod
    def concat(cls, parts: Sequence[Labels]) -> Labels:
        """Returns the labels of the rows of several tables, at least one.

        Row numbers remain if they ascend, and are otherwise counted from 0.
        """
        first = parts[0]
        if all(hasattr(part.index, "append") for part in parts):
            return cls(first.index.append([part.index for part in parts[1:]]), first.backend)
        index = np.concatenate([np.asarray(part.index) for part in parts])
        if not (index[1:] > index[:-1]).all():
            index = np.arange(len(index))
        return cls(index, first.backend)

    def position(self, label: Any) -> Integers | int:
        """Returns the position of the row with this label, or the positions of several rows.

        Raises:
            KeyError: There is no such label.
        """
        if hasattr(self.index, "get_loc"):
            try:
                hash(label)
                found = None if isinstance(label, slice) else self.index.get_loc(label)
            except (KeyError, TypeError):
                found = None
            if found is None:
                raise self._no_row(label)
            if isinstance(found, int | np.integer):
                return int(found)
            some: Integers = np.arange(len(self.index))[found]
            return some
        try:
            at = int(label)
        except (TypeError, ValueError):
            raise self._no_row(label) from None
        if at != label or not -len(self.index) <= at < len(self.index):
            raise self._no_row(label)
        return at

    def positions(self, rows: Any) -> Integers:
        """Returns the positions of some rows.

        Args:
            rows: None for all rows; a mask [rows], where a pandas Series is aligned by its labels;
                a slice of positions; or labels. A tuple is a single label if the labels of the rows
                are tuples, and otherwise several labels.

        Raises:
            InvalidArgumentError: The mask has missing values, another length, other labels, or
                numbers instead of booleans; or the slice has labels.
            KeyError: There is no such label.
        """
        if rows is None:
            return np.arange(len(self.index))
        if isinstance(rows, slice):
            try:
                return np.arange(len(self.index))[rows]
            except TypeError:
                raise InvalidArgumentError(
                    f"rows: {rows!r} is not a slice of positions: use a list of labels",
                    fields=["rows"],
                ) from None
        if hasattr(rows, "to_pylist"):  # an array of PyArrow
            rows = rows.to_pylist()
        if isinstance(rows, tuple) and self._has(rows):
            return np.atleast_1d(self.position(rows)).astype(np.intp)
        several = has_tuples(rows)
        mask = None if several else as_mask(rows, self.index)
        if mask is not None:
            if mask.shape != (len(self.index),):
                raise InvalidArgumentError(
                    f"rows: the mask has the shape {mask.shape}, must have ({len(self.index)},)",
                    fields=["rows"],
                )
            return np.flatnonzero(mask)
        labels = list(rows) if several or np.ndim(rows) == 1 else [rows]
        if isinstance(rows, tuple) and not several and getattr(self.index, "nlevels", 1) > 1:
            labels = [rows]
        elif looks_like_mask(labels) and (
            len(set(labels)) < len(labels)
            or (len(labels) == len(self.index) and not all(map(self._has, labels)))
        ):
            raise InvalidArgumentError(
                f"rows: {len(labels)} numbers, all 0 or 1, which are not distinct labels of rows: "
                "convert a mask to booleans, for example by .astype(bool)",
                fields=["rows"],
            )
        found = [np.atleast_1d(self.position(label)) for label in labels]
        return np.concatenate(found).astype(np.intp) if found else np.empty(0, np.intp)

    def _has(self, label: Any) -> bool:
        try:
            self.position(label)
        except KeyError:
            return False
        return True

    def _no_row(self, label: Any) -> KeyError:
        if not hasattr(self.index, "get_loc"):
            known = f"the rows have the numbers 0 to {len(self.index) - 1}"
        else:
            shown = ", ".join(map(repr, self.index[:_MOST_SHOWN].tolist()))
            more = ", ..." if len(self.index) > _MOST_SHOWN else ""
            known = f"the labels are {shown}{more}"
        hint = (
            "; use .select() for several rows"
            if isinstance(label, list | slice | np.ndarray)
            else ""
        )
        return KeyError(f"there is no row with the label {label!r}: {known}{hint}")

    def names(self) -> list[str]:
        """Returns the labels as strings."""
        names = [str(label) for label in self.index]
        if all(name.endswith(_MIDNIGHT) for name in names):  # dates
            return [name.removesuffix(_MIDNIGHT) for name in names]
        return names

    def frame(self, columns: Mapping[str, Any], *, by_row: bool = True) -> Any:
        """Returns a DataFrame of the library of the rows, or of the first installed library.

        Args:
            columns: The columns by name, of equal length.
            by_row: Whether the DataFrame has a line for each row, so that it gets their index.
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
    raise ImportError("DataFrames require a library: pip install 'chorale-client[pandas]'")


class Labelled:
    """A result for labelled rows."""

    labels: Labels

    @property
    def index(self) -> Any:
        """The pandas index of the rows, or their numbers."""
        return self.labels.index
