"""Plots of joint samples [paths, rows]. Matplotlib is imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chorale_client._columns import Floats
from chorale_client._errors import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_JOINT, _OTHER, _INK = "#1f5fa8", "#d9722e", "#333333"
MOST_MARGINALS, MOST_PAIRS = 12, 4  # rows, unless the caller selects them
_MOST_LETTERS = 90  # in the horizontal labels of the rows
_MOST_LABELS, _MOST_SLANTED = 40, 24
_MOST_POINTS = 1500  # in a scatter plot


def plot_fan(
    values: Floats, names: Sequence[str], target: str, *, paths: int, sort: bool, ax: Axes | None
) -> Axes:
    """See `Samples.plot`."""
    count = len(names)
    ax = _axes(ax, width=max(6.0, min(14.0, 2.0 + 0.28 * count)), height=4.0)
    order = np.argsort(np.median(values, axis=0)) if sort else np.arange(count)
    values = values[:, order]
    x = np.arange(count)
    for level, shade in ((90, 0.18), (50, 0.32)):
        low, high = np.percentile(values, [50 - level / 2, 50 + level / 2], axis=0)
        if count == 1:  # the band of a single row would have no width
            ax.fill_between([-0.3, 0.3], [low[0]] * 2, [high[0]] * 2, color=_JOINT, alpha=shade,
                            lw=0, label=f"{level} %")  # fmt: skip
        else:
            ax.fill_between(x, low, high, color=_JOINT, alpha=shade, lw=0, label=f"{level} %")
    for i, path in enumerate(values[:paths]):
        ax.plot(x, path, color=_INK, alpha=0.28, lw=0.7, label="paths" if i == 0 else None)
    ax.plot(x, np.median(values, axis=0), color=_JOINT, lw=2.2, label="median",
            marker="o" if count <= _MOST_LABELS else None, ms=3.5)  # fmt: skip
    _row_ticks(ax, [names[i] for i in order])
    ax.set_ylabel(target)
    ax.set_xlim(-0.5, count - 0.5)
    ax.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    return ax


def plot_marginals(
    values: Floats, names: Sequence[str], target: str, *, left_out: int, ax: Axes | None
) -> Axes:
    """See `Samples.plot_marginals`; `left_out` further rows are not shown."""
    count = len(names)
    ax = _axes(ax, width=6.5, height=1.2 + 0.42 * count)
    grid = np.linspace(*_most_of(values), 400)
    curves = np.array([_density(draws, grid) for draws in values.T])
    height = 1.7 / max(curves.max(), np.finfo(float).tiny)
    for i, curve in enumerate(curves):
        base = count - 1 - i
        ax.fill_between(grid, base, base + height * curve, color=_JOINT, alpha=0.55, lw=0, zorder=i)
        ax.plot(grid, base + height * curve, color="white", lw=1.0, zorder=i)
        middle = float(np.median(values[:, i]))
        top = base + height * float(np.interp(middle, grid, curve))
        ax.plot([middle, middle], [base, top], color=_INK, lw=0.9, zorder=i)
    ax.set_yticks(np.arange(count)[::-1], names)
    ax.set_ylim(-0.15, count + 0.9)
    ax.set_xlim(grid[0], grid[-1])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(target)
    if left_out:
        ax.set_title(f"the first {count} of {count + left_out} rows", loc="left", fontsize="small")
    return ax


def plot_pairs(
    values: Floats, names: Sequence[str], correlations: Floats, *, ax: Axes | None
) -> Axes:
    """See `Samples.plot_pairs`."""
    count = len(names)
    size = max(3.5, min(11.0, 1.9 * count))
    ax = _axes(ax, width=size, height=size)
    ax.set_axis_off()
    step = 1.0 / count
    some = values[:_MOST_POINTS]
    bounds = [_most_of(draws) for draws in values.T]
    for down in range(count):
        for across in range(down + 1):
            cell = ax.inset_axes((across * step + 0.01, 1 - (down + 1) * step + 0.01,
                                  step - 0.02, step - 0.02))  # fmt: skip
            _plain(cell)
            if across == down:
                cell.hist(values[:, down], bins=30, range=bounds[down], color=_JOINT, alpha=0.6)
                cell.set_yticks([])
                cell.set_title(names[down], fontsize="small")
            else:
                cell.plot(some[:, across], some[:, down], ".", color=_JOINT, ms=2, alpha=0.35)
                cell.text(0.04, 0.96, f"r = {correlations[down, across]:.2f}", va="top",
                          transform=cell.transAxes, fontsize="small", color=_INK)  # fmt: skip
            cell.set_xlim(*bounds[across])
            if across < down:
                cell.set_ylim(*bounds[down])
            cell.locator_params(nbins=4)
            cell.tick_params(labelsize="x-small")
            if down < count - 1:
                cell.set_xticklabels([])
            else:
                cell.set_xlabel(names[across], fontsize="small")
            if across > 0 or down == 0:
                cell.set_yticklabels([])
            else:
                cell.set_ylabel(names[down], fontsize="small")
    return ax


def plot_sum(joint: Floats, alone: Floats, quantity: str, *, ax: Axes | None) -> Axes:
    """See `Samples.plot_sum`; `alone` are the draws as if the rows were independent."""
    ax = _axes(ax, width=6.5, height=3.8)
    grid = np.linspace(*_most_of(np.concatenate([joint, alone])), 400)
    for draws, color, name in ((alone, _OTHER, "as if independent"), (joint, _JOINT, "joint")):
        curve = _density(draws, grid)
        ax.fill_between(grid, curve, color=color, alpha=0.25, lw=0)
        ax.plot(grid, curve, color=color, lw=2, label=f"{name}: {_mean_and_spread(draws)}")
    ax.set_xlabel(quantity)
    ax.set_ylabel("density")
    ax.set_yticks([])
    ax.set_ylim(bottom=0)
    ax.set_xlim(grid[0], grid[-1])
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return ax


def plot_calibration(values: Floats, pit: Floats, *, ax: Axes | None) -> Axes:
    """See `Samples.plot_calibration`; `pit` is [rows], NaN for unknown values."""
    known = ~np.isnan(pit)
    if not known.any():
        raise InvalidArgumentError(
            "actual: all values are missing; at least one must be known", fields=["actual"]
        )
    ax = _axes(ax, width=4.8, height=4.8)
    levels = np.linspace(0, 1, 101)
    # Each path serves as observed values, which gives the deviations from the diagonal by chance.
    places = values.argsort(axis=0).argsort(axis=0)[:, known]
    expected = _coverage((places + 0.5) / len(values), levels)
    low, high = np.percentile(expected, [5, 95], axis=0)
    ax.fill_between(
        levels, low, high, color=_JOINT, alpha=0.2, lw=0, label="90 % range, if the model is right"
    )
    ax.plot([0, 1], [0, 1], color=_INK, lw=0.8, ls=":", label="ideal")
    covered = _coverage(pit[known][None, :], levels)[0]
    ax.plot(levels, covered, color=_OTHER, lw=2, label=f"{int(known.sum())} known values")
    ax.set_xlabel("level of the central interval")
    ax.set_ylabel("share of values in it")
    ax.set_aspect("equal")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.legend(frameon=False, loc="upper left")
    inset = ax.inset_axes((0.66, 0.1, 0.3, 0.2))
    inset.hist(pit[known], bins=10, range=(0, 1), color=_OTHER, alpha=0.7)
    _plain(inset)
    inset.set_yticks([])
    inset.set_xticks([0, 1])
    inset.tick_params(labelsize="x-small")
    inset.set_title("PIT", fontsize="small")
    return ax


def _coverage(pit: Floats, levels: Floats) -> Floats:
    """Returns the share of values in the central interval of each level [sets, levels]."""
    distance = np.abs(2 * pit - 1)  # a value is in all intervals of larger levels
    return np.stack([(distance <= level).mean(axis=1) for level in levels], axis=1)


def _most_of(draws: Floats) -> tuple[float, float]:
    """Returns the range of the draws without the most extreme, which would compress the rest."""
    low, high = (float(end) for end in np.percentile(draws, [0.2, 99.8]))
    margin = 0.08 * (high - low) or max(abs(low), 1.0) * 0.01
    return low - margin, high + margin


def _mean_and_spread(draws: Floats) -> str:
    """Formats the mean and the standard deviation, to two digits of the latter."""
    mean, spread = float(np.mean(draws)), float(np.std(draws, ddof=1))
    if not spread > 0:
        return f"{mean:,.6g}"
    digits = 1 - int(np.floor(np.log10(spread)))
    places = max(digits, 0)
    return f"{round(mean, digits):,.{places}f} ± {round(spread, digits):,.{places}f}"


def _density(draws: Floats, grid: Floats) -> Floats:
    """Estimates a density with Gaussian kernels of Silverman's bandwidth, from a fine histogram."""
    spread = min(float(np.std(draws)), float(np.subtract(*np.percentile(draws, [75, 25]))) / 1.349)
    spread = spread or float(np.std(draws)) or float(grid[-1] - grid[0]) / 100
    width = 0.9 * spread * len(draws) ** -0.2
    step = grid[1] - grid[0]
    counts, _ = np.histogram(draws, bins=len(grid), range=(grid[0] - step / 2, grid[-1] + step / 2))
    reach = max(1, min(int(np.ceil(4 * width / step)), len(grid) - 1))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum(), mode="full")[reach : reach + len(grid)]
    return np.asarray(smooth / (len(draws) * step))


def _axes(ax: Axes | None, *, width: float, height: float) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots require matplotlib: pip install 'chorale-client[plots]'") from None
    if ax is None:
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    _plain(ax)
    return ax


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _row_ticks(ax: Axes, names: list[str]) -> None:
    """Adds the labels of the rows, or some of them, slanted if they are long."""
    longest = max(map(len, names))
    long = longest * min(len(names), _MOST_LABELS) > _MOST_LETTERS
    every = max(1, -(-len(names) // (_MOST_SLANTED if long else _MOST_LABELS)))
    shown = names[::every]
    ax.set_xticks(
        np.arange(0, len(names), every),
        shown,
        rotation=45 if long else 0,
        ha="right" if long else "center",
        rotation_mode="anchor",
    )
