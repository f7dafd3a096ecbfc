"""A column that says where in its season a row is, for tables with a running index.

Made from the context alone, in float64, without anything random. The index tells one or several series
(`running_index.py`), each of which is taken by itself in everything but the period. With its rows sorted by the index,
t = (index - its first) / step, and y z-scored, the rows after the first p are fitted twice:

    y_i = a + b u_i + c u_i^2 + sum_k d_k y_{i-k} + others_i e                        (R_0: sum of squares left)
    the same + sum_{h=1,2} f_h sin(2 pi h t_i / P) + g_h cos(2 pi h t_i / P)          (R_1)

with u the standardised t (u^2 from 64 rows on), p values before, and `others` the other columns: by value where they
have few, else linearly. So a season that another column already tells is none here. r is R_1 / R_0, of G series its
mean, weighted by the degrees of freedom left to each, n together. By chance alone it follows about a Beta
distribution of n/2 and 2 G, so that

    chance(r) = r^(n/2) sum_{j < 2 G} (1 - r)^j (n/2) (n/2 + 1) ... (n/2 + j - 1) / j!

P is that of the smallest r on a grid of frequencies, refined twice; a whole number of steps, half of it, or half an odd
number where these are as good: half of it where the chance of the wave that this leaves out, times the number of
frequencies, is more than FIRST_WAVE. There is a season if one of two holds:

 1. A wave that lasts: with p = 1 the chance of P times the number of frequencies that can be told apart is at most
    LEVEL; with p = 2 its chance still is; and so is the chance, times that number, that waves which differ from block
    to block of each series are as much alike. The largest of the three counts. Two values before tell as much as a
    sine, so more would hide it; and cycles that keep no time are told from it by the third condition.
 2. The chance times the number of frequencies is at most LEVEL with p = 1 to 4, one for every 8 rows: a random walk or
    a smooth series would look periodic otherwise. Where these p leave next to nothing (1 % of the squares that a trend
    and the other columns leave), as in a wave without noise, but also of any smooth curve, what they leave may be no
    noise, and then its chance tells nothing. So the wave of such a series has to pass the third condition, too, else
    the series does not count; and p = 0 where they leave at most 0.3 %, since they would hide any wave.

The period then is P, or its double or triple where the two waves that this adds have a chance of at most LEVEL.

A few odd values, such as a typing error or months of closed shops, make up nearly all squares of y and hide any wave.
So where that finds nothing, the same is tried with ranks in place of y: of what the other columns leave of it, beside a
trend that stays, since they do not add up to ranks of y itself. Both share the level: of the first search the chance
counts 4/3 times, of the second ten times. The
column is (t + 1e-6) mod P. Series that span more than MOST_SPAN steps a row are left out, and of several series only
the last rows are searched, so that the time is bounded.

The server does the same (`engine/data/season.h`); `tests/golden/seasons.json` holds both to it.
`models/research/evaluate/seasons.md` says what it does for the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from models.research.training.prior.running_index import MOST_SPAN, Index, find_indices

Array = np.ndarray

WINDOW = 1024  # the last rows by the index, in which the period is sought
SHORTEST = 3.0  # period, in steps
PERIODS = 2.5  # in the span of the context, at least
LEVEL = 1e-3
FIRST_WAVE = 0.1  # that the first wave of a period means nothing and looks like it all the same
SHARE, SHARE_OF_RANKS = 3 / 4, 1 / 10  # of the level
LEVELS = 31  # a column of more different values acts linearly
_LEAST_WINDOW = 64  # rows of each series, of many
_MOST_BEFORE = 4
_BLOCKS = 6  # of a series, at most
_LEAST_FREEDOM = 4
_LEAST_EFFECT = 2.0  # of a column, where 1 is what chance brings: of many series even a small bias tells
_MOST = 96  # regressors; where the table has more, no season is sought
_AT_ONCE = 64  # frequencies, for memory
_FINENESS = 6  # points of the grid per width of a peak
_NOTHING = 1e-20  # of the variance
# Of the squares beside a trend and other columns, what values before leave at most,
_SMOOTH = 1e-2  # where that may not be noise,
_TOLD = 3e-3  # and where these values hide any wave
_CURVED = 64  # rows from which a trend has a square
_WAVES = 4  # sine and cosine, two harmonics
_HOLD = 1e-9  # of a wave's squares: one that the basis tells explains nothing


class Season(NamedTuple):
    """What is periodic in the target by a column of a context."""

    index: Index
    period: float  # in steps
    chance: float  # that there is none and the target looks like it all the same

    def phase(self, x: Array) -> Array:
        """[R] where in the period rows x [R, F] are, in steps."""
        return np.mod(self.index.steps(x) + 1e-6, self.period)


class Part(NamedTuple):
    """The rows of a series in which a period is sought."""

    t: Array  # [n], ascending, in steps of about 1
    y: Array  # [n]
    others: Array | None = None  # [n, k], which may explain y without a season


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
    mean = np.sort(relative[known]).mean()
    return np.stack([np.where(known, relative - mean, 0.0), ~known], axis=1)


def _at_places(places: Array, column: Array) -> Array:
    """[places] the mean of the rows at each of them, which ascend; does not depend on the order of these rows."""
    starts = np.flatnonzero(np.diff(places, prepend=-np.inf))
    counts = np.diff(starts, append=len(places))
    ordered = column[np.lexsort([column, places])].astype(np.float64)
    return np.add.reduceat(ordered / np.repeat(counts, counts), starts)  # the sum may be beyond a float64


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


def _chance_of_pairs(ratio: float, freedom: int, pairs: int) -> float:
    """That so many pairs of columns which mean nothing leave at most this ratio of the squares."""
    ratio = min(max(ratio, 0.0), 1.0)
    if (1 - ratio) * freedom < _LEAST_EFFECT * 2 * pairs * ratio:
        return 1.0
    power = ratio ** (freedom / 2)
    if power < 1e-300:
        return 0.0
    term, total = 1.0, 0.0
    for pair in range(pairs):
        total += term
        term *= (freedom / 2 + pair) / (pair + 1) * (1 - ratio)
    return min(1.0, power * total)


def _chance(ratio: float, freedom: int, series: int = 1) -> float:
    """That four columns a series which mean nothing leave at most this ratio of the squares."""
    return _chance_of_pairs(ratio, freedom, _WAVES // 2 * series)


class _Fit(NamedTuple):
    """A series beside what explains it without a season."""

    basis: Array
    t: Array
    y: Array  # without the basis; its squares are the freedom
    freedom: int  # 0 where there is nothing to explain


def _fit(basis: Array, t: Array, y: Array, freedom: int) -> _Fit | None:
    if freedom < _LEAST_FREEDOM:
        return None
    y = _without(basis, y)
    squares = float(y @ y)
    if squares <= _NOTHING * len(y):
        return _Fit(basis, t, y, 0)
    return _Fit(basis, t, y * np.sqrt(freedom / squares), freedom)


def _trend(part: Part) -> Array:
    """[n, 2 or 3]"""
    u = (part.t - part.t.mean()) / part.t.std()
    return np.stack([np.ones(len(u)), u] + ([u**2] if len(u) >= _CURVED else []), axis=1)


def _columns(part: Part, before: int) -> Array:
    """[n - before, k] a trend, the other columns, and so many values before."""
    lagged = [np.roll(part.y, back)[:, None] for back in range(1, before + 1)]
    others = [] if part.others is None else [part.others]
    return np.concatenate([_trend(part), *others, *lagged], axis=1)[before:]


def _beside(part: Part, before: int) -> _Fit | None:
    """Beside a trend, so many values before, and the other columns."""
    rows, columns = len(part.y), _columns(part, before)
    if columns.shape[1] > min(_MOST, rows):
        return None
    basis = _basis(columns)
    return _fit(basis, part.t[before:], part.y[before:], rows - before - basis.shape[1] - _WAVES)


def _most_before(part: Part) -> int:
    return min(max(len(part.y) // 8, 1), _MOST_BEFORE)


def _rest(part: Part) -> float:
    """The share that values before leave of what a trend and the other columns do."""
    before = _most_before(part)
    columns, y = _columns(part, before), part.y[before:]
    left, most = (_without(_basis(each), y) for each in (columns, columns[:, :-before]))
    return float(left @ left) / float(most @ most) if most.any() else 0.0


def _freedom(fits: list[_Fit]) -> int:
    return sum(fit.freedom for fit in fits)


def _ratio(fits: list[_Fit], frequencies: Array, harmonics: tuple[float, ...] = (1, 2)) -> Array:
    """[...] what waves leave of the squares of all series."""
    left = np.zeros(len(frequencies))
    for fit in fits:
        for first in range(0, len(frequencies), _AT_ONCE):
            piece = slice(first, first + _AT_ONCE)
            left[piece] += _left(fit.basis, fit.y, _waves(fit.t, 1 / frequencies[piece], harmonics))
    return left / _freedom(fits)


def _tries(span: float) -> float:
    """Frequencies that can be told apart."""
    return 2 * span * (1 / SHORTEST - PERIODS / span) + 1


def _best_period(fits: list[_Fit], span: float) -> tuple[float, float]:
    """The period that leaves least, and its chance."""
    low, high, width = PERIODS / span, 1 / SHORTEST, 1 / (_FINENESS * span)
    frequencies = np.arange(low, high, width)
    best = frequencies[_ratio(fits, frequencies).argmin()]
    for _ in range(2):
        frequencies = np.clip(best + width * np.linspace(-1, 1, 17), low, high)
        found = _ratio(fits, frequencies)
        best, width = frequencies[found.argmin()], width / 8
    period, least, freedom = 1 / best, float(found.min()), _freedom(fits)

    best_ratio = unrounded = least
    # Of each series two columns may explain nothing, or all together somewhat more by chance.
    columns = 2 * len(fits) + 4 * np.sqrt(len(fits))

    def take_if(other: float, as_good: Callable[[float], bool]) -> bool:
        nonlocal period, least
        if not SHORTEST <= other <= span / PERIODS:
            return False
        ratio = float(_ratio(fits, np.array([1 / other]))[0])
        if as_good(ratio):
            period, least = other, ratio
            return True
        return False

    def round_if_as_good(other: float) -> None:
        take_if(other, lambda ratio: ratio <= unrounded * (1 + columns / freedom))

    def half_as_good(ratio: float) -> bool:
        """Whether the wave that half of the period lacks, the best of all frequencies, may be chance."""
        chance = _chance_of_pairs(best_ratio / ratio if ratio > 0 else 1.0, freedom, len(fits))
        return _tries(span) * chance > FIRST_WAVE

    round_if_as_good(float(np.rint(period)))
    if period % 2 != 1:  # half of an odd number is no simpler
        # The wave may be the second harmonic of the period.
        if take_if(period / 2, half_as_good) or take_if(float(np.rint(period)) / 2, half_as_good):
            unrounded = least
        round_if_as_good(float(np.rint(period)))
    if period != np.rint(period):
        round_if_as_good(float(np.rint(2 * period)) / 2)
        round_if_as_good(float(np.rint(2 * period)))
    return period, min(1.0, _tries(span) * _chance(least, freedom, len(fits)))


def _multiple(fits: list[_Fit], period: float, span: float) -> int:
    """1, or 2 or 3 where the season repeats only after so many periods."""
    beside = [
        _fit(_basis(np.concatenate([fit.basis, _waves(fit.t, period)], axis=1)), fit.t, fit.y, fit.freedom - _WAVES)
        for fit in fits
    ]
    rest = [fit for fit in beside if fit is not None and fit.freedom > 0]
    if not rest:
        return 1
    found = [(LEVEL, 1)]
    for many, harmonics in ((2, (1, 3)), (3, (1, 2))):
        if many * period <= span / PERIODS:
            ratio = float(_ratio(rest, np.array([1 / (many * period)]), harmonics)[0])
            found.append((_chance(ratio, _freedom(rest), len(rest)), many))
    return min(found)[1]


def _chance_of_one_wave(parts: list[Part], period: float) -> float:
    """That waves which differ from block to block of each series are as much alike."""
    scatter, freedom, series = 0.0, 0, 0
    for part in parts:
        t, y = part.t, part.y
        blocks = min(int((t[-1] + 1) / period + 1e-6), _BLOCKS)
        if blocks < 2:
            continue
        block = np.minimum(((t + 1e-6) * blocks / (t[-1] + 1)).astype(int), blocks - 1)
        levels = (block[:, None] == np.arange(blocks)).astype(np.float64)
        columns = [levels, _trend(part)[:, 1:]]
        columns += [] if part.others is None else [part.others]
        waves = _waves(t, period)
        without = _basis(np.concatenate(columns, axis=1))
        common = _basis(np.concatenate([without, waves], axis=1))
        own = (levels[:, :, None] * waves[:, None, :]).reshape(len(t), -1)
        single = _basis(np.concatenate([common, own], axis=1))
        squares = [float(left @ left) for left in (_without(basis, y) for basis in (without, common, single))]
        free = single.shape[1] - common.shape[1]
        if free > 0 and squares[0] - squares[2] > _NOTHING * len(y):
            scatter += free * (squares[1] - squares[2]) / (squares[0] - squares[2])
            freedom, series = freedom + free, series + 1
    return _chance(scatter / freedom, freedom, series) if series > 0 else 1.0


def _something(fits: Iterable[_Fit | None]) -> list[_Fit]:
    """Those that have something to explain."""
    return [fit for fit in fits if fit is not None and fit.freedom > 0]


def _lasting_wave(parts: list[Part], span: float) -> tuple[float, float] | None:
    """A period beside a single value before, and its chance; None if it is no wave that lasts."""
    one, two = (_something(_beside(part, before) for part in parts) for before in (1, 2))
    if not one or not two:
        return None
    period, chance = _best_period(one, span)
    if chance > LEVEL:
        return None
    ratio = float(_ratio(two, np.array([1 / period]))[0])
    beside_two = _chance(ratio, _freedom(two), len(two))
    if beside_two > LEVEL:
        return None
    one_wave = min(1.0, _tries(span) * _chance_of_one_wave(parts, period))
    return (period, max(chance, beside_two, one_wave)) if one_wave <= LEVEL else None


def _prepared(parts: list[Part]) -> list[Part]:
    """z-scored, and with t from 0; without series that are constant or have too many steps a row."""
    found = []
    for part in parts:
        if len(part.y) < 2 or not part.t[-1] - part.t[0] <= MOST_SPAN * len(part.y):
            continue
        size = np.abs(part.y).max()
        y = part.y / (size if size > 0 else 1)  # squares of a user's numbers may be beyond what a float64 holds
        if y.std() > 1e-12:
            found.append(Part(part.t - part.t[0], (y - y.mean()) / y.std(), part.others))
    return found


def _period_of(parts: list[Part], span: float) -> tuple[float, float] | None:
    known = [part for part in parts if _beside(part, _most_before(part)) is not None]
    rests = [_rest(part) for part in known]
    fits = _something(
        _beside(part, 0 if rest <= _TOLD else _most_before(part)) for part, rest in zip(known, rests, strict=True)
    )
    if not fits:
        return None
    period, chance = _lasting_wave(parts, span) or _best_period(fits, span)
    smooth = [part for part, rest in zip(known, rests, strict=True) if rest <= _SMOOTH]
    if smooth and _tries(span) * _chance_of_one_wave(smooth, period) > LEVEL:
        return _period_of([part for part, rest in zip(known, rests, strict=True) if rest > _SMOOTH], span)
    return period * _multiple(fits, period, span), chance


def _ranked(part: Part) -> Part | None:
    """With the ranks of what the other columns leave of y in its place; None where that is nothing."""
    y = part.y
    if part.others is not None:
        left = _without(_basis(np.concatenate([_trend(part), part.others], axis=1)), y)
        if left @ left <= _NOTHING * len(y):
            return None
        trend = y - _without(_basis(_trend(part)), y)
        y = np.rint((left + trend) / 1e-9)  # what differs by less may differ by rounding only
    _, which, counts = np.unique(y, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[which]  # among equals, their mean
    return Part(part.t, (ranks - ranks.mean()) / ranks.std(), part.others) if len(counts) > 1 else None


def find_period(parts: list[Part]) -> tuple[float, float] | None:
    """The period that these series have in common, and its chance; None where it cannot be told."""
    parts = _prepared(parts)
    span = max((float(part.t[-1]) for part in parts), default=0.0)
    if not span >= SHORTEST * PERIODS:
        return None
    found = _shared(_period_of(parts, span), SHARE)
    if found is not None and found[1] <= LEVEL:
        return found
    by_ranks = _shared(_period_of([each for part in parts if (each := _ranked(part)) is not None], span), SHARE_OF_RANKS)
    return min((each for each in (found, by_ranks) if each is not None), key=lambda each: each[1], default=None)


def _shared(found: tuple[float, float] | None, share: float) -> tuple[float, float] | None:
    return None if found is None else (found[0], min(1.0, found[1] / share))


# --- The season ----------------------------------------------------------------------------------


def _windows(index: Index, t: Array) -> list[Array]:
    """The last rows of each series: as many as keep the work within that of one series of WINDOW rows, and those at the
    place of the first of these."""
    count = len(index.series)
    rows = max(_LEAST_WINDOW, int(WINDOW / np.sqrt(count)))
    longest = sorted(range(count), key=lambda place: -len(index.series[place]))[: WINDOW**2 // rows**2]
    series = [index.series[place] for place in sorted(longest)]
    first = [np.searchsorted(t[each], t[each[max(len(each) - rows, 0)]]) for each in series]
    return [each[place:] for each, place in zip(series, first, strict=True)]


def _part(x: Array, y: Array, is_categorical: Array, index: Index, rows: Array, beside_others: bool) -> Part | None:
    """None where there are too many other columns."""
    others = [
        _regressors(x[rows, f], bool(is_categorical[f]))
        for f in range(x.shape[1])
        if f != index.column and f not in index.told_by and beside_others and not np.isnan(x[rows, f]).all()
    ]
    columns = np.concatenate(others, axis=1) if others else None
    if columns is not None and columns.shape[1] > _MOST:
        return None
    t = index.steps(x[rows])
    if columns is not None:
        columns = np.stack([_at_places(t, column) for column in columns.T], axis=1)
    return Part(np.unique(t), _at_places(t, y[rows]), columns)


def find_season(
    x: Array, y: Array, is_categorical: Array, beside_others: bool = True, is_date: Array | None = None
) -> Season | None:
    """Of a context x [Nctx, F], y [Nctx]; a season that another column tells counts only if not beside_others. Dates
    are days since 1970-01-01."""
    if not np.isfinite(y).all():
        return None
    for tried, index in enumerate(find_indices(x, is_categorical, is_date), start=1):
        parts = [_part(x, y, is_categorical, index, rows, beside_others) for rows in _windows(index, index.steps(x))]
        found = find_period([part for part in parts if part is not None])
        if found is not None and tried * found[1] <= LEVEL:
            return Season(index, found[0], tried * found[1])
    return None
