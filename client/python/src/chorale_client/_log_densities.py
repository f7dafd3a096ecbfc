"""Joint log-densities of given values."""

from __future__ import annotations

from dataclasses import dataclass

from chorale_client._columns import Floats
from chorale_client._data_warnings import DataWarning
from chorale_client._groups import GroupLabels
from chorale_client._known_values import KnownLogDensity
from chorale_client._labels import Labelled, Labels
from chorale_client._models_and_contexts import Source


@dataclass(frozen=True, eq=False)
class LogDensities(Labelled):
    """The result of `log_density`: natural logarithms of densities per unit of the target.

    Attributes:
        joint: [vectors]: the joint log-density of each vector of values, conditional on the known
            values. With groups, the joint log-density of each group: [groups] for values [rows],
            [vectors, groups] for values [vectors, rows].
        standard_errors: The standard error of each of `joint` over the pairs of random orders;
            None with fewer than four orders.
        terms: [vectors, rows]: log p(y_t | context, y_0 ... y_t-1), whose sum over the rows is
            `joint`; None unless requested.
        cdfs: [vectors, rows]: P(Y_t <= y_t | context, y_0 ... y_t-1), the cumulative probability of
            each value; None unless requested. They are uniform and independent if the model
            describes the target well.
        seed: The seed of the random orders; None if there are none.
        labels: The labels of the rows, without those whose values are known.
        target: The name of the target column.
        source: The digests of the context and the model.
        warnings: Warnings about the rows.
        known_log_density: The joint log-density of the known values, given the context: a number,
            or [vectors] if each vector has its own values; None if no values are known. The sum of
            it and `joint` is the joint log-density of all values. With groups, [groups] or
            [vectors, groups], with 0 for a group without known values.
        groups: [groups]: the labels of the groups; None without groups.
    """

    joint: Floats
    standard_errors: Floats | None
    terms: Floats | None
    cdfs: Floats | None
    seed: int | None
    labels: Labels
    target: str
    source: Source
    warnings: tuple[DataWarning, ...]
    known_log_density: KnownLogDensity = None
    groups: GroupLabels = None

    def __len__(self) -> int:
        return len(self.joint)

    def __float__(self) -> float:
        """Returns the joint log-density of a single vector."""
        return float(self.joint.item())

    def __repr__(self) -> str:
        if self.groups is not None:
            shape = " x ".join(map(str, self.joint.shape))
            return f"<LogDensities of {self.target!r}: {shape} of {len(self.groups)} groups>"
        return f"<LogDensities of {self.target!r}: {len(self)} vectors of {len(self.index)} rows>"
