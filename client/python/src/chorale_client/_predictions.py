"""Marginal predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chorale_client._columns import Floats
from chorale_client._concatenation import concat_predictions
from chorale_client._data_warnings import DataWarning
from chorale_client._groups import GroupLabels
from chorale_client._known_values import KnownLogDensity
from chorale_client._labels import Labelled, Labels
from chorale_client._models_and_contexts import Source


@dataclass(frozen=True, eq=False)
class Mixtures:
    """The predictive distribution of each row: a mixture of normal distributions.

    Attributes:
        means: [rows, components], in the target's unit.
        stds: [rows, components]: standard deviations, in the target's unit.
        weights: [rows, components]: weights; the weights of a row sum to 1.
    """

    means: Floats
    stds: Floats
    weights: Floats

    def density(self, values: npt.ArrayLike) -> Floats:
        """Returns the density of each row's mixture.

        Args:
            values: [points], or [rows, points] with separate points for each row, in the target's
                unit.

        Returns:
            Densities [rows, points], per unit of the target.
        """
        points = np.asarray(values, dtype=np.float64)
        points = np.broadcast_to(points, (len(self.means), points.shape[-1]))[:, :, None]
        stds = self.stds[:, None, :]
        z = (points - self.means[:, None, :]) / stds
        bells = np.exp(-0.5 * z * z) / (stds * np.sqrt(2.0 * np.pi))
        return np.asarray((self.weights[:, None, :] * bells).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class Predictions(Labelled):
    """The result of `predict`: marginal predictions. For sums and maxima, use `sample`.

    Attributes:
        means: [rows]: means, in the target's unit.
        stds: [rows]: standard deviations of the predictive distributions, in the target's unit.
        quantiles: [rows, probabilities]: quantiles, in the target's unit and in the order of
            `probabilities`.
        probabilities: [probabilities]: the requested probabilities.
        mixtures: The predictive distributions; None unless requested.
        labels: The labels of the rows, without those whose values are known.
        target: The name of the predicted column.
        source: The digests of the context and the model.
        warnings: Warnings about the rows.
        known_log_density: The joint log-density of the known values, given the context; None if no
            values are known. With `local_rows`, it belongs to the first of several calls. With
            groups, [groups], with 0 for a group without known values.
        groups: [groups]: the labels of the groups; None without groups.
    """

    means: Floats
    stds: Floats
    quantiles: Floats
    probabilities: Floats
    mixtures: Mixtures | None
    labels: Labels
    target: str
    source: Source
    warnings: tuple[DataWarning, ...]
    known_log_density: KnownLogDensity = None
    groups: GroupLabels = None

    @classmethod
    def concat(cls, parts: Iterable[Predictions]) -> Predictions:
        """Joins the predictions of several calls, or of `stream_predictions`.

        Args:
            parts: Predictions of different rows, in the order of the rows.

        Returns:
            The predictions of all rows. The log-density of known values is that of the first
            predictions that have it, of each group. Rows without labels have the numbers of the
            parts if these ascend, and otherwise numbers from 0.

        Raises:
            InvalidArgumentError: The predictions differ in their target, probabilities or source,
                or only some have mixtures or groups.

        Examples:
            >>> try:
            ...     predictions = context.predict(rows, timeout=60)
            ... except chorale_client.DeadlineError as error:
            ...     first = error.predictions
            >>> others = context.predict(rows[len(first):])
            >>> predictions = Predictions.concat([first, others])
        """
        predictions: Predictions = concat_predictions(parts)
        return predictions

    def __len__(self) -> int:
        return len(self.means)

    def columns(self) -> dict[str, Floats]:
        """Returns the columns by name: "mean", "std", and a name such as "q05" for each quantile.

        The names of repeated quantiles contain their positions: "q50[2]", "q50[3]".
        """
        columns = {"mean": self.means, "std": self.stds}
        return {**columns, **quantile_columns(self.quantiles, self.probabilities)}

    def to_frame(self) -> Any:
        """Returns a DataFrame of the library of the rows, or of the first installed library.

        It has a line for each row, and the columns "mean", "std" and, for each quantile, "q"
        followed by its percentage.
        """
        return self.labels.frame(self.columns())

    def to_arrow(self) -> Any:
        """Returns the same columns as a `pyarrow.Table`."""
        return Labels(self.index, "pyarrow").frame(self.columns(), by_row=False)

    def __repr__(self) -> str:
        return f"<Predictions of {self.target!r}: {len(self)} rows>"


def quantile_columns(quantiles: Floats, probabilities: Floats) -> dict[str, Floats]:
    """Returns the columns of quantiles [rows, probabilities] by name.

    The names of repeated quantiles contain their positions: "q50[2]", "q50[3]".
    """
    names = [quantile_name(probability) for probability in probabilities.tolist()]
    return {
        name if names.count(name) == 1 else f"{name}[{i}]": quantiles[:, i]
        for i, name in enumerate(names)
    }


def quantile_name(probability: float) -> str:
    """Returns the name of a quantile's column: "q05" for 0.05, "q97.5" for 0.975."""
    digits = float(f"{probability * 100:.15g}")  # removes digits from rounding
    percent = np.format_float_positional(digits, trim="-")
    return f"q0{percent}" if percent[1:2] in ("", ".") else f"q{percent}"
