"""A column that says where in its season a row is, for tables with a running index.

Made from the context alone, in float64, without anything random. With the context sorted by the index,
t = (index - its first) / its median gap, and y z-scored, the rows after the first p are fitted twice:

    y_i = a + b u_i + c u_i^2 + sum_k d_k y_{i-k} + others_i e                        (R_0: sum of squares left)
    the same + sum_{h=1,2} f_h sin(2 pi h t_i / P) + g_h cos(2 pi h t_i / P)          (R_1)

with u the standardised t (u^2 from 64 rows on), p = 1 to 4 values before (one for every 8 rows: a random walk or a
smooth series would look periodic otherwise), and `others` the other columns: by value where they have few, else
linearly. So a season that another column already tells is none here. By chance alone R_1 / R_0 follows a Beta
distribution of n/2 and 2, n the degrees of freedom left, so that

    chance(r) = r^(n/2) (1 + n/2 (1 - r)),     r = R_1 / R_0.

P is that of the smallest R_1 on a grid of frequencies, refined twice; a whole number of steps where that is as good;
its double or triple where the two waves that this adds have a chance of at most LEVEL. There is a season if its
chance times the number of frequencies that can be told apart is at most LEVEL. The column then is (t + 1e-6) mod P.
None is sought where t spans more than MOST_SPAN steps a row, so that the time is bounded.

The server does the same (`engine/data/season.h`); `tests/golden/seasons.json` holds both to it.
`models/research/evaluate/seasons.md` says what it does for the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Array = np.ndarray

ROWS = 16  # a context has at least
WINDOW = 1024  # the last rows by the index, in which the period is sought
SHORTEST = 3.0  # period, in steps
PERIODS = 2.5  # in the span of the context, at least
MOST_SPAN = 4  # steps a row
LEVEL = 1e-3
LEVELS = 31  # a column of more different values acts linearly
_MOST = 96  # regressors; where the table has more, no season is sought
_AT_ONCE = 64  # frequencies, for memory
_FINENESS = 6  # points of the grid per width of a peak
_NOTHING = 1e-20  # of the variance
_WAVES = 4  # sine and cosine, two harmonics
_HOLD = 1e-9  # of a wave's squares: one that the basis tells explains nothing


class Index(NamedTuple):
    """A column of a context that counts its rows."""

    column: int
    first: float
    step: float
    order: Array  # of the context's rows by it


class Season(NamedTuple):
    """What is periodic in the target by a column of a context."""

    index: Index
    period: float  # in steps
    chance: float  # that there is none and the target looks like it all the same

    def phase(self, x: Array) -> Array:
        """[R] where in the period rows x [R, F] are, in steps."""
        return np.mod(_steps(x, self.index) + 1e-6, self.period)


def _steps(x: Array, index: Index) -> Array:
    return (x[:, index.column] - index.first) / index.step


def find_index(x: Array, is_categorical: Array) -> Index | None:
    """The first numeric column whose values all differ and are about evenly spaced: no gap is below half
    of the median gap, nine of ten are at most half above it, and all together at most MOST_SPAN a row."""
    if len(x) < ROWS:
        return None
    for column in np.flatnonzero(~np.asarray(is_categorical, bool)):
        values = x[:, column]
        if not np.isfinite(values).all():
            continue
        order = np.argsort(values, kind="stable")
        gaps = np.diff(values[order])
        step, span = float(np.median(gaps)), float(values[order[-1]] - values[order[0]])
        if not (0 < step < np.inf and span / step <= MOST_SPAN * len(x)):
            continue
        if gaps.min() >= 0.5 * step and np.mean(gaps <= 1.5 * step) >= 0.9:
            return Index(int(column), float(values[order[0]]), step, order)
    return None


def _waves(t: Array, period: Array | float, harmonics: tuple[float, ...] = (1, 2)) -> Array:
    """[..., len(t), 2 len(harmonics)] for periods [...]."""
    angle = 2 * np.pi * t / np.asarray(period, dtype=np.float64)[..., None]
    return np.stack([wave(h * angle) for h in harmonics for wave in (np.sin, np.cos)], axis=-1)


def _regressors(column: Array, categorical: bool) -> Array:
    """[n, k] what stands for another column: its values one by one, or itself."""
    known = ~np.isnan(column)
    values = np.unique(column[known])
    if categorical or len(values) <= LEVELS:
        return (column[:, None] == values).astype(np.float64)
    relative = column / np.abs(values).max()  # sums of a user's numbers may be beyond a float64
    return np.stack([np.where(known, relative - relative[known].mean(), 0.0), ~known], axis=1)


def _basis(columns: Array) -> Array:
    """Orthonormal columns that span the same."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, sizes > 1e-9 * sizes[0]]


def _without(basis: Array, of: Array) -> Array:
    return of - basis @ (basis.T @ of)


