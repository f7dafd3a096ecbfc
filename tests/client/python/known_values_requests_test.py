"""The requests of calls with known values of query rows, and their errors, by a fake server."""

from __future__ import annotations

from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import pytest
from chorale_client._requests import max_predict_rows
from fake_chorale import Failure, FakeChorale
from fake_known_values import KNOWN, NAN, PRICED, Invalid, areas, predicted
from grpc import StatusCode


def test_each_request_has_all_known_values(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    frame = pd.DataFrame({"area": np.arange(2100.0), "town": "Kiel"})
    given = np.full(2100, NAN)
    given[[3, 1500, 2000]] = [1.0, 2.0, 3.0]
    fake.answers["Predict"].extend([predicted] * 3)
    result = context.predict(frame, given=given)
    requests = fake.requests("Predict")
    assert [len(areas(request)) for request in requests] == [1024, 1024, 2097 - 2 * 1021 + 3]
    for request in requests:
        rows = list(request.known.rows)
        assert [areas(request)[row] for row in rows] == [3, 1500, 2000]
        assert list(request.known.values) == [1, 2, 3]
    expected = np.delete(np.arange(2100.0), [3, 1500, 2000])
    assert np.array_equal(result.means, expected + 6)
    assert np.array_equal(result.index, expected)
    assert result.known_log_density == -6


def test_many_known_values_leave_room_for_rows_to_predict(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    frame = pd.DataFrame({"area": np.arange(1600.0), "town": "Kiel"})
    given = np.where(np.arange(1600) < 1000, 0.0, NAN)
    fake.answers["Predict"].extend([predicted] * 3)
    assert np.array_equal(context.predict(frame, given=given).means, np.arange(1000.0, 1600.0))
    sizes = [len(areas(request)) for request in fake.requests("Predict")]
    assert sizes == [1256, 1256, 1088]
    fake.answers["Predict"].extend([predicted] * 3)
    context.predict(frame[:4], given=[0.0, NAN, NAN, NAN], local_rows=64)
    assert [len(areas(request)) for request in fake.requests("Predict")[3:]] == [2, 2, 2]


def test_known_rows_are_local_rows(fake: FakeChorale, context: chorale_client.Context) -> None:
    frame = pd.DataFrame({"area": np.arange(660.0), "town": "Kiel"})
    given = np.where(np.arange(660) < 600, 0.0, NAN)
    for local_rows in (30, 600):
        message = f"local_rows: {local_rows}, must be more than the number of known values, 600"
        with pytest.raises(Invalid, match=message) as caught:
            context.predict(frame, given=given, local_rows=local_rows)
        assert caught.value.field == "local_rows"
    for local_rows, calls in ((601, 60), (603, 20), (610, 15)):
        sent = len(fake.requests("Predict"))
        fake.answers["Predict"].extend([predicted] * calls)
        result = context.predict(frame, given=given, local_rows=local_rows)
        assert np.array_equal(result.means, np.arange(600.0, 660.0))
        sizes = [len(areas(request)) for request in fake.requests("Predict")[sent:]]
        assert len(sizes) == calls
        assert max(sizes) <= local_rows


@pytest.mark.parametrize(
    ("known", "local_rows", "most"),
    [
        (0, 0, 1024),
        (0, 64, 2),
        (0, 1, 1),
        (1000, 0, 256),
        (4000, 0, 96),
        (5000, 0, 1),
        (600, 601, 1),
        (600, 100_000, 424),
        (4000, 100_000, 96),
    ],
)
def test_rows_of_a_call(known: int, local_rows: int, most: int) -> None:
    assert max_predict_rows(local_rows, known) == most


def test_errors_name_the_rows_of_the_table(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    field = 'rows.columns["town"].strings.values[1]'
    given = np.full(2000, NAN)
    given[0] = 1.0  # the second request has the rows 0, 1024, ...
    fake.answers["Predict"].extend(
        [predicted, Failure(StatusCode.INVALID_ARGUMENT, "no", fields=((field, "is bad"),))]
    )
    frame = pd.DataFrame({"area": np.arange(2000.0), "town": "Kiel"})
    with pytest.raises(Invalid, match=r"strings\.values\[1024\]: is bad"):
        context.predict(frame, given=given)


def test_errors_about_known_values_name_their_rows(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    def failure(field: str) -> Failure:
        return Failure(StatusCode.INVALID_ARGUMENT, f"{field}: is bad", fields=((field, "is bad"),))

    calls: list[Any] = [
        ("Predict", lambda: context.predict(PRICED, given=True)),
        ("Sample", lambda: context.sample(PRICED, paths=2, given=[KNOWN, KNOWN])),
        ("Sample", lambda: list(context.stream(PRICED, paths=2, given=True))),
        ("Sample", lambda: context.validate_sample(PRICED, given=True)),
        ("LogDensity", lambda: context.log_density(PRICED, [1.0, 2.0], given=True)),
    ]
    messages = {
        "known.values[1]": "given: row 3: is bad",
        "known.rows[0]": "given: row 1: is bad",
        "known.rows": "given: is bad",
        "known.values": "given: is bad",
        "values[1]": "values[1]: is bad",
    }
    for method, call in calls:
        for field, message in messages.items():
            fake.answers[method].append([failure(field)] if method == "Sample" else failure(field))
            with pytest.raises(Invalid) as caught:
                call()
            assert caught.value.message == message
            assert str(caught.value) == message
            assert caught.value.field == message.partition(":")[0]
    fake.answers["Sample"].append([failure("known.values[2]")])  # of the second path
    with pytest.raises(Invalid, match="given: row 1: is bad"):
        context.sample(PRICED, paths=2, given=[KNOWN, KNOWN])
