"""Point predictions: each row by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chorale_client.data_warnings import DataWarning
from chorale_client.descriptions import Source
from chorale_client.labels import Labelled, Labels

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixtures:
    """The predictive distribution of each row, as a mixture of normal distributions.

    Attributes:
        means: [rows, components], in the target's unit.
        stds: [rows, components], standard deviations.
        weights: [rows, components]; those of a row sum to 1.
    """

    means: Floats
    stds: Floats
    weights: Floats

    def density(self, values: npt.ArrayLike) -> Floats:
        """The density of each row's mixture at some values.

        Args:
            values: [points], or [rows, points] with other values for each row.

        Returns:
            [rows, points].
        """
        points = np.asarray(values, dtype=np.float64)
        points = np.broadcast_to(points, (len(self.means), points.shape[-1]))[:, :, None]
        stds = self.stds[:, None, :]
        z = (points - self.means[:, None, :]) / stds
        bells = np.exp(-0.5 * z * z) / (stds * np.sqrt(2.0 * np.pi))
        return np.asarray((self.weights[:, None, :] * bells).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class Predictions(Labelled):
    """What `predict` returns. Each row is by itself: for sums and maxima, take `sample`.

    Attributes:
        means: [rows], in the target's unit.
        stds: [rows], standard deviations of the predictive distributions.
        quantiles: [rows, probabilities], in the order of `probabilities`.
        probabilities: [probabilities]: those that were asked for.
        mixtures: The predictive distributions; None unless asked for.
        labels: Of the rows.
        target: The name of the column that is predicted.
        source: What the answer was computed from.
        warnings: Of the rows.
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

    def __len__(self) -> int:
        return len(self.means)

    def columns(self) -> dict[str, Floats]:
        """By name: "mean", "std", and for each quantile "q05" and the like.

        Quantiles that were asked for twice are told apart by their number: "q50[2]", "q50[3]".
        """
        columns = {"mean": self.means, "std": self.stds}
        names = [quantile_name(probability) for probability in self.probabilities.tolist()]
        for i, name in enumerate(names):
            unique = name if names.count(name) == 1 else f"{name}[{i}]"
            columns[unique] = self.quantiles[:, i]
        return columns

    def to_frame(self) -> Any:
        """A frame with a line for each row, of the kind that the rows came in.

        Its columns are "mean", "std" and, for each quantile, "q" and its percentage.
        """
        return self.labels.frame(self.columns())

    def to_arrow(self) -> Any:
        """The same as a `pyarrow.Table`."""
        return Labels(self.index, "pyarrow").frame(self.columns(), by_row=False)

    def __repr__(self) -> str:
        return f"<Predictions of {self.target!r}: {len(self)} rows>"


def quantile_name(probability: float) -> str:
    """The name of a quantile's column: 0.05 becomes "q05", 0.975 "q97.5"."""
    digits = float(f"{probability * 100:.15g}")  # all that are not of rounding
    percent = np.format_float_positional(digits, trim="-")
    return f"q0{percent}" if percent[1:2] in ("", ".") else f"q{percent}"
