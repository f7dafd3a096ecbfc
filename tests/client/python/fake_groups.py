"""Responses of a fake server to calls with groups: those of a call for each group, joined."""

from __future__ import annotations

from typing import Any

import numpy as np
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import block, blocks, summary
from fake_known_values import (
    areas,
    drawn,
    given_sets,
    known_log_densities,
    others,
    predicted,
    weighed,
)


def sizes(request: Any) -> list[int]:
    return list(request.group_sizes) or [len(areas(request))]


def separate(request: Any) -> list[Any]:
    """A request for each group, with its areas, known values and values."""
    assert sum(sizes(request)) == len(areas(request))
    parts = []
    first = 0
    for size in sizes(request):
        part = type(request)()
        part.CopyFrom(request)
        del part.group_sizes[:]
        part.ClearField("known")
        part.rows.columns[0].numeric.values[:] = areas(request)[first : first + size]
        own = [i for i, row in enumerate(request.known.rows) if first <= row < first + size]
        if own:
            part.known.rows[:] = [request.known.rows[i] - first for i in own]
            sets = given_sets(request, len(request.known.values) // len(request.known.rows))
            part.known.values[:] = [known[i] for known in sets for i in own]
        if isinstance(request, pb.LogDensityRequest):
            rows = np.array(others(request))
            values = np.reshape(request.values, (-1, len(rows)))
            of_group = (rows >= first) & (rows < first + size)
            part.values[:] = values[:, of_group].ravel()
        parts.append(part)
        first += size
    return parts


def joint_known(request: Any, parts: list[Any]) -> list[float]:
    """[sets, groups]: the log-densities of the known values; 0 for a group without."""
    if not request.known.rows:
        return []
    sets = len(request.known.values) // len(request.known.rows)
    columns = [known_log_densities(part) if part.known.rows else [0.0] * sets for part in parts]
    return [float(number) for number in np.array(columns).T.ravel()]


def predicted_groups(request: Any) -> pb.PredictResponse:
    parts = separate(request)
    joined = pb.PredictResponse()
    for part in parts:
        joined.MergeFrom(predicted(part))
    joined.known_log_densities[:] = joint_known(request, parts)
    return joined


def sampled_groups(**more: Any) -> list[Any]:
    """The responses of Sample: for each step, a block of the paths of all groups that have it."""

    def messages(request: Any) -> pb.SampleResponse:
        parts = separate(request)
        values = [np.array(drawn(part)) for part in parts]
        firsts = np.cumsum([0, *sizes(request)])
        rows = [np.array(others(part)) + first for part, first in zip(parts, firsts, strict=False)]
        first, paths = request.first_path, request.path_count
        made = []
        for step in range(max(map(len, rows))):
            some = [group for group in range(len(parts)) if step < len(rows[group])]
            column = np.concatenate([values[group][:, step] for group in some])
            extra: dict[str, Any] = {}
            if request.include_log_densities:
                extra["log_densities"] = -column
            made.append(
                block(
                    0,
                    step,
                    column[:, None].tolist(),
                    rows=[rows[group][step] for group in some for _ in range(paths)],
                    paths=list(range(first, first + paths)) * len(some),
                    **extra,
                )
            )
        return blocks(*made)

    def end(request: Any) -> pb.SampleResponse:
        return summary(known_log_densities=joint_known(request, separate(request)), **more)

    return [messages, end]


def weighed_groups(request: Any) -> pb.LogDensityResponse:
    """Standard errors are a tenth of the log-densities."""
    parts = separate(request)
    answers = [weighed(part) for part in parts]
    joint = np.array([answer.log_densities for answer in answers]).T
    vectors = len(joint)
    terms = np.hstack([np.reshape(answer.terms, (vectors, -1)) for answer in answers])
    return pb.LogDensityResponse(
        log_densities=joint.ravel(),
        standard_errors=joint.ravel() / 10 if request.random_order_count >= 4 else [],
        terms=terms.ravel(),
        source=answers[0].source,
        known_log_densities=joint_known(request, parts),
    )
