"""Known values of query rows: the forms that users pass, and those that are invalid."""

from __future__ import annotations

import datetime
import re
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale
from fake_known_values import (
    KNOWN,
    NAN,
    PRICED,
    ROWS,
    Invalid,
    areas,
    predicted,
    sampled,
)


@pytest.mark.parametrize(
    "given",
    [
        True,
        np.True_,
        PRICED[["price"]],
        pl.from_pandas(PRICED[["price"]]),
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
        [frame.iloc[0][["d", "b"]], frame.iloc[1][["b", "d"]]],
        np.ma.MaskedArray(frame.fillna(9.0).to_numpy(), mask=frame.isna().to_numpy()),
    ]


@pytest.mark.parametrize("form", range(10))
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
    some = [pd.Series([600.0], index=[1]), pl.DataFrame({"1": [600.0]})]
    for given in (*some, some[:1]):
        message = "given: 1 values for 4 rows, which have no labels: pass a value or NaN for each"
        with pytest.raises(Invalid, match=message):
            context.sample(rows, paths=1, given=given)


def test_columns_of_dates_find_their_rows(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    days = ROWS.set_index(pd.date_range("2026-03-01", periods=4))
    first = pd.DataFrame([[1.0, 2.0]], columns=days.index[:2])
    for given in (first, first.rename(columns=lambda day: str(day)[:10])):  # as by to_frame()
        fake.answers["Sample"].append(sampled())
        samples = context.sample(days, paths=1, given=given)
        assert samples.values.tolist() == [[1, 2, 73, 83]]


@pytest.mark.parametrize("given", [None, False, np.False_], ids=str)
def test_no_known_values(fake: FakeChorale, context: chorale_client.Context, given: Any) -> None:
    fake.answers["Predict"].append(predicted)
    result = context.predict(ROWS, given=given)
    assert not fake.requests("Predict")[0].HasField("known")
    assert result.means.tolist() == [50, 60, 70, 80]
    assert result.known_log_density is None
    assert not result.warnings


@pytest.mark.parametrize(
    "given",
    [[NAN] * 4, pd.Series([NAN], index=["c"]), pd.Series(dtype=float), np.full((9, 4), NAN), True],
    ids=str,
)
def test_a_warning_tells_that_no_values_are_known(
    fake: FakeChorale, context: chorale_client.Context, given: Any
) -> None:
    rows = ROWS.assign(price=NAN)
    fake.answers["Predict"].append(predicted)
    fake.answers["Sample"].append(sampled())
    with pytest.warns(chorale_client.DataWarning, match="given: no values are known; the results"):
        result = context.predict(rows, given=given)
    assert not fake.requests("Predict")[0].HasField("known")
    assert [warning.reason for warning in result.warnings] == ["NO_KNOWN_VALUES"]
    with pytest.warns(chorale_client.DataWarning, match=r"\[NO_KNOWN_VALUES\]"):
        list(context.stream(rows, paths=1, given=given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1.0, NAN], "given: the shape is (2,), must be (4,), or (n, 4) for n"),
        ([], "given: the shape is (0,)"),
        (5.0, "given: the shape is ()"),
        (1, "given: the shape is ()"),
        (
            {"b": 600.0},
            "given: the type is dict, must be a Series, an array or True: pass a Series",
        ),
        ("price", "given: 'price' is a string: pass given=True to use the target column"),
        ([[1.0, 2.0], [3.0]], "given: "),
        (["x", None, None, None], "column 'given' is numeric, but its row 0 is 'x'"),
        ([[NAN, "x", 1.0, 2.0]], "given: could not convert"),
        ([1.0, float("inf"), NAN, NAN], "column 'given' is infinite in row 1"),
        ([[1.0, float("inf"), NAN, NAN]], "given: infinite in row 1"),
        ([1.0, 2.0, 3.0, 4.0], "given: the values of all 4 rows are known"),
        (pd.Series([1.0], index=["z"]), "given: 'z' is not among the labels of the rows"),
        (pd.Series([1.0, 2.0], index=["a", "a"]), "given: labels repeat, such as 'a'"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "z"]), "given: 'z' is not among the labels of"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "given: labels repeat, such as 'a': pass"),
        (pd.DataFrame([[1.0, 2.0]]), "given: the shape is (1, 2), must be (4,)"),
        ([pd.Series([1.0], index=["z"]), KNOWN], "given: 'z' is not among the labels of the rows"),
        ([pd.Series({"a": 1.0}), [1.0, NAN]], "given: "),
        # A mask, and dates
        ([True, None, False, False], "given: the values are booleans, must be numbers in the"),
        (pd.Series([True], index=["c"]), "given: the values are booleans, must be numbers"),
        (np.array([[True] * 4]), "given: the values are booleans, must be numbers"),
        (pd.DataFrame({"a": [True]}), "given: the values are booleans, must be numbers"),
        (pd.DataFrame({"a": pd.array([True])}), "given: the values are booleans, must be numbers"),
        ([datetime.date(2026, 1, 1), None, None, None], "given: the values are dates, must be"),
        (pd.Series(pd.to_timedelta(["1D"]), index=["c"]), "given: the values are durations, must"),
        (
            pd.DataFrame({"a": pd.to_datetime(["2026-01-01"])}),
            "given: the values are dates, must be",
        ),
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
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    rows = ROWS.set_index(pd.Index(list("aabc")))
    for given in (pd.Series({"a": 1.0, "b": 2.0}), pd.DataFrame({"a": [1.0], "b": [2.0]})):
        with pytest.raises(Invalid, match="given: the labels of the rows repeat, such as 'a'"):
            context.sample(rows, paths=1, given=given)
    for given in (pd.Series({"b": 1.0}), pd.DataFrame({"b": [1.0]})):
        fake.answers["Sample"].append(sampled())
        context.sample(rows, paths=1, given=given)
    assert [list(request.known.rows) for request in fake.requests("Sample")] == [[2], [2]]


def test_columns_that_have_the_same_label_as_a_string(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    given = pd.DataFrame([[1.0, 2.0]], columns=[3, "3"])
    with pytest.raises(Invalid, match="given: labels repeat, such as '3'"):
        context.sample(ROWS.set_index(pd.Index([1, 2, 3, 4])), paths=1, given=given)
    fake.answers["Sample"].append(sampled())
    context.sample(ROWS.set_index(pd.Index([1, "3", 3, 4])), paths=1, given=given)
    assert list(fake.requests("Sample")[0].known.rows) == [1, 2]
    assert list(fake.requests("Sample")[0].known.values) == [2, 1]


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
    infinite = ROWS.assign(price=[float("inf"), 1.0, NAN, NAN])
    with pytest.raises(Invalid, match=message):
        context.predict(infinite)
    with pytest.raises(Invalid, match="'price' is infinite in row 0"):
        context.predict(infinite, given=True)
    # Columns without missing cells or without numbers, and features in their order.
    ignored = [
        ROWS.assign(price=1.0),
        ROWS.assign(price=float("inf")),
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
