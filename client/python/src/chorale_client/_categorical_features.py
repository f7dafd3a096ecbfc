"""The argument `categorical_features` of estimators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chorale_client._cells import is_missing
from chorale_client._errors import InvalidArgumentError
from chorale_client._row_values import align, is_labelled, looks_like_mask
from chorale_client._tables import did_you_mean
from chorale_client._text_normalisation import Names

FROM_DTYPE = "from_dtype"
_FIELD = "categorical_features"

Choice = str | int | slice | Sequence[Any] | Callable[[Any], Any] | None


def categorical_names(choice: Any, table: Any, names: Sequence[str]) -> list[str]:
    """Returns the names of the columns to read as categories regardless of their types.

    Args:
        choice: None or "from_dtype": no columns. Otherwise a name or position; a sequence of these;
            a slice of positions, or of names with both ends included; a mask [columns], which may
            be a pandas Series labelled with names; or a function of the table that returns any of
            these.
        table: The table to which the function is applied.
        names: [columns]: the names of the columns.

    Raises:
        InvalidArgumentError: The choice has another type, or names an unknown column. A
            `ValueError`.
    """
    if callable(choice):
        choice = choice(table)
    if choice is None or (isinstance(choice, str) and choice == FROM_DTYPE):
        return []
    known = Names(names)
    if isinstance(choice, slice):
        return list(names[_slice(choice, names, known)])
    if isinstance(choice, str) or np.ndim(choice) == 0:
        return [_name(choice, names, known)]
    if is_labelled(choice) and _is_mask(list(choice)):
        choice = align(choice, _index_of(choice, table), _FIELD)
    items = list(choice)
    if np.ndim(choice) != 1:
        raise _error(f"{choice!r} has {np.ndim(choice)} dimensions, must have 1")
    if not _is_mask(items):
        by_name = is_labelled(choice) and sorted(map(str, choice.index)) == sorted(names)
        if looks_like_mask(items) and (by_name or len(set(items)) < len(items)):
            raise _error(
                f"{len(items)} numbers, all 0 or 1, which are not distinct positions: convert a "
                "mask to booleans, for example by .astype(bool)"
            )
        return [_name(item, names, known) for item in items]
    if len(items) != len(names):
        raise _error(f"the mask has {len(items)} values for {len(names)} columns")
    if any(map(is_missing, items)):
        raise _error("the mask has missing values: fill them")
    return [name for name, chosen in zip(names, items, strict=True) if chosen]


def _is_mask(items: Sequence[Any]) -> bool:
    present = [item for item in items if not is_missing(item)]
    booleans = [isinstance(item, bool | np.bool_) for item in present]
    if any(booleans) and not all(booleans):
        raise _error("booleans mixed with names or positions: use a mask, or names and positions")
    return any(booleans)


def _index_of(mask: Any, table: Any) -> Any:
    """Returns the names to which a mask is aligned; None if its index only numbers the rows."""
    numbered = list(mask.index) == list(range(len(mask)))
    return None if numbered else getattr(table, "columns", None)


def _name(choice: Any, names: Sequence[str], known: Names) -> str:
    if isinstance(choice, str):
        name = known.find(choice)
        if name is None:
            raise _error(f"there is no column {choice!r}{did_you_mean(choice, names)}")
        return name
    if isinstance(choice, bool | np.bool_) or not isinstance(choice, int | np.integer):
        raise _error(f"{choice!r} is not a name, a position, a mask, {FROM_DTYPE!r} or a function")
    if not -len(names) <= choice < len(names):
        raise _error(f"there is no column at position {choice}: there are {len(names)}")
    return names[int(choice)]


def _slice(choice: slice, names: Sequence[str], known: Names) -> slice:
    """Converts a slice to positions; as in pandas, a slice of names includes its end."""
    start, stop = choice.start, choice.stop
    if isinstance(start, str):
        start = names.index(_name(start, names, known))
    if isinstance(stop, str):
        stop = names.index(_name(stop, names, known)) + 1
    return slice(start, stop, choice.step)


def _error(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{_FIELD}: {what}", fields=[_FIELD])
