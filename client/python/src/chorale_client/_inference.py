"""Calls of LogDensity, in requests of limited size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chorale_client._calls import Call, Job
from chorale_client._columns import Floats
from chorale_client._data_warnings import read_warnings, tell
from chorale_client._errors import InvalidArgumentError
from chorale_client._groups import ignored
from chorale_client._inputs import known_values, query_groups, query_rows, query_values
from chorale_client._known_values import KnownValues
from chorale_client._log_densities import LogDensities
from chorale_client._models_and_contexts import Description, Source
from chorale_client._options import LogDensityOptions
from chorale_client._requests import (
    beyond_buffer,
    check_rows,
    check_size,
    cut_texts,
    encode_table,
    local_row_count,
    seed_number,
    whole_number,
)
from chorale_client._response_values import check_count, joined
from chorale_client._tables import Data
from chorale_client._v1 import chorale_pb2 as pb

_MAX_DENSITY_BYTES = 2 << 20  # the values of a call, and its terms and cdfs


def log_density(
    context: Description[Any],
    rows: Data,
    values: npt.ArrayLike | None,
    given: Any,
    groupby: Any,
    options: LogDensityOptions,
) -> Job[LogDensities]:
    """Returns log-densities of vectors of values, in calls of limited size."""
    orders, seed, terms, cdfs, wrap, local_rows = options
    table = query_rows(context, rows)
    if values is None and given is None:  # the target column has the values of all rows
        given_values = KnownValues.none(table.row_count)
    else:
        given_values = known_values(context, rows, table, given)
    read = query_values(context, rows, table, values, given_values)
    vectors = _vectors(read, given_values)
    given_values.check_count("vectors", len(vectors))
    check_rows(table)
    groups = query_groups(context, rows, table, groupby)
    known = given_values.grouped(groups)
    at = np.argsort(groups.places[given_values.others])
    vectors = vectors[:, at]
    in_table = np.argsort(at)  # the positions in the vectors of the rows that are not known
    source, target = context.source, context.target
    orders = whole_number("orders", orders, 0)
    for name, wanted in (("terms", terms), ("cdfs", cdfs)):
        if wanted and orders:
            raise InvalidArgumentError(
                f"{name}: not available with random orders: omit {name} or orders", fields=[name]
            )
    encoded = encode_table(groups.arranged(cut_texts(table)))
    numbers_per_value = max(1, terms + cdfs)
    at_once = max(1, _MAX_DENSITY_BYTES // (8 * table.row_count * numbers_per_value))
    number = seed_number(seed)
    answers: list[pb.LogDensityResponse] = []
    for start in range(0, len(vectors), at_once):
        piece = slice(start, start + at_once)
        sent = vectors[piece]
        request = pb.LogDensityRequest(
            context=f"contexts/{context.name}",
            rows=encoded,
            values=sent.ravel(),
            random_order_count=orders,
            seed=number,
            include_terms=terms,
            include_cdfs=cdfs,
            beyond_buffer=beyond_buffer(wrap),
            local_row_count=local_row_count(local_rows, groups),
            expected_source=source.message(),
            known=known.message(vectors=piece),
            group_sizes=groups.message(),
        )
        check_size(request.ByteSize())
        answer: pb.LogDensityResponse = yield Call(
            "LogDensity",
            context.name,
            request,
            rows=groups.order.tolist(),
            known=known.renumbered(groups.order),
        )
        known.check_response(answer.known_log_densities, len(sent), len(groups))
        source = Source.of(answer.source)
        number = answer.seed
        count = len(sent) * len(groups)
        if len(answer.log_densities) == len(sent) < count:
            raise ignored()
        check_count("log-densities", answer.log_densities, count)
        errors = count if orders >= 4 else 0  # two pairs
        check_count("standard errors", answer.standard_errors, errors)
        check_count("terms", answer.terms, sent.size if terms else 0)
        check_count("cumulative probabilities", answer.cdfs, sent.size if cdfs else 0)
        answers.append(answer)
    shape = vectors.shape
    joint_shape: tuple[int, ...] = (len(vectors),)
    if groups.labels is not None:
        joint_shape = (len(groups),) if np.ndim(read) == 1 else (len(vectors), len(groups))
    densities = LogDensities(
        joint=joined(answer.log_densities for answer in answers).reshape(joint_shape),
        standard_errors=(
            joined(answer.standard_errors for answer in answers).reshape(joint_shape)
            if orders >= 4
            else None
        ),
        terms=joined(a.terms for a in answers).reshape(shape)[:, in_table] if terms else None,
        cdfs=joined(a.cdfs for a in answers).reshape(shape)[:, in_table] if cdfs else None,
        seed=number if orders else None,
        labels=table.labels.take(given_values.others) if len(known) else table.labels,
        target=target,
        source=source,
        warnings=(*table.warnings, *read_warnings(answers[0].warnings)),
        known_log_density=known.log_density(
            (answer.known_log_densities for answer in answers), groups
        ),
        groups=groups.labels,
    )
    tell(densities.warnings)
    return densities


def _vectors(values: npt.ArrayLike, known: KnownValues) -> Floats:
    """Returns the values of the rows that are not known, as [vectors, rows].

    Args:
        values: [rows] or [vectors, rows]: of these rows, or of all rows.
        known: The known values.
    """
    try:
        vectors = np.atleast_2d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"values: {error}", fields=["values"]) from None
    count = len(known.others)
    if len(known) and vectors.ndim == 2 and vectors.shape[1] == len(known) + count:
        vectors = vectors[:, known.others]
    if vectors.ndim != 2 or vectors.shape[1] != count or not len(vectors):
        raise InvalidArgumentError(
            f"values: the shape is {np.shape(values)}, must be ({count},) or (vectors, {count}): a "
            f"value for each row{' that is not known' if len(known) else ''}",
            fields=["values"],
        )
    bad = ~np.isfinite(vectors)
    if bad.any():
        vector, column = np.argwhere(bad)[0].tolist()
        raise InvalidArgumentError(
            f"values: {vectors[vector, column]} in vector {vector} at row {known.others[column]}, "
            "all must be finite",
            fields=["values"],
        )
    return vectors
