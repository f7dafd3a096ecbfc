"""Known values of query rows: the forms that users pass, and those that are invalid."""

from __future__ import annotations

import re
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale
from fake_known_values import areas, predicted, sampled

NAN = float("nan")
Invalid = chorale_client.InvalidArgumentError
# The prices of "b" and "d" are known.
ROWS = pd.DataFrame(
    {"area": [50.0, 60.0, 70.0, 80.0], "town": ["Kiel", "Bonn", "Kiel", "Ulm"]}, index=list("abcd")
)
PRICED = ROWS.assign(price=[NAN, 600.0, NAN, 800.0])
KNOWN = [NAN, 600.0, NAN, 800.0]


@pytest.fixture
def context(fake: FakeChorale, client: chorale_client.Client) -> chorale_client.Context:
    fake.context()
    return client.context("houses")


@pytest.mark.parametrize(
    "given",
    [
        True,
        KNOWN,
        np.array(KNOWN),
        pd.Series([800.0, NAN, 600.0, NAN], index=list("dabc")),
        pd.Series([800.0, 600.0], index=["d", "b"]),
        pd.Series([800, 600], index=["d", "b"], dtype="Int64"),
        pd.Series([600, None, 800], index=["b", "a", "d"], dtype="Int64"),
        pl.Series([None, 600, None, 800]),
        np.ma.MaskedArray([1.0, 600.0, 2.0, 800.0], mask=[True, False, True, False]),
    ],
    ids=str,
)
def test_forms_of_known_values(
    fake: FakeChorale, context: chorale_client.Context, given: Any
) -> None:
    fake.answers["Predict"].append(predicted)
    context.predict(PRICED, given=given)
    [request] = fake.requests("Predict")
    assert list(request.known.rows) == [1, 3]
    assert list(request.known.values) == [600, 800]
    assert [column.name for column in request.rows.columns] == ["area", "town"]
    assert areas(request) == [50, 60, 70, 80]


def paths_of(frame: pd.DataFrame) -> list[Any]:
    """Known values of two paths: all rows, some rows, names that are strings, and arrays."""
    return [
        frame,
        frame[list("dcba")],
        frame[["d", "b"]],
        pl.from_pandas(frame[["d", "b"]]),
        frame.convert_dtypes(),
        frame.to_numpy(),
        frame.to_numpy().tolist(),
        [frame.iloc[0][::-1], frame.iloc[1]],
        np.ma.MaskedArray(frame.fillna(9.0).to_numpy(), mask=frame.isna().to_numpy()),
    ]


@pytest.mark.parametrize("form", range(9))
def test_forms_of_known_values_of_each_path(
    fake: FakeChorale, context: chorale_client.Context, form: int
) -> None:
    frame = pd.DataFrame([KNOWN, [NAN, 1.0, NAN, 2.0]], columns=list("abcd"))
    fake.answers["Sample"].append(sampled())
    samples = context.sample(ROWS, paths=2, given=paths_of(frame)[form])
    [request] = fake.requests("Sample")
    assert list(request.known.rows) == [1, 3]
    assert list(request.known.values) == [600, 800, 1, 2]
    assert samples.values[:, [1, 3]].tolist() == [[600, 800], [1, 2]]


