"""What numbers stand for goes to the server with a table, and rows are read by what comes back."""

from __future__ import annotations

import datetime
import re
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pytest
from chorale_client._meanings import Meaning
from chorale_client._tables import Table, read_rows
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale

Numeric = pb.NumericValues
FRAME = pd.DataFrame(
    {
        "size": [1.5, 2.0],
        "sold": [True, False],
        "day": pd.to_datetime(["2024-01-01", "2024-01-02"]),
        "month": ["2024-01", "2024-02"],
        "stay": pd.to_timedelta([1, 2], "D"),
        "town": ["Kiel", "Bonn"],
        "good": [True, True],
    },
    index=["r", "s"],
)
MEANINGS = {
    "sold": Numeric.MEANING_BOOLEAN,
    "day": Numeric.MEANING_DATE,
    "stay": Numeric.MEANING_DURATION,
}


def registered(fake: FakeChorale) -> None:
    """Lets the server answer to a table with what it was told."""

    def answer(messages: Any) -> pb.RegisterContextResponse:
        context = pb.Context(name="contexts/t", digest="d1", target_column="good")
        for column in messages[1].rows.columns:
            if column.name != "good":
                dates = column.strings.values[:1] == ["2024-01"]
                kind = "TYPE_NUMERIC" if column.HasField("numeric") or dates else "TYPE_CATEGORICAL"
                context.features.add(
                    name=column.name,
                    type=pb.ColumnSummary.Type.Value(kind),
                    meaning=Numeric.MEANING_DATE if dates else column.numeric.meaning,
                )
        response = pb.RegisterContextResponse(context=context)
        response.warnings.add(
            reason=pb.Warning.REASON_READ_AS_DATES,
            column="month",
            severity=pb.Warning.SEVERITY_INFO,
        )
        return response

    fake.answers["RegisterContext"].append(answer)
    fake.answers["Predict"].extend([pb.PredictResponse(means=[1, 2], stds=[1, 2])] * 4)


def test_they_are_sent_and_shown(fake: FakeChorale, client: chorale_client.Client) -> None:
    registered(fake)
    context = client.register(FRAME, target="good")  # information is no Python warning
    assert [warning.reason for warning in context.warnings] == ["READ_AS_DATES"]
    assert {feature.name: feature.meaning for feature in context.features} == {
        "size": "number",
        "sold": "boolean",
        "day": "date",
        "month": "date",
        "stay": "duration",
        "town": "category",
    }
    [(_, rows)] = fake.requests("RegisterContext")
    sent = {column.name: column.numeric.meaning for column in rows.rows.columns}
    assert sent == {**dict.fromkeys(FRAME.columns, 0), **MEANINGS}, "none of the target"
    strings = {c.name: list(c.strings.values) for c in rows.rows.columns if c.HasField("strings")}
    assert strings == {"month": ["2024-01", "2024-02"], "town": ["Kiel", "Bonn"]}


def test_rows_are_sent_by_their_types(fake: FakeChorale, client: chorale_client.Client) -> None:
    registered(fake)
    context = client.register(FRAME, target="good")
    texts = {
        "size": ["1.5", "2"],
        "sold": ["TRUE", "no"],
        "day": ["2024-01-01", "2024-01-02"],
        "month": ["2024-01", "2024-02-01"],
        "stay": ["1", "2"],
        "town": ["Kiel", "Bonn"],
    }
    context.predict(FRAME)
    context.predict(texts)
    own, read = ({c.name: c for c in r.rows.columns} for r in fake.requests("Predict"))
    assert list(own["day"].numeric.values) == [19723, 19724]
    assert all(column.numeric.meaning == 0 for column in own.values()), "any number may be asked"
    for name in ("size", "sold", "day", "month", "stay"):
        assert list(read[name].strings.values) == texts[name]
    assert list(read["town"].categorical.categories) == ["Kiel", "Bonn"]
    with pytest.warns(chorale_client.DataWarning, match="'day' holds dates.*OTHER_MEANING") as told:
        answer = context.predict({**texts, "sold": [0.0, 1], "day": [19723, 19724.5]})
    assert len(told) == 1
    assert [warning.reason for warning in answer.warnings] == ["OTHER_MEANING"]
    sent = fake.requests("Predict")[-1].rows.columns
    assert list(sent[2].numeric.values) == [19723, 19724.5], "as they were given"
    with pytest.raises(chorale_client.InvalidArgumentError, match="'day' holds dates") as caught:
        context.predict({**texts, "day": [20210610, 20210611]})
    assert caught.value.field == "day"


