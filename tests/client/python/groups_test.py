"""Groups of query rows: the forms that users pass, and those that are invalid."""

from __future__ import annotations

import datetime
import re
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale, summary
from fake_groups import sampled_groups
from fake_known_values import areas

NAN = float("nan")
Invalid = chorale_client.InvalidArgumentError
ROWS = pd.DataFrame(
    {
        "area": [50.0, 60.0, 70.0, 80.0],
        "town": ["Kiel", "Bonn", "Kiel", "Bonn"],
        "size": [1, 2, 1, 2],
    },
    index=list("abcd"),
)
DAYS = [datetime.date(2026, 3, 1), datetime.date(2026, 3, 2)] * 2


@pytest.fixture
def context(fake: FakeChorale, client: chorale_client.Client) -> chorale_client.Context:
    fake.context()
    return client.context("houses")


def groups_of(fake: FakeChorale, context: chorale_client.Context, rows: Any, groupby: Any) -> Any:
    """The labels; the request must have the rows 0, 2, 1, 3 in two groups."""
    fake.answers["Sample"].append(sampled_groups())
    samples = context.sample(rows, groupby=groupby, paths=1)
    request = fake.requests("Sample")[-1]
    assert list(request.group_sizes) == [2, 2]
    assert areas(request) == [50, 70, 60, 80]
    assert samples.values.tolist() == [[50, 60, 70, 80]]
    return samples.groups


@pytest.mark.parametrize(
    ("groupby", "labels"),
    [
        ("town", ("Kiel", "Bonn")),
        ("size", (1, 2)),
        (["size"], (1, 2)),
        (("town", "size"), (("Kiel", 1), ("Bonn", 2))),
        (np.array([7, 5, 7, 5]), (7, 5)),
        (np.array(["z", "a", "z", "a"]), ("z", "a")),
        (np.array(["z", 1, "z", 1], dtype=object), ("z", 1)),
        (np.array(DAYS, dtype="M8[D]"), tuple(np.array(DAYS[:2], dtype="M8[D]"))),
        (pd.Series([5, 5, 7, 7], index=list("bdac")), (7, 5)),
        (pd.Series(["z", "a"] * 2, index=list("abcd"), dtype="category"), ("z", "a")),
        (pd.Series([True, False] * 2, index=list("abcd"), dtype="boolean"), (True, False)),
        (pd.Index(["z", "a", "z", "a"]), ("z", "a")),
        (pd.DatetimeIndex(DAYS), tuple(pd.DatetimeIndex(DAYS)[:2])),
        (pl.Series(DAYS), tuple(DAYS[:2])),
        (pa.array(["z", "a", "z", "a"]), ("z", "a")),
        (pa.chunked_array([["z", "a"], ["z", "a"]]), ("z", "a")),
    ],
    ids=str,
)
def test_forms_of_groups(
    fake: FakeChorale, context: chorale_client.Context, groupby: Any, labels: Any
) -> None:
    assert groups_of(fake, context, ROWS, groupby) == labels


def test_columns_of_other_tables(fake: FakeChorale, context: chorale_client.Context) -> None:
    for rows in (
        pl.from_pandas(ROWS),
        pa.Table.from_pandas(ROWS),
        {name: ROWS[name].tolist() for name in ROWS},
        {name: ROWS[name].to_numpy() for name in ROWS},
        ROWS.rename(columns={"size": " size"}),  # equal after normalisation
    ):
        assert groups_of(fake, context, rows, "size") == (1, 2)
    # An array of the features in their order has their names.
    assert groups_of(fake, context, ROWS[["area", "town"]].to_numpy(), "town") == ("Kiel", "Bonn")


def test_a_single_group(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Sample"].append(sampled_groups())
    samples = context.sample(ROWS, groupby=np.zeros(4), paths=1)
    assert samples.groups == (0.0,)
    assert samples.values.tolist() == [[50, 60, 70, 80]]
    assert list(fake.requests("Sample")[0].group_sizes) == [4]


def test_a_validated_sample_has_the_groups(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append([summary(estimate=pb.Estimate(device_bytes=5))])
    assert context.validate_sample(ROWS, groupby="town").device_bytes == 5
    assert list(fake.requests("Sample")[0].group_sizes) == [2, 2]


@pytest.mark.parametrize(
    ("groupby", "message"),
    [
        ("twon", "groupby: the rows have no column 'twon'; did you mean 'town'?"),
        (["town", "x"], "groupby: the rows have no column 'x'"),
        (3, "groupby: the rows have no column '3'"),
        ([], "groupby: a list must have names of columns: pass labels as an array or a Series"),
        ([1.5, 2.5, 1.5, 2.5], "groupby: a list must have names of columns"),
        (np.array([1, 2]), "groupby: 2 labels for 4 rows"),
        (pd.Series([1, 2], index=["a", "b"]), "groupby: its labels are not those of the rows"),
        (np.ones((4, 1)), "groupby: the number of dimensions is 2, must be 1"),
        (2.5, "groupby: the type is float, must be an array or a list"),
        ({"a": 1}, "groupby: the type is dict"),
        (
            np.array([1.0, NAN, NAN, 2.0]),
            "groupby: 2 of the 4 rows have no label, the first of them is row 1",
        ),
        (pd.Series(["x", None, " ", "x"], index=list("abcd")), "groupby: 2 of the 4 rows"),
        (pl.Series([1, None, 1, 1]), "groupby: 1 of the 4 rows"),
        (
            np.ma.MaskedArray([1, 2, 1, 2], mask=[False, False, False, True]),
            "groupby: 1 of the 4 rows",
        ),
        (pd.Series([[1], [2], [1], [2]], index=list("abcd")), "groupby: "),
    ],
)
def test_groups_that_are_invalid(
    context: chorale_client.Context, groupby: Any, message: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(message)) as caught:
        context.sample(ROWS, groupby=groupby)
    assert caught.value.field == "groupby"
    with pytest.raises(Invalid, match=re.escape(message)):
        context.predict(ROWS, groupby=groupby)


def test_missing_labels_in_a_column(context: chorale_client.Context) -> None:
    rows = ROWS.assign(town=["Kiel", None, "Kiel", "Bonn"])
    with pytest.raises(Invalid, match="groupby: 1 of the 4 rows have no label"):
        context.log_density(rows, np.ones(4), groupby=["size", "town"])


@pytest.mark.parametrize("method", ["predict", "sample", "log_density"])
def test_a_row_of_each_group_must_be_left(context: chorale_client.Context, method: str) -> None:
    given = [NAN, 1.0, NAN, 2.0]
    values = [np.ones(4)] if method == "log_density" else []
    with pytest.raises(Invalid, match="the values of all rows of the group 'Bonn' are known") as e:
        getattr(context, method)(ROWS, *values, groupby="town", given=given)
    assert e.value.field == "given"


def test_rows_are_required(context: chorale_client.Context) -> None:
    with pytest.raises(Invalid, match="rows: there are none"):
        context.sample(ROWS[:0], groupby="town")
