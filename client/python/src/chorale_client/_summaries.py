"""Statistics of joint sample paths, computed by the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chorale_client._columns import Floats
from chorale_client._data_warnings import DataWarning
from chorale_client._groups import GroupLabels
from chorale_client._known_values import KnownLogDensity
from chorale_client._labels import Labelled, Labels
from chorale_client._models_and_contexts import Source, Timings
from chorale_client._predictions import quantile_columns
from chorale_client._samples import Samples


@dataclass(frozen=True, eq=False)
class FunctionalSummary:
    """Statistics of a functional over the paths.

    A functional such as a sum has a number, or with groups an array [groups]. A functional of each
    row, such as `argmax`, has an array [rows] in the order of its rows.

    Attributes:
        mean: The mean; of an event, such as `any`, its probability.
        mean_error: The standard error of the mean.
        std: The standard deviation; the denominator is paths - 1.
        quantiles: [probabilities], or [groups, probabilities]; None for functionals of each row.
        quantile_errors: The standard error of each of `quantiles`.
        conditional: Whether the mean is estimated from conditional distributions, as in `Summary`.
            The standard deviation and the quantiles are always those of the values.
        labels: The labels of the rows; None unless the functional is of each row.
    """

    mean: float | Floats
    mean_error: float | Floats
    std: float | Floats
    quantiles: Floats | None
    quantile_errors: Floats | None
    conditional: bool
    labels: Labels | None = None

    @property
    def index(self) -> Any:
        """The pandas index of the rows, or their numbers; None unless it is of each row."""
        return None if self.labels is None else self.labels.index


@dataclass(frozen=True, eq=False)
class Summary(Labelled):
    """The result of `summarize`: statistics of joint sample paths.

    The standard errors describe the difference from the statistics of infinitely many paths. They
    decrease with the root of the number of paths, or faster with `sampling="sobol"`.

    Attributes:
        means: [rows]: means, in the target's unit.
        mean_errors: [rows]: the standard errors of the means.
        stds: [rows]: standard deviations, in the target's unit; the denominator is paths - 1.
        quantiles: [rows, probabilities]: quantiles, in the target's unit and in the order of
            `probabilities`. Those of values are interpolated linearly between draws.
        quantile_errors: [rows, probabilities]: the standard errors of the quantiles.
        probabilities: [probabilities]: the requested probabilities.
        conditional: Whether the statistics of rows are estimated from the distributions of which
            the values are drawn, conditional on the earlier values of each path, instead of from
            the values. Their errors are much smaller.
        functionals: The statistics of the functionals, by name.
        covariance: [rows, rows]: the covariances; the denominator is paths - 1. With groups, such
            a matrix of the rows of each group. None unless requested.
        samples: The first `return_paths` paths; None if there are none.
        paths: The number of paths, of each group. With target errors, it may be less than
            requested.
        labels: The labels of the rows, without those whose values are known.
        target: The name of the target column.
        seed: The seed, which reproduces the paths, also with `sample`.
        source: The digests of the context and the model.
        timings: The durations of the phases of the call on the server.
        warnings: Warnings about the rows.
        known_log_density: The joint log-density of the known values, as in `Samples`.
        groups: [groups]: the labels of the groups; None without groups.
    """

    means: Floats
    mean_errors: Floats
    stds: Floats
    quantiles: Floats
    quantile_errors: Floats
    probabilities: Floats
    conditional: bool
    functionals: dict[str, FunctionalSummary]
    covariance: Floats | tuple[Floats, ...] | None
    samples: Samples | None
    paths: int
    labels: Labels
    target: str
    seed: int
    source: Source
    timings: Timings
    warnings: tuple[DataWarning, ...]
    known_log_density: KnownLogDensity = None
    groups: GroupLabels = None

    def __len__(self) -> int:
        return len(self.means)

    def columns(self) -> dict[str, Floats]:
        """Returns the columns by name: "mean", "mean_error", "std", and "q05" etc. for quantiles.

        The names of repeated quantiles contain their positions: "q50[2]", "q50[3]".
        """
        columns = {"mean": self.means, "mean_error": self.mean_errors, "std": self.stds}
        return {**columns, **quantile_columns(self.quantiles, self.probabilities)}

    def to_frame(self, *, functionals: bool = False) -> Any:
        """Returns a DataFrame of the library of the rows, or of the first installed library.

        Args:
            functionals: False: a line for each row, and the columns "mean", "mean_error", "std"
                and, for each quantile, "q" followed by its percentage. True: a line for each
                functional that has a number, and with groups for each functional and group. It has
                the same columns after the columns "functional" and, with groups, "group".
                Functionals of each row are omitted.
        """
        if not functionals:
            return self.labels.frame(self.columns())
        return self.labels.frame(self._functional_columns(), by_row=False)

    def _functional_columns(self) -> dict[str, Any]:
        found = {name: one for name, one in self.functionals.items() if one.quantiles is not None}
        group_count = 1 if self.groups is None else len(self.groups)
        columns: dict[str, Any] = {
            "functional": [name for name in found for _ in range(group_count)]
        }
        if self.groups is not None:
            columns["group"] = self._group_cells() * len(found)
        for name in ("mean", "mean_error", "std"):
            columns[name] = np.ravel([getattr(one, name) for one in found.values()])
        shape = (len(columns["functional"]), len(self.probabilities))
        quantiles = np.reshape([one.quantiles for one in found.values()], shape)
        return {**columns, **quantile_columns(quantiles, self.probabilities)}

    def _group_cells(self) -> list[Any]:
        """Returns the labels of groups as cells of a column, whose types may have to be equal."""
        assert self.groups is not None
        labels = list(self.groups)
        parts = [part for x in labels for part in (x if isinstance(x, tuple) else (x,))]
        if len({type(part) for part in parts}) == 1 or self.labels.backend == "pandas":
            return labels
        return [", ".join(map(str, x)) if isinstance(x, tuple) else str(x) for x in labels]

    def to_arrow(self) -> Any:
        """Returns the columns of the rows as a `pyarrow.Table`."""
        return Labels(self.index, "pyarrow").frame(self.columns(), by_row=False)

    def __repr__(self) -> str:
        return f"<Summary of {self.target!r}: {self.paths} paths of {len(self)} rows>"
