"""What real tables suffer before they reach a model: corrupt cells, constant columns, a corrupt y."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from models.research.evaluate.split import Split

SHARE = 0.01  # of the numbers in a table, at least one
FAR = 1000.0  # of the standard deviations of y

Array = np.ndarray


def _corrupt(x: Array, is_categorical: Array, change: Callable[[Array], Array], random) -> Array:
    """x [rows, F] with some of its numbers changed."""
    numbers = np.argwhere(~np.isnan(x) & ~is_categorical)
    count = max(1, round(SHARE * len(numbers)))
    rows, columns = random.permutation(numbers)[:count].T
    x = x.copy()
    x[rows, columns] = change(x[rows, columns])
    return x


def _of_context(change: Callable[[Array], Array]) -> Callable[[Split, np.random.Generator], Split]:
    def damage(split: Split, random: np.random.Generator) -> Split:
        x = _corrupt(split.context_x, split.is_categorical, change, random)
        return dataclasses.replace(split, context_x=x)

    return damage


def _of_both(split: Split, random: np.random.Generator) -> Split:
    def change(x: Array) -> Array:
        return np.full_like(x, -9999.0)

    context, target = (
        _corrupt(x, split.is_categorical, change, random) for x in (split.context_x, split.target_x)
    )
    return dataclasses.replace(split, context_x=context, target_x=target)


def _constant_columns(split: Split, random: np.random.Generator) -> Split:
    """The rows to predict have other values there than the context."""
    context = np.tile([5.0, 0.0, -2.0], (len(split.context_x), 1))
    target = 10 * random.standard_normal((len(split.target_x), 3))
    return dataclasses.replace(
        split,
        context_x=np.hstack([split.context_x, context]),
        target_x=np.hstack([split.target_x, target]),
        is_categorical=np.append(split.is_categorical, [False] * 3),
    )


def _corrupt_target(split: Split, random: np.random.Generator) -> Split:
    y = split.context_y.copy()
    y[random.integers(len(y))] += random.choice([-FAR, FAR])
    return dataclasses.replace(split, context_y=y)


def _corrupt_targets(split: Split, random: np.random.Generator) -> Split:
    y = split.context_y.copy()
    rows = random.permutation(len(y))[: max(1, round(SHARE * len(y)))]
    y[rows] += random.choice([-FAR, FAR], len(rows))
    return dataclasses.replace(split, context_y=y)


DAMAGES: dict[str, Callable[[Split, np.random.Generator], Split]] = {
    "clean": lambda split, random: split,
    "x times 1000": _of_context(lambda x: 1000 * x),
    "x with the other sign": _of_context(lambda x: -x),
    "x -9999": _of_context(lambda x: np.full_like(x, -9999.0)),
    "x -9999, in the request too": _of_both,
    "three constant columns": _constant_columns,
    "one y": _corrupt_target,
    "1 % of y": _corrupt_targets,
}
