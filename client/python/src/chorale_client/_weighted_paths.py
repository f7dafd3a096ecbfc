"""Paths with weights, which those of `Samples` are if totals are known."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from chorale_client._columns import Floats, Integers
from chorale_client._errors import FailedPreconditionError, InvalidArgumentError
from chorale_client._groups import GroupLabels
from chorale_client._known_totals import effective_sample_size
from chorale_client._known_values import KnownLogDensity

PathsT = TypeVar("PathsT", bound="WeightedPaths")


class WeightedPaths:
    """Joint sample paths that may have weights.

    Attributes:
        values: [paths, rows].
        log_densities: [paths, rows], or None.
        known_log_density: See `Samples`.
        groups: The labels of the groups, or None.
        log_weights: [paths], or [paths, groups]: natural logarithms; None without weights.
        group_of_row: [rows]: the position of the group of each row; None without weights.
    """

    values: Floats
    log_densities: Floats | None
    known_log_density: KnownLogDensity
    groups: GroupLabels
    log_weights: Floats | None
    group_of_row: Integers | None

    @property
    def effective_sample_size(self) -> float | Floats:
        """The number of paths without weights that would have about the same errors.

        (sum w)^2 / sum w^2 of the weights w; [groups] with groups. Without weights, the number of
        paths. 0 if the known total is not possible on any path.
        """
        if self.log_weights is None:
            return float(len(self.values))
        sizes = effective_sample_size(self.log_weights)
        return sizes if sizes.ndim else float(sizes)

    def resample(self: PathsT, n: int | None = None, *, seed: int = 0) -> PathsT:
        """Returns paths without weights, by systematic resampling, in random order.

        On average, a path occurs as often as its weight says, and never once more or less. Paths of
        each group are resampled separately. Statistics of the result are those given the known
        totals. A path may occur several times, so the errors are those of `effective_sample_size`
        paths.

        Args:
            n: The number of paths; None: as many as there are.
            seed: The seed of the choice.

        Raises:
            InvalidArgumentError: `n` is not positive, or the samples have no weights.
            FailedPreconditionError: The known total is not possible on any path.
        """
        if self.log_weights is None or self.group_of_row is None:
            raise InvalidArgumentError("resample: the samples have no weights", fields=["total"])
        paths = len(self.values)
        count = paths if n is None else int(n)
        if count < 1:
            raise InvalidArgumentError(f"n: {n}, must be at least 1", fields=["n"])
        rng = np.random.default_rng(seed)
        weights = self.log_weights.reshape(paths, -1)
        chosen = np.stack([self._choose(weights, g, count, rng) for g in range(weights.shape[1])])
        of_rows = chosen[self.group_of_row].T  # [n, rows]: the path of each value
        changes: dict[str, Any] = {"values": np.take_along_axis(self.values, of_rows, axis=0)}
        if self.log_densities is not None:
            changes["log_densities"] = np.take_along_axis(self.log_densities, of_rows, axis=0)
        known: Any = self.known_log_density
        if np.ndim(known) > (0 if self.groups is None else 1):  # of each path
            of_groups = chosen[0] if self.groups is None else chosen.T
            known = (
                known[of_groups]
                if self.groups is None
                else np.take_along_axis(known, of_groups, axis=0)
            )
            changes["known_log_density"] = known
        plain: Any = dataclasses.replace(
            self,  # type: ignore[type-var]  # the derived class is a dataclass
            log_weights=None,
            group_of_row=None,
            first_path=0,
            **changes,
        )
        result: PathsT = plain
        return result

    def _choose(
        self, log_weights: Floats, group: int, count: int, rng: np.random.Generator
    ) -> npt.NDArray[np.intp]:
        """Returns the path of each resampled path over a group."""
        mine = log_weights[:, group]
        if not np.isfinite(mine.max()):
            where = "" if self.groups is None else f" of the group {self.groups[group]!r}"
            raise FailedPreconditionError(
                f"total: the known total{where} is not possible on any of the {len(mine)} paths: "
                "draw more paths, or check the total"
            )
        sums = np.exp(mine - mine.max()).cumsum()
        places = (np.arange(count) + rng.random()) / count * sums[-1]
        # Rounding may leave the last place beyond the last path with weight.
        last = np.flatnonzero(np.isfinite(mine))[-1]
        return rng.permutation(np.minimum(np.searchsorted(sums, places, side="right"), last))

    @property
    def _draws(self) -> Floats:
        """The values, for statistics; raises InvalidArgumentError if the paths have weights."""
        if self.log_weights is not None:
            raise InvalidArgumentError(
                "the paths have weights, because a total is known: call resample() first, whose "
                "paths have none, or compute with values and log_weights",
                fields=["total"],
            )
        return self.values