def test_who_registers_a_table_knows_it_although_an_older_server_does_not(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    old = pb.Context(name="contexts/t", digest="d1", target_column="good")
    for name in ("day", "size"):
        old.features.add(name=name, type=pb.ColumnSummary.TYPE_NUMERIC)
    fake.answers["RegisterContext"].append(pb.RegisterContextResponse(context=old))
    fake.answers["Predict"].append(pb.PredictResponse(means=[1], stds=[1]))
    context = client.register(FRAME[["size", "day", "good"]], target="good")
    assert [feature.meaning for feature in context.features] == ["date", "number"]
    context.predict({"size": [1.0], "day": [datetime.date(2024, 1, 1)]})
    [request] = fake.requests("Predict")
    assert list(request.rows.columns[0].numeric.values) == [19723]


def test_a_name_follows_from_what_numbers_stand_for(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    fake.answers["RegisterContext"].extend([pb.RegisterContextResponse()] * 5)
    for flags, target in (
        ([True, False], [1, 0]),
        ([1, 0], [1, 0]),
        (["True", "false"], [1, 0]),
        ([True, False], [True, False]),
        (pd.Categorical([True, False]), [1, 0]),
    ):
        client.register({"flag": flags, "y": target}, target="y")
    boolean, number, texts, target, category = (
        request[0].spec.context_id for request in fake.requests("RegisterContext")
    )
    assert boolean == target, "of a target it does not matter"
    assert len({boolean, number, texts, category}) == 4


def test_a_meaning_of_a_newer_server_is_number() -> None:
    summary = pb.ColumnSummary(name="x", type=pb.ColumnSummary.TYPE_NUMERIC)
    summary.MergeFromString(b"\x40\x09")  # the field 8, with the value 9
    assert chorale_client.Feature.of(summary).meaning == "number"


def test_calendar_features_have_names() -> None:
    summary = pb.ColumnSummary(name="x", type=pb.ColumnSummary.TYPE_NUMERIC)
    assert chorale_client.Feature.of(summary).calendar == ()
    summary.calendar_features.extend(
        [
            pb.ColumnSummary.CALENDAR_FEATURE_UNSPECIFIED,
            pb.ColumnSummary.CALENDAR_FEATURE_WEEKDAY,
            pb.ColumnSummary.CALENDAR_FEATURE_HOUR,
            pb.ColumnSummary.CALENDAR_FEATURE_DAY_OF_MONTH,
            pb.ColumnSummary.CALENDAR_FEATURE_MONTH,
        ]
    )
    summary.MergeFromString(b"\x48\x63")  # the field 9, with a value of a newer server
    names = ("weekday", "hour", "day_of_month", "month")
    assert chorale_client.Feature.of(summary).calendar == names


def test_values_and_targets_of_calls_go_by_label(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    registered(fake)
    table = FRAME[["size", "good"]]
    target = pd.Series([20.0, 10.0], index=["s", "r"], name="price")
    client.register(table[["size"]], target=target)
    [(_, rows)] = fake.requests("RegisterContext")
    assert list(rows.rows.columns[1].numeric.values) == [10, 20]
    registered(fake)
    context = client.register(table, target="good")
    fake.answers["LogDensity"].extend([pb.LogDensityResponse(log_densities=[-3])] * 3)
    context.log_density(table, target)
    context.log_density(table, pd.DataFrame({"s": [20.0], "r": [10.0]}))
    context.log_density(table, np.array([10.0, 20.0]))
    assert [list(request.values) for request in fake.requests("LogDensity")] == [[10, 20]] * 3
    with pytest.raises(chorale_client.InvalidArgumentError, match="values: its labels"):
        context.log_density(table, target.reset_index(drop=True))


def test_dates_of_datetime_and_of_pandas_are_one_day() -> None:
    days = [datetime.date(2024, 1, 1), pd.Timestamp("2024-01-01"), np.datetime64("2024-01-01")]
    table = chorale_client._tables.read_rows({"x": days}, {"x": "numeric"}, {"x": "date"})
    assert set(table.columns["x"].values.tolist()) == {19723.0}  # type: ignore[union-attr]


def ask(values: Any, held: Meaning) -> Table:
    return read_rows({"x": values}, {"x": "numeric"}, {"x": held})


NAN = float("nan")
NEW_YEAR = datetime.date(2024, 1, 1)
TIMES = pd.to_datetime(["2024-01-01", "2024-01-02"])
SPANS = pd.to_timedelta([1, 2], "D")


@pytest.mark.parametrize(
    ("values", "shown", "how"),
    [
        ([20210610, 20210611], "row 0 is 20210610,", "format='%Y%m%d'"),
        (pd.Series([None, 20210610]), "row 1 is 20210610,", "format='%Y%m%d'"),
        (np.array([1623283200]), "row 0 is 1623283200,", "unit='s'"),
        ([1623283200.5], "row 0 is 1623283200.5,", "unit='s'"),
        (pl.Series([1623283200000]), "row 0 is 1623283200000,", "unit='ms'"),
        ([1623283200000000], "row 0 is 1623283200000000,", "unit='us'"),
        (TIMES.astype("M8[ns]").astype("int64"), r"row 0 is 1.7040672e\+18,", "unit='ns'"),
        ([9_999_999], "row 0 is 9999999,", r"\(...\)"),
        ([-800_000], "row 0 is -800000,", r"\(...\)"),
    ],
)
def test_numbers_that_are_no_days_are_refused_among_dates(
    values: Any, shown: str, how: str
) -> None:
    message = f"'x' holds dates in the context, but its {shown} .* use dates, .*{how}"
    with pytest.raises(chorale_client.InvalidArgumentError, match=message) as caught:
        ask(values, "date")
    assert caught.value.field == "x"


@pytest.mark.parametrize(
    ("values", "held", "count", "message"),
    [
        (
            [19723, None],
            "date",
            1,
            r"'x' holds dates .*row 0 is 19723, which is 2024-01-01\): read",
        ),
        (np.array([-719162, 2932896.5]), "date", 2, "which is 0001-01-01"),
        (
            [None, 2021],
            "date",
            1,
            r"1 of 2 cells are numbers \(row 1 is 2021, which is 1975-07-15",
        ),
        (TIMES, "number", 2, "'x' holds numbers .* dates .*: read as days since 1970-01-01"),
        ([None, NEW_YEAR], "number", 1, r"the first in row 1\): read as days since"),
        (SPANS, "number", 2, "cells are durations .* read as numbers of days"),
        (
            [3600.0, 60],
            "duration",
            2,
            r"row 0 is 3600\): read as numbers of days; .* use durations",
        ),
    ],
)
def test_cells_of_another_meaning_are_told(
    values: Any, held: Meaning, count: int, message: str
) -> None:
    (warning,) = ask(values, held).warnings
    assert (warning.reason, warning.column, warning.cell_count) == ("OTHER_MEANING", "x", count)
    assert re.search(message, warning.message), warning.message


@pytest.mark.parametrize(
    ("values", "held", "message"),
    [
        ([True, None], "date", "'x' holds dates .* row 0 is a boolean: use dates"),
        (SPANS, "date", "'x' holds dates .* row 0 is a duration"),
        ([None, NEW_YEAR], "duration", "'x' holds durations .* row 1 is a date: use durations"),
        (TIMES, "boolean", "'x' holds booleans .* row 0 is a date"),
        (np.array([1, 2]), "boolean", "'x' holds booleans .* row 1 is 2: use true and false, or 1"),
        ([True, 0.5], "boolean", "row 1 is 0.5: use true and false"),
        (pl.Series([None, -1]), "boolean", "row 1 is -1: use true and false"),
    ],
)
def test_cells_that_cannot_be_meant_are_refused(values: Any, held: Meaning, message: str) -> None:
    with pytest.raises(chorale_client.InvalidArgumentError, match=message) as caught:
        ask(values, held)
    assert caught.value.field == "x"


@pytest.mark.parametrize(
    ("values", "held"),
    [
        (TIMES, "date"),
        ([NEW_YEAR, np.datetime64("2024-01-01"), None], "date"),
        ([None, NAN, pd.NaT], "date"),
        (np.array([NAN, NAN]), "duration"),
        (SPANS, "duration"),
        ([20210610, 1623283200], "number"),
        ([1.5, True], "number"),
        ([True, 1, 0.0, None], "boolean"),
        (np.array([True, False]), "number"),
        (pd.array([True, None], "boolean"), "number"),
        (np.array([0, 1]), "boolean"),
        (np.array([1.0, NAN]), "boolean"),
        (pl.Series([1, None]), "boolean"),
    ],
)
def test_cells_that_meet_the_column_are_not_told(values: Any, held: Meaning) -> None:
    assert ask(values, held).warnings == []


def test_what_a_column_that_says_nothing_holds_does_not_matter(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    empty = pb.Context(name="contexts/t", digest="d1", target_column="y")
    for name, left_out in (("empty", True), ("full", False)):
        empty.features.add(name=name, type=pb.ColumnSummary.TYPE_NUMERIC, dropped=left_out)
    fake.answers["GetContext"].append(empty)
    fake.answers["Predict"].append(pb.PredictResponse(means=[1, 2], stds=[1, 2]))
    context = client.context("t")
    with pytest.warns(chorale_client.DataWarning, match="OTHER_MEANING") as told:
        context.predict({"empty": TIMES, "full": TIMES})
    (warning,) = told
    assert isinstance(warning.message, chorale_client.DataWarning)
    assert warning.message.columns == ("full",)


def test_names_that_have_no_utf_8_are_refused_by_their_argument(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    table, half = {"a": [1], "y": [2]}, "t\ud83d"
    target = pd.Series([1.0], name=half)
    for field, call in (
        ("name", lambda: client.context(half)),
        ("name", lambda: client.delete(half)),
        ("name", lambda: client.register(table, target="y", name=half)),
        ("model", lambda: client.register(table, target="y", model=half)),
        ("target", lambda: client.register(table, target=target)),
        ("target", lambda: client.register(table, target=half)),
    ):
        with pytest.raises(chorale_client.InvalidArgumentError, match=r"t\\ud83d") as caught:
            call()
        assert caught.value.field == field


def test_a_target_whose_name_is_missing_is_called_target(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    for name in (None, NAN, ""):
        registered(fake)
        client.register({"a": [1]}, target=pd.Series([2.0], name=name))
    sent = [request[0].spec.target_column for request in fake.requests("RegisterContext")]
    assert sent == ["target"] * 3