def _left(basis: Array, y: Array, waves: Array) -> Array:
    """[...] sum of squares of y after waves [..., n, k] beside the basis, which y is already without."""
    size = waves.shape[-1]
    least = _HOLD * (waves * waves).sum(axis=(-1, -2))[..., None, None] / size
    waves = _without(basis, waves)
    turned = np.swapaxes(waves, -1, -2)
    products = turned @ waves
    weights = np.linalg.solve(products + least * np.eye(size), turned @ y[:, None])
    return y @ y - (turned @ y[:, None] * weights).sum(axis=(-1, -2))


def _chance(ratio: float, freedom: int) -> float:
    """That four columns which mean nothing leave at most this ratio of the squares."""
    ratio = min(max(ratio, 0.0), 1.0)
    return ratio ** (freedom / 2) * (1 + freedom / 2 * (1 - ratio))


def find_period(
    t: Array, y: Array, others: Array | None = None, before: int | None = None
) -> tuple[float, float] | None:
    """The period of y [n] by ascending t [n], in steps of about 1, and its chance; None where it cannot be told.
    Others [n, k] are regressors. Where the values before leave nothing to explain, as in a pure wave, they are
    left out."""
    rows, span = len(y), t[-1] - t[0]
    if not span <= MOST_SPAN * rows:
        return None
    if before is None:
        before = min(max(rows // 8, 1), 4)
    size = np.abs(y).max()
    if size == 0:
        return None
    y = y / size  # squares of a user's numbers may be beyond what a float64 holds
    deviation = y.std()
    if deviation <= 1e-12:
        return None
    whole_t, whole_y = t, y
    y, u = (y - y.mean()) / deviation, (t - t.mean()) / t.std()
    parts = [np.ones(rows)[:, None], u[:, None]] + ([u[:, None] ** 2] if rows >= 64 else [])
    parts += [np.roll(y, back)[:, None] for back in range(1, before + 1)]
    parts += [] if others is None else [others]
    if sum(part.shape[1] for part in parts) > min(_MOST, rows):
        return None
    basis = _basis(np.concatenate(parts, axis=1)[before:])
    t, y = t[before:] - t[0], y[before:]
    y = _without(basis, y)
    squares, freedom = float(y @ y), len(y) - basis.shape[1] - _WAVES
    if freedom < 4:
        return None
    if squares <= _NOTHING * rows:
        return find_period(whole_t, whole_y, others, before=0) if before else None

    def left(frequencies: Array) -> Array:
        pieces = range(0, len(frequencies), _AT_ONCE)
        return np.concatenate([_left(basis, y, _waves(t, 1 / frequencies[i : i + _AT_ONCE])) for i in pieces])

    low, high, width = PERIODS / span, 1 / SHORTEST, 1 / (_FINENESS * span)
    if low > high:
        return None
    frequencies = np.arange(low, high, width)
    best = frequencies[left(frequencies).argmin()]
    for _ in range(2):
        frequencies = np.clip(best + width * np.linspace(-1, 1, 17), low, high)
        found = left(frequencies)
        best, width = frequencies[found.argmin()], width / 8
    period, least = 1 / best, float(found.min())
    whole = float(round(period))
    if SHORTEST <= whole <= span / PERIODS:
        squares_of_whole = float(left(np.array([1 / whole]))[0])
        if squares_of_whole <= least * (1 + 6 / freedom):
            period, least = whole, squares_of_whole
    tries = 2 * span * (high - low) + 1
    chance = min(1.0, tries * _chance(least / squares, freedom))
    return period * _multiple(basis, t, y, period, span, freedom - _WAVES), chance


def _multiple(basis: Array, t: Array, y: Array, period: float, span: float, freedom: int) -> int:
    """1, or 2 or 3 where the season repeats only after so many periods."""
    basis = _basis(np.concatenate([basis, _waves(t, period)], axis=1))
    y, found = _without(basis, y), [(LEVEL, 1)]
    if float(y @ y) <= _NOTHING * len(y):
        return 1
    for many, more in ((2, (1, 3)), (3, (1, 2))):
        if many * period <= span / PERIODS and freedom >= 4:
            ratio = float(_left(basis, y, _waves(t, many * period, more))) / float(y @ y)
            found.append((_chance(ratio, freedom), many))
    return min(found)[1]


def find_season(x: Array, y: Array, is_categorical: Array, beside_others: bool = True) -> Season | None:
    """Of a context x [Nctx, F], y [Nctx]; a season that another column tells counts only if not beside_others."""
    index = find_index(x, is_categorical)
    if index is None or not np.isfinite(y).all():
        return None
    rows = index.order[-WINDOW:]
    others = [
        _regressors(x[rows, f], bool(is_categorical[f]))
        for f in range(x.shape[1])
        if f != index.column and beside_others and not np.isnan(x[rows, f]).all()
    ]
    columns = np.concatenate(others, axis=1) if others else None
    found = find_period(_steps(x, index)[rows], y[rows].astype(np.float64), columns)
    return Season(index, *found) if found is not None and found[1] <= LEVEL else None
