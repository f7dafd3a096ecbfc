"""Functionals in requests of Summarize: their rows, weights and names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from chorale_client._columns import Floats, Integers
from chorale_client._errors import ChoraleError, InvalidArgumentError
from chorale_client._groups import Groups
from chorale_client._labels import Labels
from chorale_client._row_values import values_for_rows
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client.functionals import Functional, Type

_BY_NAME: tuple[Type, ...] = ("sum", "mean", "max", "min", "argmax", "argmin", "rank")
_FIELD = re.compile(r"\bfunctionals\[(\d+)\]")


@dataclass(frozen=True, eq=False)
class FunctionalOfRows:
    """A functional of rows of a table.

    Attributes:
        functional: The functional.
        rows: [n]: the positions of its rows in the table.
        weights: [n]: the weights; empty if each weight is 1.
    """

    functional: Functional
    rows: Integers
    weights: Floats

    def message(self, groups: Groups) -> pb.Functional:
        """Returns the message; the request has the rows of the table in the order of the groups."""
        everywhere = self.functional.rows is None and groups.labels is None
        return pb.Functional(
            type=getattr(pb.Functional, f"TYPE_{self.functional.type.upper()}"),
            rows=[] if everywhere else groups.places[self.rows],
            weights=self.weights,
            threshold=self.functional.threshold or 0.0,
            below=self.functional.below,
            target_mean_error=self.functional.target_mean_error,
            target_quantile_error=self.functional.target_quantile_error,
        )


def functionals_of_rows(
    functionals: Any, labels: Labels, groups: Groups
) -> dict[str, FunctionalOfRows]:
    """Reads the argument `functionals`.

    Args:
        functionals: The functionals by name, each a `Functional` or the name of its function; or a
            list of names of functions.
        labels: The labels of the rows.
        groups: The groups of the rows.

    Raises:
        InvalidArgumentError: A functional or its name is invalid, there are no such rows, or a
            group has none of the rows.
    """
    if not isinstance(functionals, Mapping):
        if isinstance(functionals, str) or not isinstance(functionals, Sequence):
            raise _invalid(
                "functionals",
                f"the type is {type(functionals).__name__}, must be a dictionary of functionals by "
                "name, or a list of names",
            )
        for position, name in enumerate(functionals):
            if isinstance(name, Functional):
                raise _invalid(
                    "functionals",
                    "a list has names of functions: pass a dictionary, such as "
                    f"{{{name.type!r}: ...}}, for functionals with arguments",
                )
            if name in functionals[:position]:
                raise _invalid("functionals", f"the name {name!r} is repeated")
        functionals = {name: name for name in functionals}
    found = {}
    for name, functional in functionals.items():
        if not isinstance(name, str):
            raise _invalid("functionals", f"the name {name!r} is not a string")
        found[name] = _of_rows(_functional(functional, name), name, labels, groups)
    return found


def _functional(value: Any, name: str) -> Functional:
    if isinstance(value, Functional):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return Functional(value)
    if isinstance(value, str) and value in get_args(Type):
        raise _invalid(
            _argument(name), f"{value!r} requires a threshold: pass functionals.{value}(above=...)"
        )
    raise _invalid(
        _argument(name),
        f"{value!r}, must be a functional of chorale_client.functionals, or one of the names "
        f"{', '.join(_BY_NAME)}",
    )


def _of_rows(functional: Functional, name: str, labels: Labels, groups: Groups) -> FunctionalOfRows:
    what = _argument(name)
    try:
        rows = labels.positions(functional.rows)
    except (KeyError, InvalidArgumentError) as error:
        raise _invalid(what, str(error.args[0])) from None
    if not rows.size:
        raise _invalid(what, "rows: there are none")
    distinct, counts = np.unique(rows, return_counts=True)
    if len(distinct) < len(rows):
        twice = labels.names()[int(distinct[counts.argmax()])]
        raise _invalid(what, f"rows: the row {twice!r} is repeated")
    if groups.labels is not None:
        of_rows = np.searchsorted(groups.sizes.cumsum(), groups.places[rows], side="right")
        without = np.flatnonzero(np.bincount(of_rows, minlength=len(groups)) == 0)
        if without.size:
            raise _invalid(
                what,
                f"rows: none belongs to the group {groups.labels[without[0]]!r}: select rows of "
                "each group, or make a separate call for the groups of these rows",
            )
    weights = np.empty(0)
    if functional.weights is not None:
        weights = values_for_rows(functional.weights, labels.take(rows).index, f"{what}.weights")
        if weights.shape != rows.shape:
            raise _invalid(
                f"{what}.weights",
                f"the shape is {weights.shape}, must be {rows.shape}: a weight for each row of the "
                "functional",
            )
        for position in np.flatnonzero(~np.isfinite(weights))[:1]:
            raise _invalid(
                f"{what}.weights", f"weight {position} is {weights[position]}, must be finite"
            )
    return FunctionalOfRows(functional, rows, weights)


def locate(error: ChoraleError, names: Sequence[str]) -> None:
    """Changes the indices of functionals in an error of the server to their names."""

    def argument(found: re.Match[str]) -> str:
        index = int(found[1])
        return _argument(names[index]) if index < len(names) else found[0]

    error.message = _FIELD.sub(argument, error.message)
    error.args = (error.message,)
    error.fields = tuple(_FIELD.sub(argument, field) for field in error.fields)


def _argument(name: str) -> str:
    return f"functionals[{name!r}]"


def _invalid(what: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{what}: {message}", fields=[what])
