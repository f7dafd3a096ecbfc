"""Requests for joint paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from chorale_client._choices import check_choice
from chorale_client._errors import InvalidArgumentError
from chorale_client._groups import Groups
from chorale_client._known_totals import KnownTotals
from chorale_client._known_values import KnownValues
from chorale_client._models_and_contexts import Source
from chorale_client._options import SampleOptions
from chorale_client._requests import (
    beyond_buffer,
    check_rows,
    check_size,
    cut_texts,
    encode_table,
    local_row_count,
    random_seed,
    sample_dtype,
    seed_number,
    snapping,
    whole_number,
)
from chorale_client._tables import Table
from chorale_client._v1 import chorale_pb2 as pb


def path_fields(
    context: str,
    rows: Table,
    known: KnownValues,
    groups: Groups,
    options: SampleOptions,
    source: Source,
) -> dict[str, Any]:
    """Returns the fields that requests for joint paths over all rows of each group have."""
    check_rows(rows)
    check_choice("order", options.order, ("given", "random"))
    check_choice("sampling", options.sampling, ("independent", "sobol"))
    path_count = whole_number("paths", options.paths, 1)
    known.check_count("paths", path_count)
    return {
        "context": f"contexts/{context}",
        "rows": encode_table(groups.arranged(cut_texts(rows))),
        "path_count": path_count,
        "seed": seed_number(options.seed),
        "order": pb.SampleRequest.ORDER_GIVEN
        if options.order == "given"
        else pb.SampleRequest.ORDER_RANDOM_PER_PATH,
        "sampling": pb.SampleRequest.SAMPLING_SOBOL
        if options.sampling == "sobol"
        else pb.SampleRequest.SAMPLING_UNSPECIFIED,
        "beyond_buffer": beyond_buffer(options.wrap),
        "snapping": snapping(options.snap),
        "local_row_count": local_row_count(options.local_rows, groups),
        "expected_source": source.message(),
        "known": known.grouped(groups).message(),
        "group_sizes": groups.message(),
    }


def sample_request(
    context: str,
    rows: Table,
    known: KnownValues,
    groups: Groups,
    totals: KnownTotals | None,
    options: SampleOptions,
    source: Source,
) -> pb.SampleRequest:
    """Returns a request for joint paths over all rows of each group."""
    first_path = whole_number("first_path", options.first_path, 0)
    if first_path and options.seed is None:
        raise InvalidArgumentError(
            f"seed: is required, because first_path is {first_path}", fields=["seed"]
        )
    request = pb.SampleRequest(
        **path_fields(context, rows, known, groups, options, source),
        include_log_densities=options.log_densities,
        first_path=first_path,
        float32_values=sample_dtype(options.dtype) == np.float32,
        known_totals=None if totals is None else totals.message(),
    )
    if options.seed is None:  # chosen here, so that a call that ends early can be continued
        request.seed = random_seed()
    check_size(request.ByteSize())
    return request
