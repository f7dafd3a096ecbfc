"""Joint samples, and what follows from them: quantiles, sums, maxima, ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chorale_client.data_warnings import DataWarning
from chorale_client.descriptions import Source, Timings
from chorale_client.errors import InvalidArgumentError
from chorale_client.labels import Labelled, Labels
from chorale_client.row_values import values_for_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Samples(Labelled):
    """Joint sample paths: on each path, each row was drawn given the values drawn before it.

    So whatever is computed on each path by itself is a sample of it: `samples.values.sum(axis=1)`
    are draws of the sum. `samples[label]` are the draws of one row, or of several rows that have
    that label.

    Attributes:
        values: [paths, rows], in the target's unit.
        labels: Of the rows.
        target: The name of the column that was drawn.
        seed: Draws the same samples again.
        source: What the samples were drawn from.
        timings: Where the time went in the server.
        log_densities: [paths, rows]: of each value given those before it on its path; None unless
            asked for.
        warnings: Of the rows.
    """

    values: Floats
    labels: Labels
    target: str
    seed: int
    source: Source
    timings: Timings
    log_densities: Floats | None
    warnings: tuple[DataWarning, ...]

    @property
    def paths(self) -> int:
        """The number of paths."""
        return len(self.values)

    def __len__(self) -> int:
        return int(self.values.shape[1])

    def __iter__(self) -> Iterator[Floats]:
        return iter(self.values.T)

    def __getitem__(self, label: Any) -> Floats:
        return self.values[:, self.labels.position(label)]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        values = self.values if dtype is None else self.values.astype(dtype, copy=False)
        return values.copy() if copy else values

    def __repr__(self) -> str:
        return f"<Samples of {self.target!r}: {self.paths} paths of {len(self)} rows>"

    def select(self, rows: Any) -> Samples:
        """The samples of some rows, which stay joint.

        Args:
            rows: Labels, a mask [rows], or a slice of positions. A mask that is a Series of pandas
                goes by its labels, which must be those of the rows.
        """
        at = self.labels.positions(rows)
        densities = None if self.log_densities is None else self.log_densities[:, at]
        return dataclasses.replace(
            self, values=self.values[:, at], labels=self.labels.take(at), log_densities=densities
        )

    # ---- Of each row -----------------------------------------------------------------------

    def quantile(self, q: npt.ArrayLike) -> Floats:
        """Quantiles of each row, linear between draws.

        Args:
            q: A probability, or several.

        Returns:
            [rows] for one probability, else [rows, probabilities].
        """
        wanted = np.asarray(q, dtype=np.float64)
        quantiles = np.asarray(np.quantile(self.values, wanted, axis=0))
        return np.moveaxis(quantiles, 0, -1) if wanted.ndim else quantiles

    def interval(self, level: float = 0.9) -> Floats:
        """The central interval of each row: [rows, 2], its lower and its upper end."""
        if not 0.0 < level < 1.0:
            raise InvalidArgumentError(f"level: {level}, must be between 0 and 1")
        return self.quantile([(1 - level) / 2, (1 + level) / 2])

    def mean(self) -> Floats:
        """[rows]."""
        return np.asarray(self.values.mean(axis=0))

    def std(self) -> Floats:
        """Standard deviations [rows], with the denominator paths - 1."""
        return np.asarray(self.values.std(axis=0, ddof=1))

    # ---- Of rows together ------------------------------------------------------------------

    def cov(self) -> Floats:
        """Covariances [rows, rows], with the denominator paths - 1."""
        return np.atleast_2d(np.cov(self.values, rowvar=False))

    def corr(self) -> Floats:
        """Correlations [rows, rows]; NaN for a row that does not vary."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.atleast_2d(np.corrcoef(self.values, rowvar=False))

    def sum(self, rows: Any = None) -> Floats:
        """Draws of the sum over rows [paths].

        Args:
            rows: None for all; labels; or a mask [rows], as for `select`.
        """
        return np.asarray(self.values[:, self.labels.positions(rows)].sum(axis=1))

    def max(self, rows: Any = None) -> Floats:
        """Draws of the largest value of the rows [paths]; `rows` as for `sum`."""
        return np.asarray(self.values[:, self._some(rows)].max(axis=1))

    def min(self, rows: Any = None) -> Floats:
        """Draws of the smallest value of the rows [paths]; `rows` as for `sum`."""
        return np.asarray(self.values[:, self._some(rows)].min(axis=1))

    def ranks(self) -> npt.NDArray[np.int64]:
        """[paths, rows]: the place of each row on each path; 1 is the largest value."""
        order = np.argsort(-self.values, axis=1, kind="stable")
        places = np.empty(order.shape, dtype=np.int64)
        np.put_along_axis(places, order, np.arange(1, len(self) + 1)[None, :], axis=1)
        return places

    def argmax_probabilities(self) -> Floats:
        """[rows]: on what share of the paths the row has the largest value; they sum to 1."""
        best = np.bincount(self.values.argmax(axis=1), minlength=len(self))
        return np.asarray(best / self.paths)

    def independent(self, seed: int = 0) -> Samples:
        """Each row's draws, permuted on their own: the same rows as if they were independent.

        What a decision would rest on without joint samples; to compare with. Log-densities, which
        are of whole paths, are left out.
        """
        rng = np.random.default_rng(seed)
        return dataclasses.replace(
            self, values=rng.permuted(self.values, axis=0), log_densities=None
        )

    def _some(self, rows: Any) -> npt.NDArray[np.intp]:
        at = self.labels.positions(rows)
        if not at.size:
            raise InvalidArgumentError("rows: there are none", fields=["rows"])
        return at

    # ---- For other libraries ---------------------------------------------------------------

    def to_frame(self, *, summary: bool = False) -> Any:
        """A frame of the kind that the rows came in.

        Args:
            summary: False: a line for each path, and a column for each row, named like it. True: a
                line for each row, with its index, and columns "mean", "std", "q05", "q25", "q50",
                "q75", "q95".
        """
        if not summary:
            return self.labels.frame(self._columns(), by_row=False)
        quantiles = self.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
        names = ("q05", "q25", "q50", "q75", "q95")
        columns = {"mean": self.mean(), "std": self.std()}
        columns.update({name: quantiles[:, i] for i, name in enumerate(names)})
        return self.labels.frame(columns)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a line for each path, and a column for each row."""
        return Labels(self.index, "pyarrow").frame(self._columns(), by_row=False)

    def _columns(self) -> dict[str, Floats]:
        names = self.labels.names()
        if len(set(names)) < len(names):  # rows that have one label are told apart by their number
            names = [f"{name}[{i}]" for i, name in enumerate(names)]
        return {name: self.values[:, i] for i, name in enumerate(names)}

    def to_xarray(self) -> Any:
        """An `xarray.DataArray` with the dimensions "path" and "row"."""
        try:
            import xarray
        except ImportError:
            raise ImportError(
                "to_xarray() needs xarray: pip install 'chorale-client[xarray]'"
            ) from None
        return xarray.DataArray(
            self.values,
            dims=("path", "row"),
            coords={"path": np.arange(self.paths), "row": np.asarray(self.index)},
            name=self.target,
            attrs={
                "seed": str(self.seed),
                "context_digest": self.source.context_digest,
                "model_digest": self.source.model_digest,
            },
        )

    def to_arviz(self) -> Any:
        """ArviZ's data with the paths as one chain of `posterior_predictive`."""
        try:
            import arviz
        except ImportError:
            raise ImportError(
                "to_arviz() needs arviz: pip install 'chorale-client[arviz]'"
            ) from None
        return arviz.from_dict(
            posterior_predictive={self.target: self.values[None, :, :]},
            dims={self.target: ["row"]},
            coords={"row": np.asarray(self.index)},
        )

    # ---- Plots -----------------------------------------------------------------------------

    def plot(self, *, paths: int = 20, sort: bool = False, ax: Axes | None = None) -> Axes:
        """A fan chart: medians, intervals of 50 % and 90 %, and some paths.

        Args:
            paths: How many paths to draw, the first ones.
            sort: Whether to order the rows by their medians.
            ax: Where to draw; None: a new figure.
        """
        from chorale_client.plots import plot_fan

        return plot_fan(self, paths=paths, sort=sort, ax=ax)

    def plot_marginals(self, rows: Any = None, *, ax: Axes | None = None) -> Axes:
        """The density of each row's draws, one above the other.

        Args:
            rows: Labels or a mask; None: the first 12.
            ax: Where to draw; None: a new figure.
        """
        from chorale_client.plots import plot_marginals

        return plot_marginals(self, rows, ax=ax)

    def plot_pairs(self, rows: Any = None, *, ax: Axes | None = None) -> Axes:
        """The draws of rows against each other, two by two, and each row's histogram.

        Args:
            rows: Labels or a mask; None: the first 4.
            ax: The place in which the grid is drawn; None: a new figure.
        """
        from chorale_client.plots import plot_pairs

        return plot_pairs(self, rows, ax=ax)

    def plot_sum(self, rows: Any = None, *, ax: Axes | None = None) -> Axes:
        """The sum over rows, and what it would be if the rows were independent.

        Args:
            rows: Labels or a mask; None: all.
            ax: Where to draw; None: a new figure.
        """
        from chorale_client.plots import plot_sum

        return plot_sum(self, rows, ax=ax)

    def plot_calibration(self, actual: npt.ArrayLike, *, ax: Axes | None = None) -> Axes:
        """How many known values lie in the rows' central intervals of each level.

        Args:
            actual: [rows]: the known values; NaN where there is none. A Series of pandas goes by
                its labels, which must be those of the rows.
            ax: Where to draw; None: a new figure.
        """
        from chorale_client.plots import plot_calibration

        return plot_calibration(self, actual, ax=ax)

    def pit(self, actual: npt.ArrayLike) -> Floats:
        """Where the known values lie in their rows' draws.

        Args:
            actual: [rows]: the known values; NaN where there is none. A Series of pandas goes by
                its labels, which must be those of the rows.

        Returns:
            [rows]: the share of draws below the value, and half of those that equal it; uniform
            between 0 and 1 if the model is right.
        """
        known = values_for_rows(actual, self.index, "actual")
        if known.shape != (len(self),):
            raise InvalidArgumentError(
                f"actual: the shape is {known.shape}, must be ({len(self)},): a value for each row",
                fields=["actual"],
            )
        below = (self.values < known).mean(axis=0) + 0.5 * (self.values == known).mean(axis=0)
        return np.where(np.isnan(known), np.nan, below)
