"""Joint samples, and statistics of them: quantiles, sums, maxima, ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chorale_client import _exports, _plots
from chorale_client._columns import Floats, Integers
from chorale_client._concatenation import concat_samples
from chorale_client._data_warnings import DataWarning
from chorale_client._errors import InvalidArgumentError
from chorale_client._groups import GroupLabels
from chorale_client._known_values import KnownLogDensity
from chorale_client._labels import Labelled, Labels
from chorale_client._models_and_contexts import Source, Timings
from chorale_client._row_values import values_for_rows
from chorale_client._weighted_paths import WeightedPaths

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Samples(WeightedPaths, Labelled):
    """Joint sample paths.

    On each path, the value of each row was drawn conditional on the values already drawn. A
    statistic of the values of a path is therefore a draw of that statistic:
    `samples.values.sum(axis=1)` are draws of the sum. `samples[label]` are the draws of a row, or
    of all rows with that label.

    Attributes:
        values: [paths, rows], in the target's unit; rows whose value is known have that value.
            float64, or float32 if the call requests it.
        labels: The labels of the rows.
        target: The name of the column that was drawn.
        seed: The seed, which reproduces the samples.
        source: The digests of the context and the model; without that of the model if the call has
            ended early.
        timings: The durations of the phases of the call on the server.
        log_densities: [paths, rows]: the log-density of each value, conditional on the earlier
            values of its path; NaN for known values; None unless requested.
        warnings: Warnings about the rows.
        known_log_density: The joint log-density of the known values, given the context: a number,
            or [paths] if each path has its own values; None if no values are known. With groups,
            [groups] or [paths, groups], with 0 for a group without known values.
        groups: [groups]: the labels of the groups; None without groups. The values of different
            groups are independent.
        first_path: The index of the first path among those of the seed.
        log_weights: [paths], or [paths, groups] with groups: the natural logarithms of the weights
            of the paths; -inf for the weight 0. None unless a total is known. Statistics of paths
            with weights are those of `resample()`; without it, they raise InvalidArgumentError.
        group_of_row: [rows]: the position of the group of each row; None unless a total is known.

    Examples:
        >>> samples.quantile([0.05, 0.95])  # [rows, 2]
        >>> samples.sum(["G12", "G13"])  # [paths]: draws of the sum of two rows
    """

    values: Floats
    labels: Labels
    target: str
    seed: int
    source: Source
    timings: Timings
    log_densities: Floats | None
    warnings: tuple[DataWarning, ...]
    known_log_density: KnownLogDensity = None
    groups: GroupLabels = None
    first_path: int = 0
    log_weights: Floats | None = None
    group_of_row: Integers | None = None

    @classmethod
    def concat(cls, parts: Iterable[Samples]) -> Samples:
        """Joins the samples of several calls for paths of the same seed.

        Args:
            parts: Samples of the same rows, in any order. The paths of each follow those of another
                (`first_path`).

        Returns:
            The samples with all paths. Timings are those of the last paths.

        Raises:
            InvalidArgumentError: Paths are missing or repeated, or the samples differ in their
                seed, source, rows or groups.

        Examples:
            >>> first = context.sample(rows, paths=600, seed=1)
            >>> others = context.sample(rows, paths=400, seed=1, first_path=600)
            >>> samples = Samples.concat([first, others])  # 1000 paths
        """
        samples: Samples = concat_samples(parts)
        return samples

    @property
    def paths(self) -> int:
        """The number of paths."""
        return len(self.values)

    def __len__(self) -> int:
        return int(self.values.shape[1])

    def __iter__(self) -> Iterator[Floats]:
        return iter(self._draws.T)

    def __getitem__(self, label: Any) -> Floats:
        return self._draws[:, self.labels.position(label)]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        values = self._draws if dtype is None else self._draws.astype(dtype, copy=False)
        return values.copy() if copy else values

    def __repr__(self) -> str:
        return f"<Samples of {self.target!r}: {self.paths} paths of {len(self)} rows>"

    def select(self, rows: Any) -> Samples:
        """Returns the joint samples of some rows.

        Args:
            rows: Labels, a mask [rows], or a slice of positions. A mask that is a pandas Series is
                aligned by its labels, which must be the labels of the rows.

        Returns:
            The samples of these rows.

        Raises:
            InvalidArgumentError: The mask or the slice is invalid.
            KeyError: No row has such a label.
        """
        at = self.labels.positions(rows)
        densities = None if self.log_densities is None else self.log_densities[:, at]
        return dataclasses.replace(
            self,
            values=self.values[:, at],
            labels=self.labels.take(at),
            log_densities=densities,
            group_of_row=None if self.group_of_row is None else self.group_of_row[at],
        )

    # ---- Statistics of each row ------------------------------------------------------------

    def quantile(self, q: npt.ArrayLike) -> Floats:
        """Returns quantiles of each row, with linear interpolation between draws.

        Args:
            q: A probability, or several.

        Returns:
            Quantiles [rows] for a single probability, otherwise [rows, probabilities], in the
            target's unit.
        """
        wanted = np.asarray(q, dtype=np.float64)
        quantiles = np.asarray(np.quantile(self._draws, wanted, axis=0))
        return np.moveaxis(quantiles, 0, -1) if wanted.ndim else quantiles

    def interval(self, level: float = 0.9) -> Floats:
        """Returns the central interval of each row.

        Args:
            level: The probability of the interval, between 0 and 1.

        Returns:
            The lower and the upper bounds [rows, 2], in the target's unit.
        """
        if not 0.0 < level < 1.0:
            raise InvalidArgumentError(f"level: {level}, must be between 0 and 1")
        return self.quantile([(1 - level) / 2, (1 + level) / 2])

    def mean(self) -> Floats:
        """Returns the mean of each row [rows], in the target's unit."""
        return np.asarray(self._draws.mean(axis=0, dtype=np.float64))

    def std(self) -> Floats:
        """Returns the standard deviation of each row [rows]; the denominator is paths - 1."""
        return np.asarray(self._draws.std(axis=0, ddof=1, dtype=np.float64))

    # ---- Statistics over several rows ------------------------------------------------------

    def cov(self) -> Floats:
        """Returns the covariances [rows, rows]; the denominator is paths - 1."""
        return np.atleast_2d(np.cov(self._draws, rowvar=False))

    def corr(self) -> Floats:
        """Returns the correlations [rows, rows]; NaN for rows that do not vary."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.atleast_2d(np.corrcoef(self._draws, rowvar=False))

    def sum(self, rows: Any = None) -> Floats:
        """Returns draws of the sum over rows.

        Args:
            rows: Labels or a mask [rows], as for `select`; None: all rows.

        Returns:
            Draws of the sum [paths], in the target's unit.
        """
        some = self._draws[:, self.labels.positions(rows)]
        return np.asarray(some.sum(axis=1, dtype=np.float64))

    def max(self, rows: Any = None) -> Floats:
        """Returns draws of the largest value of the rows [paths]; `rows` as for `sum`."""
        return np.asarray(self._draws[:, self._some(rows)].max(axis=1))

    def min(self, rows: Any = None) -> Floats:
        """Returns draws of the smallest value of the rows [paths]; `rows` as for `sum`."""
        return np.asarray(self._draws[:, self._some(rows)].min(axis=1))

    def ranks(self) -> npt.NDArray[np.int64]:
        """Returns the rank of each row on each path [paths, rows]; 1 is the largest value."""
        order = np.argsort(-self._draws, axis=1, kind="stable")
        places = np.empty(order.shape, dtype=np.int64)
        np.put_along_axis(places, order, np.arange(1, len(self) + 1)[None, :], axis=1)
        return places

    def argmax_probabilities(self) -> Floats:
        """Returns the probability that each row has the largest value [rows]; the sum is 1."""
        best = np.bincount(self._draws.argmax(axis=1), minlength=len(self))
        return np.asarray(best / self.paths)

    def independent(self, seed: int = 0) -> Samples:
        """Returns the samples with the draws of each row permuted separately.

        The marginal distributions are unchanged, and the rows are independent. Compare with these
        samples to measure the effect of joint samples. The result has no log-densities, because
        they belong to whole paths.

        Args:
            seed: The seed of the permutations.
        """
        rng = np.random.default_rng(seed)
        return dataclasses.replace(
            self,
            values=rng.permuted(self._draws, axis=0),
            log_densities=None,
            known_log_density=None,
        )

    def _some(self, rows: Any) -> npt.NDArray[np.intp]:
        at = self.labels.positions(rows)
        if not at.size:
            raise InvalidArgumentError("rows: there are none", fields=["rows"])
        return at

    # ---- Conversions -----------------------------------------------------------------------

    def to_frame(self, *, summary: bool = False) -> Any:
        """Returns a DataFrame of the library of the rows, or of the first installed library.

        Args:
            summary: False: a line for each path, and a column for each row, named by its label.
                True: a line for each row, with its label, and the columns "mean", "std", "q05",
                "q25", "q50", "q75" and "q95".
        """
        if not summary:
            return self.labels.frame(self._columns(), by_row=False)
        quantiles = self.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
        names = ("q05", "q25", "q50", "q75", "q95")
        columns = {"mean": self.mean(), "std": self.std()}
        columns.update({name: quantiles[:, i] for i, name in enumerate(names)})
        return self.labels.frame(columns)

    def to_arrow(self) -> Any:
        """Returns a `pyarrow.Table` with a line for each path and a column for each row."""
        return Labels(self.index, "pyarrow").frame(self._columns(), by_row=False)

    def _columns(self) -> dict[str, Floats]:
        names = self.labels.names()
        if len(set(names)) < len(names):  # equal labels are made distinct by their positions
            names = [f"{name}[{i}]" for i, name in enumerate(names)]
        return {name: self._draws[:, i] for i, name in enumerate(names)}

    def to_xarray(self) -> Any:
        """Returns an `xarray.DataArray` with the dimensions "path" and "row"."""
        return _exports.to_xarray(self, self._draws)

    def to_arviz(self) -> Any:
        """Returns an `arviz.InferenceData` with the paths as a chain of `posterior_predictive`."""
        return _exports.to_arviz(self, self._draws)

    # ---- Plots -----------------------------------------------------------------------------

    def plot(self, *, paths: int = 20, sort: bool = False, ax: Axes | None = None) -> Axes:
        """Draws a fan chart: medians, intervals of 50 % and 90 %, and some paths.

        Args:
            paths: The number of paths to draw, from the first.
            sort: Whether to order the rows by their medians.
            ax: The axes to draw into; None: those of a new figure.

        Returns:
            The axes.
        """
        names = self.labels.names()
        return _plots.plot_fan(self._draws, names, self.target, paths=paths, sort=sort, ax=ax)

    def plot_marginals(self, rows: Any = None, *, ax: Axes | None = None) -> Axes:
        """Draws the density of each row's draws, stacked vertically.

        Args:
            rows: Labels or a mask; None: the first 12 rows.
            ax: The axes to draw into; None: those of a new figure.

        Returns:
            The axes.
        """
        shown = self.select(slice(_plots.MOST_MARGINALS) if rows is None else rows)
        left_out = len(self) - len(shown) if rows is None else 0
        return _plots.plot_marginals(
            shown._draws, shown.labels.names(), self.target, left_out=left_out, ax=ax
        )

    def plot_pairs(self, rows: Any = None, *, ax: Axes | None = None) -> Axes:
        """Draws scatter plots of all pairs of rows, and a histogram of each row.

        Args:
            rows: Labels or a mask; None: the first 4 rows.
            ax: The axes that contain the grid; None: those of a new figure.

        Returns:
            The axes.
        """
        shown = self.select(slice(_plots.MOST_PAIRS) if rows is None else rows)
        return _plots.plot_pairs(shown._draws, shown.labels.names(), shown.corr(), ax=ax)

    def plot_sum(self, rows: Any = None, *, ax: Axes | None = None) -> Axes:
        """Draws the density of the sum over rows, joint and as if the rows were independent.

        Args:
            rows: Labels or a mask; None: all rows.
            ax: The axes to draw into; None: those of a new figure.

        Returns:
            The axes.
        """
        quantity = f"sum of {self.target} over {len(self.labels.positions(rows))} rows"
        return _plots.plot_sum(self.sum(rows), self.independent().sum(rows), quantity, ax=ax)

    def plot_calibration(self, actual: npt.ArrayLike, *, ax: Axes | None = None) -> Axes:
        """Draws the share of observed values in the central intervals of each level.

        Args:
            actual: [rows]: the observed values, in the target's unit; NaN: unknown. A pandas Series
                is aligned by its labels, which must be the labels of the rows.
            ax: The axes to draw into; None: those of a new figure.

        Returns:
            The axes.
        """
        return _plots.plot_calibration(self._draws, self.pit(actual), ax=ax)

    def pit(self, actual: npt.ArrayLike) -> Floats:
        """Returns the probability integral transform (PIT) of observed values.

        Args:
            actual: [rows]: the observed values, in the target's unit; NaN: unknown. A pandas Series
                is aligned by its labels, which must be the labels of the rows.

        Returns:
            The share of draws below the value, plus half of the share of equal draws [rows].
            Uniform between 0 and 1 for a calibrated model; NaN for unknown values.
        """
        known = values_for_rows(actual, self.index, "actual")
        if known.shape != (len(self),):
            raise InvalidArgumentError(
                f"actual: the shape is {known.shape}, must be ({len(self)},): a value for each row",
                fields=["actual"],
            )
        below = (self._draws < known).mean(axis=0) + 0.5 * (self._draws == known).mean(axis=0)
        return np.where(np.isnan(known), np.nan, below)
