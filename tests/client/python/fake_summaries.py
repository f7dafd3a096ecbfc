"""Responses of a fake server to Summarize: statistics of the paths that its Sample draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import block, blocks, summary
from fake_groups import joint_known, separate, sizes
from fake_known_values import SOURCE, areas, given_sets, others
from scipy.stats import rankdata

Floats = npt.NDArray[np.float64]
TYPES = pb.Functional.Type
# The stores of the rows are mixed.
ROWS = pd.DataFrame(
    {
        "area": [50.0, 60.0, 70.0, 80.0, 90.0],
        "town": ["Kiel", "Bonn", "Kiel", "Ulm", "Bonn"],
        "store": ["y", "x", "y", "x", "y"],
    },
    index=list("abcde"),
)


def paths_of(request: Any) -> Floats:
    """The values [paths, rows], the known ones included; some are equal."""
    rng = np.random.default_rng(request.seed)
    values = np.round(rng.normal(scale=20.0, size=(request.path_count, len(areas(request)))), -1)
    values += 5 * np.round(np.array(areas(request)) / 50)
    if request.known.rows:
        values[:, list(request.known.rows)] = given_sets(request, request.path_count)
    return values


def groups_of(request: Any) -> npt.NDArray[np.intp]:
    """The group of each row [rows]."""
    return np.repeat(np.arange(len(sizes(request))), sizes(request))


def known_densities(request: Any) -> list[float]:
    return joint_known(request, separate(request))


def sampled_paths() -> list[Any]:
    """The responses of Sample: a block for each group."""

    def messages(request: Any) -> pb.SampleResponse:
        values = paths_of(request)
        if not request.group_sizes:
            return blocks(block(0, 0, values[:, others(request)].tolist()))
        made = []
        for group in range(len(request.group_sizes)):
            rows = [row for row in others(request) if groups_of(request)[row] == group]
            indices = {"rows": rows * len(values), "paths": range(len(values))}
            made.append(block(0, 0, values[:, rows].tolist(), **indices))
        return blocks(*made)

    def end(request: Any) -> pb.SampleResponse:
        return summary(request.seed, known_log_densities=known_densities(request))

    return [messages, end]


def quantile_errors(draws: Floats, quantiles: list[float]) -> Floats:
    """[..., Q] of draws [paths, ...]."""
    errors = []
    for q in quantiles:
        s = np.sqrt(q * (1 - q) / len(draws))
        low, high = np.quantile(draws, [max(q - s, 0.0), min(q + s, 1.0)], axis=0)
        errors.append((high - low) / 2)
    return np.moveaxis(np.reshape(errors, (len(quantiles), *draws.shape[1:])), 0, -1)


def statistics(draws: Floats, quantiles: list[float]) -> dict[str, Any]:
    """The statistics of draws [paths, numbers], as fields of a message."""
    stds = draws.std(axis=0, ddof=1)
    at_quantiles = np.quantile(draws, quantiles, axis=0)
    return {
        "means": draws.mean(axis=0),
        "mean_errors": stds / np.sqrt(len(draws)),
        "stds": stds,
        "quantiles": np.asarray(at_quantiles).T.ravel(),
        "quantile_errors": quantile_errors(draws, quantiles).ravel(),
    }


def longest_run(beyond: npt.NDArray[np.bool_]) -> int:
    text = "".join("x" if value else " " for value in beyond)
    return max(map(len, text.split(" ")))


def draws_of(functional: pb.Functional, values: Floats, weights: Floats) -> Floats:
    """The numbers [paths] or [paths, rows] of values [paths, rows] of a group."""
    excess = values - functional.threshold
    if functional.below:
        excess = -excess
    rows = values.shape[1]
    largest = values == values.max(axis=1, keepdims=True)
    smallest = values == values.min(axis=1, keepdims=True)
    by_type: dict[int, Callable[[], Any]] = {
        TYPES.TYPE_SUM: lambda: values @ weights,
        TYPES.TYPE_SUM_BEYOND: lambda: (
            (functional.threshold - values @ weights) * (1 if functional.below else -1) > 0
        ),
        TYPES.TYPE_MEAN: lambda: values.sum(axis=1) / rows,
        TYPES.TYPE_MAX: lambda: values.max(axis=1),
        TYPES.TYPE_MIN: lambda: values.min(axis=1),
        TYPES.TYPE_ANY: lambda: (excess > 0).any(axis=1),
        TYPES.TYPE_ALL: lambda: (excess > 0).all(axis=1),
        TYPES.TYPE_COUNT: lambda: (excess > 0).sum(axis=1),
        TYPES.TYPE_EXCESS: lambda: np.maximum(excess, 0).sum(axis=1),
        TYPES.TYPE_IMPROVEMENT: lambda: np.maximum(excess, 0).max(axis=1),
        TYPES.TYPE_LONGEST_RUN: lambda: [longest_run(path) for path in excess > 0],
        TYPES.TYPE_ARGMAX: lambda: largest / largest.sum(axis=1, keepdims=True),
        TYPES.TYPE_ARGMIN: lambda: smallest / smallest.sum(axis=1, keepdims=True),
        TYPES.TYPE_RANK: lambda: rankdata(-values, axis=1),
    }
    return np.asarray(by_type[functional.type](), dtype=np.float64)


def functional_summary(request: Any, functional: pb.Functional) -> pb.FunctionalSummary:
    values = paths_of(request)
    rows = np.array(functional.rows or range(values.shape[1]), dtype=np.intp)
    weights = np.array(functional.weights or np.ones(len(rows)))
    of_each_row = functional.type in (TYPES.TYPE_ARGMAX, TYPES.TYPE_ARGMIN, TYPES.TYPE_RANK)
    draws = np.empty((len(values), len(rows) if of_each_row else len(sizes(request))))
    for group in range(len(sizes(request))):
        own = np.flatnonzero(groups_of(request)[rows] == group)
        place = own if of_each_row else group
        draws[:, place] = draws_of(functional, values[:, rows[own]], weights[own])
    fields = statistics(draws, [] if of_each_row else list(request.quantiles))
    return pb.FunctionalSummary(**fields)


def covariances(request: Any, values: Floats) -> list[float]:
    matrices: list[float] = []
    for group in range(len(sizes(request))):
        own = [row for row in others(request) if groups_of(request)[row] == group]
        matrices += np.atleast_2d(np.cov(values[:, own], rowvar=False)).ravel().tolist()
    return matrices


def summarized(request: Any) -> pb.SummarizeResponse:
    values = paths_of(request)
    unknown = values[:, others(request)]
    return pb.SummarizeResponse(
        **statistics(unknown, list(request.quantiles)),
        functionals=[functional_summary(request, one) for one in request.functionals],
        covariances=covariances(request, values) if request.include_covariances else [],
        paths=unknown[: request.returned_path_count].ravel(),
        seed=request.seed,
        source=SOURCE,
        known_log_densities=known_densities(request),
        path_count=request.path_count,
    )
