"""Appends of rows to contexts, by a fake server."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import chorale_client
import grpc
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale

ROWS = {"town": ["Rome", "Oslo"], "price": [5.0, 6.0], "area": [1, 2], "note": ["a", "b"]}


def context_message(**fields: Any) -> pb.Context:
    return pb.Context(name="contexts/houses", digest="d2", target_column="price", **fields)


def answer(fake: FakeChorale, **fields: Any) -> None:
    message = context_message(row_count=5, appended_row_count=2)
    fake.answers["AppendRows"].append(
        pb.AppendRowsResponse(context=message, **{"appended_row_count": 2, **fields})
    )


def sent(fake: FakeChorale) -> pb.AppendRowsRequest:
    request: pb.AppendRowsRequest = fake.requests("AppendRows")[-1]
    return request


def columns(request: pb.AppendRowsRequest) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for column in request.rows.columns:
        if column.WhichOneof("values") == "numeric":
            values[column.name] = list(column.numeric.values)
        else:
            texts = [*column.categorical.categories, None]
            values[column.name] = [texts[code] for code in column.categorical.codes]
    return values


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_rows_are_read_like_query_rows(
    fake: FakeChorale, client: chorale_client.Client, kind: Any
) -> None:
    fake.context()
    answer(fake)
    context = client.context("houses")
    appended = context.append(kind(ROWS))
    assert appended == chorale_client.Appended(2, False, (), None)
    request = sent(fake)
    assert (request.name, request.first_row, request.etag) == ("contexts/houses", 3, "")
    assert request.expected_source == pb.Source(context_digest="d1")
    assert request.missing_targets == pb.ContextSpec.MISSING_TARGETS_UNSPECIFIED
    assert columns(request) == {
        "area": [1.0, 2.0],
        "town": ["Rome", "Oslo"],
        "price": [5.0, 6.0],
    }
    # The object has the new content.
    assert (context.row_count, context.appended_rows, context.digest) == (5, 2, "d2")


def test_the_target_may_be_an_array_or_a_series(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    rows = pd.DataFrame({"area": [1, 2], "town": ["Rome", "Oslo"]}, index=["a", "b"])
    for target in (np.array([5.0, 6.0]), pd.Series([6.0, 5.0], index=["b", "a"])):
        fake.context()
        answer(fake)
        client.context("houses").append(rows, target=target)
        assert columns(sent(fake))["price"] == [5.0, 6.0]
    fake.context()
    with pytest.raises(chorale_client.InvalidArgumentError, match="3 values for 2 rows"):
        client.context("houses").append(rows, target=[1.0, 2.0, 3.0])


def test_options_are_sent(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.context()
    answer(fake, estimate=pb.Estimate(device_bytes=7))
    context = client.context("houses")
    rows = {**ROWS, "price": [5.0, None]}
    appended = context.append(
        rows, first_row=0, etag="e1", missing_targets="drop", validate_only=True
    )
    assert appended.estimate == chorale_client.Estimate(7, None)
    request = sent(fake)
    assert request.HasField("first_row")
    assert (request.first_row, request.etag, request.validate_only) == (0, "e1", True)
    assert request.missing_targets == pb.ContextSpec.MISSING_TARGETS_DROP
    assert math.isnan(columns(request)["price"][1])
    assert (context.row_count, context.digest) == (3, "d1")  # nothing was appended


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ({"town": ["Rome"], "price": [1.0]}, {}, "the context's column 'area' is missing"),
        ({"town": ["Rome"], "area": [1]}, {}, "target: the table has no column 'price'"),
        ({**ROWS, "price": [1.0, None]}, {}, "has 1 missing cells"),
        ({**ROWS, "price": ["many", "few"]}, {}, "price"),
        ({"town": [], "area": [], "price": []}, {}, "the table has no rows"),
        (ROWS, {"first_row": -1}, "first_row: -1, must be an integer of at least 0"),
        (ROWS, {"missing_targets": "keep"}, "must be 'reject' or 'drop'"),
        (ROWS, {"etag": "\ud800"}, "not valid Unicode"),
    ],
)
def test_invalid_rows_are_not_sent(
    fake: FakeChorale,
    client: chorale_client.Client,
    rows: Any,
    options: dict[str, Any],
    message: str,
) -> None:
    fake.context()
    context = client.context("houses")
    with pytest.raises(chorale_client.InvalidArgumentError, match=message):
        context.append(rows, **options)
    assert not fake.requests("AppendRows")


def test_appends_are_retried_because_their_first_row_is_known(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    fake.context()
    fake.answers["AppendRows"].append(Failure(grpc.StatusCode.UNAVAILABLE, retry_delay=0.001))
    answer(fake, already_appended=True)
    appended = client.context("houses").append(ROWS)
    assert (appended.row_count, appended.already_appended) == (2, True)
    assert [request.first_row for request in fake.requests("AppendRows")] == [3, 3]


def test_another_row_count_is_an_error(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.context()
    fake.answers["AppendRows"].append(
        Failure(grpc.StatusCode.ABORTED, "has 7 rows, not 3", reason="ROW_COUNT_MISMATCH")
    )
    context = client.context("houses")
    with pytest.raises(chorale_client.RowCountMismatchError, match=r"refresh\(\)") as caught:
        context.append(ROWS)
    assert caught.value.code == "ABORTED"
    assert context.row_count == 3


def test_rows_do_not_go_to_another_table(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.context()
    fake.answers["AppendRows"].append(
        Failure(grpc.StatusCode.FAILED_PRECONDITION, "has another digest", reason="SOURCE_CHANGED")
    )
    context = client.context("houses")
    with pytest.raises(chorale_client.SourceChangedError, match=r"refresh\(\)"):
        context.append(ROWS)
    assert (context.row_count, context.digest) == (3, "d1")
    fake.context().digest = "d2"
    context.refresh()
    answer(fake)
    context.append(ROWS)
    assert sent(fake).expected_source.context_digest == "d2"


def test_warnings_are_issued(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.context()
    warning = pb.Warning(
        reason=pb.Warning.REASON_OUTLIERS,
        severity=pb.Warning.SEVERITY_WARNING,
        column="area",
        cell_count=1,
        message="column 'area': far",
    )
    answer(fake, warnings=[warning])
    context = client.context("houses")
    with pytest.warns(UserWarning, match="far"):
        appended = context.append(ROWS)
    assert [warning.reason for warning in appended.warnings] == ["OUTLIERS"]


def test_contexts_are_encoded_anew(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.context(appended_row_count=2)
    fake.answers["WarmContext"].extend([context_message(appended_row_count=2), context_message()])
    context = client.context("houses")
    context.warm()
    assert context.appended_rows == 2
    context.warm(encode_anew=True)
    assert context.appended_rows == 0
    assert [request.encode_anew for request in fake.requests("WarmContext")] == [False, True]


def test_asyncio(fake: FakeChorale) -> None:
    async def run() -> None:
        async with chorale_client.aio.connect(fake.address) as client:
            context = await client.context("houses")
            appended = await context.append(ROWS, etag="e1")
            assert appended.row_count == 2
            assert context.row_count == 5
            await context.warm(encode_anew=True)

    fake.context()
    answer(fake)
    fake.answers["WarmContext"].append(context_message())
    asyncio.run(run())
    assert (sent(fake).first_row, sent(fake).etag) == (3, "e1")
    assert [request.encode_anew for request in fake.requests("WarmContext")] == [True]
