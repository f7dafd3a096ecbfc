"""Functionals for `Context.summarize`: functions of the values of a path at some rows.

The functions of this module return functionals, which the server evaluates on each path. Instead of
a functional of all rows without other arguments, you can pass its name, such as "sum".

Examples:
    >>> from chorale_client import functionals
    >>> summary = context.summarize(
    ...     rows,
    ...     functionals={
    ...         "total": "sum",
    ...         "overload": functionals.any(above=300.0),
    ...         "portfolio": functionals.sum(["a", "b"], weights=[0.7, 0.3]),
    ...     },
    ... )
    >>> summary.functionals["overload"].mean  # the probability that any value is above 300

All have the argument `rows`: the labels or a mask [rows], as for `Samples.sum`; None: all rows. The
rows may include rows whose values are known. With groups, a functional has a result for each group,
from those of its rows that belong to the group.

`above` and `below` are thresholds in the target's unit, of which exactly one is required. Values
that are equal to the threshold are neither above nor below it.
"""

# ruff: noqa: A001, A002 - as in numpy, functionals have the names of built-in functions

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy.typing as npt

from chorale_client._errors import InvalidArgumentError
from chorale_client._number_arguments import number_of, target_error

Type = Literal[
    "sum",
    "mean",
    "max",
    "min",
    "any",
    "all",
    "count",
    "excess",
    "improvement",
    "longest_run",
    "argmax",
    "argmin",
    "rank",
    "sum_beyond",
]


@dataclass(frozen=True, eq=False)
class Functional:
    """A function of the values of a path; returned by the functions of this module.

    Attributes:
        type: The name of the function.
        rows: Labels or a mask [rows]; None: all rows.
        weights: The weights of a sum, in the order of the rows; None: each weight is 1.
        threshold: The threshold; None for functionals without a threshold.
        below: Whether the functional is about values below the threshold instead of above it.
        target_mean_error: The target error of the mean; 0: there is none.
        target_quantile_error: The target error of each quantile; 0: there is none.
    """

    type: Type
    rows: Any = None
    weights: npt.ArrayLike | None = None
    threshold: float | None = None
    below: bool = False
    target_mean_error: float = 0.0
    target_quantile_error: float = 0.0

    def with_target_errors(
        self, mean: float | None = None, quantile: float | None = None
    ) -> Functional:
        """Returns the functional with target errors, as those of `Context.summarize`.

        Args:
            mean: The target for the standard error of the mean, in the unit of the functional;
                for an event, such as `any`, that of its probability. None: there is none.
            quantile: The target for the standard error of each quantile. None: there is none.

        Examples:
            >>> functionals.sum().with_target_errors(mean=5.0)
        """
        if quantile is not None and self.of_each_row:
            raise _invalid(f"{self.type}() has no quantiles, and no target error of quantiles")
        return replace(
            self,
            target_mean_error=target_error("target_mean_error", mean),
            target_quantile_error=target_error("target_quantile_error", quantile),
        )

    @property
    def of_each_row(self) -> bool:
        """Whether the functional has a number for each row instead of a single number."""
        return self.type in ("argmax", "argmin", "rank")


def sum(rows: Any = None, *, weights: npt.ArrayLike | None = None) -> Functional:
    """Returns the sum of the values, or with weights their weighted sum.

    Args:
        rows: Labels or a mask [rows]; None: all rows.
        weights: A weight for each of these rows, in their order; a pandas Series is aligned by its
            labels. None: each weight is 1.
    """
    return Functional("sum", rows, weights)


def sum_beyond(
    rows: Any = None,
    *,
    above: float | None = None,
    below: float | None = None,
    weights: npt.ArrayLike | None = None,
) -> Functional:
    """Returns 1 if the sum is beyond the threshold, otherwise 0; the mean is a probability.

    Args:
        rows: Labels or a mask [rows]; None: all rows.
        above: The threshold that the sum exceeds.
        below: The threshold below which the sum is.
        weights: As for `sum`.
    """
    return replace(_beyond("sum_beyond", rows, above, below), weights=weights)


def mean(rows: Any = None) -> Functional:
    """Returns the mean of the values."""
    return Functional("mean", rows)


def max(rows: Any = None) -> Functional:
    """Returns the largest value."""
    return Functional("max", rows)


def min(rows: Any = None) -> Functional:
    """Returns the smallest value."""
    return Functional("min", rows)


def any(rows: Any = None, *, above: float | None = None, below: float | None = None) -> Functional:
    """Returns 1 if any value is beyond the threshold, otherwise 0; the mean is a probability."""
    return _beyond("any", rows, above, below)


def all(rows: Any = None, *, above: float | None = None, below: float | None = None) -> Functional:
    """Returns 1 if all values are beyond the threshold, otherwise 0; the mean is a probability."""
    return _beyond("all", rows, above, below)


def count(
    rows: Any = None, *, above: float | None = None, below: float | None = None
) -> Functional:
    """Returns the number of values beyond the threshold."""
    return _beyond("count", rows, above, below)


def excess(
    rows: Any = None, *, above: float | None = None, below: float | None = None
) -> Functional:
    """Returns the sum of the distances of the values beyond the threshold from it."""
    return _beyond("excess", rows, above, below)


def improvement(
    rows: Any = None, *, above: float | None = None, below: float | None = None
) -> Functional:
    """Returns the distance of the outermost value beyond the threshold from it; 0 if there is none.

    The mean is the expected improvement of a batch of experiments over the best value so far, which
    is `above` if the target is maximised, and `below` if it is minimised.
    """
    return _beyond("improvement", rows, above, below)


def longest_run(
    rows: Any = None, *, above: float | None = None, below: float | None = None
) -> Functional:
    """Returns the largest number of successive rows with values beyond the threshold.

    Rows follow each other in the order of `rows` if it has labels, otherwise in that of the table.
    """
    return _beyond("longest_run", rows, above, below)


def argmax(rows: Any = None) -> Functional:
    """Returns for each row 1 if it has the largest value, otherwise 0; 1 / k for k equal values.

    The means are the probabilities that the maximum is at these rows. Their sum is 1.
    """
    return Functional("argmax", rows)


def argmin(rows: Any = None) -> Functional:
    """Returns for each row 1 if it has the smallest value, otherwise 0; 1 / k for k equal values.

    The means are the probabilities that the minimum is at these rows. Their sum is 1.
    """
    return Functional("argmin", rows)


def rank(rows: Any = None) -> Functional:
    """Returns the rank of each row; 1 is the largest value, and equal values have their mean rank.

    The means are the expected ranks.
    """
    return Functional("rank", rows)


def _beyond(type: Type, rows: Any, above: float | None, below: float | None) -> Functional:
    threshold = below if above is None else above
    if threshold is None or (above is not None and below is not None):
        raise _invalid(f"{type}() requires either above or below")
    number = number_of(threshold)
    if not math.isfinite(number):
        raise _invalid(f"{type}(): the threshold is {threshold!r}, must be a finite number")
    return Functional(type, rows, threshold=number, below=above is None)


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"functionals: {message}", fields=["functionals"])