def test_rows_without_labels_have_known_values_by_position(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"].append(predicted)
    rows = pl.from_pandas(ROWS)
    result = context.predict(rows, given=pd.Series(KNOWN, index=[7, 8, 9, 10]))
    assert list(fake.requests("Predict")[0].known.rows) == [1, 3]
    assert list(result.index) == [0, 2]
    with pytest.raises(Invalid, match=r"given: the shape is \(1,\), must be \(4,\)"):
        context.predict(rows, given=pd.Series([600.0], index=[1]))


def test_columns_of_dates_find_their_rows(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    days = ROWS.set_index(pd.date_range("2026-03-01", periods=4))
    first = pd.DataFrame([[1.0, 2.0]], columns=days.index[:2])
    for given in (first, first.rename(columns=lambda day: str(day)[:10])):  # as by to_frame()
        fake.answers["Sample"].append(sampled())
        samples = context.sample(days, paths=1, given=given)
        assert samples.values.tolist() == [[1, 2, 73, 83]]


@pytest.mark.parametrize(
    "given", [None, [NAN] * 4, pd.Series([NAN], index=["c"]), np.full((9, 4), NAN)], ids=str
)
def test_no_known_values(fake: FakeChorale, context: chorale_client.Context, given: Any) -> None:
    fake.answers["Predict"].append(predicted)
    result = context.predict(ROWS, given=given)
    assert not fake.requests("Predict")[0].HasField("known")
    assert result.means.tolist() == [50, 60, 70, 80]
    assert result.known_log_density is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.0, NAN], "given: the shape is (2,), must be (4,), or (n, 4) for n"),
        ([], "given: the shape is (0,)"),
        (5.0, "given: the shape is ()"),
        (False, "given: the shape is ()"),
        ([[1.0, 2.0], [3.0]], "given: "),
        (["x", None, None, None], "column 'given' is numeric, but its row 0 is 'x'"),
        ([[NAN, "x", 1.0, 2.0]], "given: could not convert"),
        ([1.0, float("inf"), NAN, NAN], "column 'given' is infinite in row 1"),
        ([[1.0, float("inf"), NAN, NAN]], "given: infinite in row 1"),
        ([1.0, 2.0, 3.0, 4.0], "given: the values of all 4 rows are known"),
        (pd.Series([1.0], index=["z"]), "given: 'z' is not among the labels of the rows"),
        (pd.Series([1.0, 2.0], index=["a", "a"]), "given: labels repeat, such as 'a'"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "z"]), "given: its labels are not those of the"),
        (
            [KNOWN, [NAN, 1.0, NAN, NAN]],
            "given: the value of row 3 is known in vector 0, and NaN in vector 1",
        ),
        (
            [[NAN, 1.0, NAN, NAN], KNOWN],
            "given: the value of row 3 is known in vector 1, and NaN in vector 0",
        ),
        ([KNOWN] * 3, "given: known values for 3 paths, but there are 2"),
        (True, "given: the rows have no column 'price'"),
    ],
)
def test_known_values_that_are_invalid(
    context: chorale_client.Context, given: Any, message: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(message)) as caught:
        context.sample(ROWS, paths=2, given=given)
    assert caught.value.field == "given"


def test_labels_of_rows_that_repeat_do_not_find_known_values(
    context: chorale_client.Context,
) -> None:
    rows = ROWS.set_index(pd.Index(list("aabc")))
    with pytest.raises(Invalid, match="given: labels repeat, such as 'a'"):
        context.predict(rows, given=pd.Series([1.0], index=["b"]))


def test_a_table_with_some_values_must_say_what_they_are(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    message = re.escape(
        "rows: the target column 'price' has values in 2 of 4 rows: pass given=True"
    )
    calls: list[Any] = [
        context.predict,
        context.sample,
        context.stream,
        context.validate_sample,
        lambda rows: context.log_density(rows, [1.0, 2.0, 3.0, 4.0]),
    ]
    for call in calls:
        with pytest.raises(Invalid, match=message) as caught:
            call(PRICED)
        assert caught.value.field == "rows"
    # Columns without missing cells or without numbers, and features in their order.
    ignored = [
        ROWS.assign(price=1.0),
        ROWS.assign(price=NAN),
        ROWS.assign(price=["?", None, "?", "?"]),
        ROWS.to_numpy(dtype=object),
    ]
    fake.answers["Predict"].extend([predicted] * len(ignored))
    for rows in ignored:
        assert len(context.predict(rows)) == 4
    assert not any(request.HasField("known") for request in fake.requests("Predict"))


def test_an_array_of_features_has_no_target(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    """Although its second column could be called x1."""
    message = pb.Context(name="contexts/plain", target_column="x1")
    for name in ("x0", "x2"):
        message.features.add(name=name, type=pb.ColumnSummary.TYPE_NUMERIC)
    fake.answers["GetContext"].append(message)
    fake.answers["Predict"].append(predicted)
    plain = client.context("plain")
    assert plain.predict(np.array([[1.0, NAN], [2.0, 3.0]])).means.tolist() == [1, 2]
    with pytest.raises(Invalid, match="given: the rows have no column 'x1'"):
        plain.predict(np.array([[1.0, NAN], [2.0, 3.0]]), given=True)
