"""A table with known values, and responses of a fake server: simple functions of the requests.

In each, `shift` is the sum of the known values.
"""

from __future__ import annotations

from typing import Any

import chorale_client
import numpy as np
import pandas as pd
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import block, blocks, in_precision, summary

SOURCE = pb.Source(context_digest="d1", model_digest="m1")
NAN = float("nan")
Invalid = chorale_client.InvalidArgumentError
# The prices of "b" and "d" are known.
ROWS = pd.DataFrame(
    {"area": [50.0, 60.0, 70.0, 80.0], "town": ["Kiel", "Bonn", "Kiel", "Ulm"]}, index=list("abcd")
)
PRICED = ROWS.assign(price=[NAN, 600.0, NAN, 800.0])
KNOWN = [NAN, 600.0, NAN, 800.0]


def areas(request: Any) -> list[float]:
    return list(request.rows.columns[0].numeric.values)


def others(request: Any) -> list[int]:
    """The rows of a request whose values are not known."""
    known = set(request.known.rows)
    return [row for row in range(len(areas(request))) if row not in known]


def given_sets(request: Any, count: int) -> list[list[float]]:
    """The known values of each of `count` paths or vectors."""
    values = list(request.known.values)
    size = len(request.known.rows)
    if len(values) == size:
        return [values] * count
    return [values[i * size : (i + 1) * size] for i in range(count)]


def known_log_densities(request: Any) -> list[float]:
    size = len(request.known.rows)
    sets = len(request.known.values) // size if size else 0
    return [-sum(known) for known in given_sets(request, sets)]


def predicted(request: Any) -> pb.PredictResponse:
    """Means are the areas and the sum of the known values."""
    shift = sum(request.known.values)
    means = [areas(request)[row] + shift for row in others(request)]
    return pb.PredictResponse(
        means=means,
        stds=[1.0] * len(means),
        quantiles=[mean + q for mean in means for q in request.quantiles],
        source=SOURCE,
        known_log_densities=known_log_densities(request),
    )


def drawn(request: Any) -> list[list[float]]:
    """The values [paths, steps]: the area, a hundredth of the path, and its known values."""
    sets = given_sets(request, request.path_count)
    return [
        [
            areas(request)[row] + (request.first_path + path) / 100 + sum(sets[path])
            for row in others(request)
        ]
        for path in range(request.path_count)
    ]


def sampled(**more: Any) -> list[Any]:
    """The responses of Sample: a block for each step."""

    def messages(request: Any) -> pb.SampleResponse:
        values = np.array(drawn(request))
        steps = range(values.shape[1])
        parts: dict[int, dict[str, Any]] = {step: {} for step in steps}
        if request.include_log_densities:
            parts = {step: {"log_densities": -values[:, step]} for step in steps}
        first = request.first_path
        return in_precision(
            request,
            blocks(*(block(first, s, values[:, s : s + 1].tolist(), **parts[s]) for s in steps)),
        )

    def end(request: Any) -> pb.SampleResponse:
        return summary(known_log_densities=known_log_densities(request), **more)

    return [messages, end]


def weighed(request: Any) -> pb.LogDensityResponse:
    """Terms are the negative values, less the known values of the vector."""
    width = len(others(request))
    vectors = np.reshape(request.values, (-1, width))
    shifts = np.array([sum(known) for known in given_sets(request, len(vectors))])
    terms = -vectors - shifts[:, None]
    return pb.LogDensityResponse(
        log_densities=terms.sum(axis=1),
        terms=terms.ravel() if request.include_terms else [],
        source=SOURCE,
        known_log_densities=known_log_densities(request),
    )
