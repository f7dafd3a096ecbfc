"""Appends of rows to contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from chorale_client._calls import Call, Job
from chorale_client._data_warnings import DataWarning, read_warnings, tell
from chorale_client._encodable import check_encodable
from chorale_client._inputs import rows_to_append
from chorale_client._models_and_contexts import Description, Estimate
from chorale_client._requests import MissingTargets, check_size, encode_table, whole_number
from chorale_client._tables import Data
from chorale_client._v1 import chorale_pb2 as pb


@dataclass(frozen=True)
class Appended:
    """The result of `Context.append`.

    Attributes:
        row_count: The number of rows of the call, without dropped rows.
        already_appended: Whether the context already had these rows after its first `first_row`
            rows, because the call was repeated, by you or by a retry of the client.
        warnings: Warnings about the rows.
        estimate: The memory of the whole context and the time that encoding the rows takes; None
            unless the call only validated them.
    """

    row_count: int
    already_appended: bool
    warnings: tuple[DataWarning, ...]
    estimate: Estimate | None


class AppendOptions(NamedTuple):
    """The arguments of `append` other than the rows, in their order."""

    first_row: int | None
    etag: str | None
    missing_targets: MissingTargets
    validate_only: bool


def append(
    context: Description[Any], rows: Data, target: Any, options: AppendOptions
) -> Job[tuple[Appended, pb.Context]]:
    """Appends rows, and issues the warnings about them.

    The number of rows is always sent, so the call may be retried. So is the digest, so that the
    rows never go to another table.
    """
    first_row, etag, missing_targets, validate_only = options
    table = rows_to_append(context, rows, target, missing_targets)
    if first_row is None:
        first_row = context.row_count
    check_encodable([etag or ""], "etag:", "etag")
    drops = missing_targets == "drop"
    request = pb.AppendRowsRequest(
        name=f"contexts/{context.name}",
        rows=encode_table(table),
        first_row=whole_number("first_row", first_row, 0),
        etag=etag or "",
        missing_targets=pb.ContextSpec.MISSING_TARGETS_DROP if drops else None,
        validate_only=validate_only,
        expected_source=context.source.message(),
    )
    check_size(request.ByteSize())
    answer: pb.AppendRowsResponse = yield Call("AppendRows", context.name, request)
    appended = Appended(
        row_count=answer.appended_row_count,
        already_appended=answer.already_appended,
        warnings=(*table.warnings, *read_warnings(answer.warnings)),
        estimate=Estimate.of(answer.estimate) if validate_only else None,
    )
    tell(appended.warnings)
    return appended, answer.context
