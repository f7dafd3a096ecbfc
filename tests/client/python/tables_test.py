"""What becomes of the tables and cells that users have."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chorale_client._columns import CategoricalColumn, NumericColumn, StringColumn
from chorale_client._tables import Table, read_numbers, read_rows, read_table
from chorale_client._text_normalisation import normal_text

NAN = float("nan")
DAY = 19_723.0  # 2024-01-01
NEW_YEAR = datetime.date(2024, 1, 1)
BIG = 2**53 + 1


def cells(table: Table, name: str) -> list[Any]:
    """A column as numbers or texts; None where a cell is missing."""
    column = table.columns[name]
    if isinstance(column, NumericColumn):
        return [None if np.isnan(value) else value for value in column.values]
    if isinstance(column, StringColumn):
        return [string or None for string in column.strings]
    assert len(set(column.categories)) == len(column.categories)
    return [None if code < 0 else column.categories[code] for code in column.codes]


def one(values: Any, **more: Any) -> list[Any]:
    return cells(read_table({"x": values}, **more), "x")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_the_same_columns_from_each_library(make: Any) -> None:
    when = [datetime.datetime(2024, 1, 1, 12), None]
    table = read_table(
        make(
            {
                "number": [1.5, None],
                "whole": [1, 2],
                "flag": [True, False],
                "town": ["Kiel", None],
                "when": when,
                "day": [datetime.date(2024, 1, 1), None],
                "span": [datetime.timedelta(hours=36), None],
            }
        )
    )
    assert table.row_count == 2
    assert cells(table, "number") == [1.5, None]
    assert cells(table, "whole") == [1.0, 2.0]
    assert cells(table, "flag") == [1.0, 0.0]
    assert cells(table, "town") == ["Kiel", None]
    assert cells(table, "when") == [DAY + 0.5, None]
    assert cells(table, "day") == [DAY, None]
    assert cells(table, "span") == [1.5, None]
    assert not table.warnings


def test_dtypes_of_pandas() -> None:
    frame = pd.DataFrame(
        {
            "Int64": pd.array([1, None], "Int64"),
            "Float64": pd.array([1.5, None], "Float64"),
            "boolean": pd.array([True, None], "boolean"),
            "string": pd.array(["a", None], "string"),
            "category": pd.Categorical(["b", None], categories=["z", "b"]),
            "numbers": pd.Categorical([3, None], categories=[3, 4]),
            "object": np.array([decimal.Decimal("2.5"), pd.NA], dtype=object),
            "nat": pd.to_datetime(["2024-01-01", None]),
            "zone": pd.to_datetime(["2024-01-01 01:00", None]).tz_localize("Europe/Berlin"),
            "seconds": np.array(["2024-01-01", "NaT"], "M8[s]"),
            "arrow": pd.array(["a", None], dtype=pd.ArrowDtype(pa.string())),
        },
        index=["r", "s"],
    )
    table = read_table(frame)
    for name, first in {
        "Int64": 1.0,
        "Float64": 1.5,
        "boolean": 1.0,
        "string": "a",
        "category": "b",
        "numbers": "3",
        "object": 2.5,
        "nat": DAY,
        "zone": DAY,  # one o'clock in Berlin is midnight in UTC
        "seconds": DAY,
        "arrow": "a",
    }.items():
        assert cells(table, name) == [first, None], name
    assert list(table.labels.index) == ["r", "s"]


def test_dtypes_of_polars_and_arrow() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=1))
    frame = pl.DataFrame(
        {
            "category": pl.Series(["b", None], dtype=pl.Categorical),
            "enum": pl.Series(["b", None], dtype=pl.Enum(["a", "b"])),
            "decimal": pl.Series([decimal.Decimal("2.5"), None]),
            "ints": pl.Series([1, None], dtype=pl.Int8),
            "zone": pl.Series([datetime.datetime(2024, 1, 1, 1, tzinfo=zone), None]),
        }
    )
    expected = {"category": "b", "enum": "b", "decimal": 2.5, "ints": 1.0, "zone": DAY}
    for data in (frame, frame.lazy(), frame.to_arrow()):
        table = read_table(data)
        for name, first in expected.items():
            assert cells(table, name) == [first, None], name


def test_names_of_columns_that_look_equal_are_equal() -> None:
    for name, like in (("Größe", "Gro\u0308\u00dfe"), ("size ", "size"), ("a b", "a\u00a0b")):
        assert cells(read_rows({like: [1]}, {name: "numeric"}), name) == [1]
        assert cells(read_table({name: [1]}, types={like: "categorical"}), name) == ["1"]
        both = {like: [1], name: [2]}
        assert cells(read_rows(both, {name: "numeric"}), name) == [2], "the same bytes come first"
    with pytest.raises(chorale_client.InvalidArgumentError, match="did you mean 'size'"):
        read_rows({"size": [1]}, {"Size": "numeric"})


def test_arrays() -> None:
    assert cells(read_table(np.array([[1, 2], [3, 4]])), "x1") == [2, 4]
    named = np.array([(1, "a"), (2, "b")], dtype=[("n", "f4"), ("t", "U1")])
    assert cells(read_table(named), "t") == ["a", "b"]
    assert one(np.array(["2024-01-01T06", "NaT"], "M8[h]")) == [DAY + 0.25, None]
    assert one(np.array([36, "NaT"], "m8[h]")) == [1.5, None]
    assert one(np.ma.masked_array([1.0, 2.0], mask=[False, True])) == [1.0, None]
    assert one(np.array([1.0, None, "x"], dtype=object)) == ["1", None, "x"]
    assert one(range(3)) == [0, 1, 2]
    for shape in ((2,), (2, 2, 2)):
        with pytest.raises(
            chorale_client.InvalidArgumentError, match=r"must have 2: rows and columns"
        ):
            read_table(np.zeros(shape))
    with pytest.raises(chorale_client.InvalidArgumentError, match="has 2 dimensions"):
        one(np.zeros((2, 2)))


def test_times_keep_what_float64_can_hold() -> None:
    nanoseconds = np.array(["2024-01-01T00:00:00.000001"], "M8[ns]")
    [days] = one(nanoseconds)
    assert days - DAY == pytest.approx(1e-6 / 86_400, abs=4e-12)
    before = one([datetime.datetime(1969, 12, 31, 18)])
    assert before == [-0.25]


def test_texts_that_look_equal_are_one_category() -> None:
    same = ["Zürich  West", "Zu\u0308rich\u00a0West", " Zürich\u200b West\n"]
    assert one(same) == ["Zürich West"] * 3
    assert one(["", "  ", "\u200b", "a", None, NAN, pd.NA, b"b"]) == [None] * 3 + [
        "a",
        None,
        None,
        None,
        "b",
    ]
    assert normal_text("plain") == "plain"
    # Ordered by insertion, these would take minutes.
    above, below = "\u0301" * 200_000, "\u0316" * 200_000
    assert normal_text("q" + above + below) == "q" + below + above


def test_a_column_with_a_string_is_the_string_forms_of_its_cells() -> None:
    for given, strings in (
        ([1, "n/a", 3.0, 4.5, None], ["1", "n/a", "3", "4.5", None]),
        ([True, "false", np.False_, 0], ["True", "false", "False", "0"]),
        ([NEW_YEAR, "2024-01-02", pd.Timestamp("2024-01-03 12:00")], None),
        ([NEW_YEAR, 5], ["2024-01-01", "5"]),
        ([BIG, 1, None], [str(BIG), "1", None]),
        ([decimal.Decimal(-BIG), decimal.Decimal("0.5")], [str(-BIG), "0.5"]),
        (np.array([BIG, -BIG]), [str(BIG), str(-BIG)]),
        (np.array([2**63 + 1], dtype=np.uint64), [str(2**63 + 1)]),
        (pd.array([BIG, None], "Int64"), [str(BIG), None]),
        (pl.Series([BIG, None]), [str(BIG), None]),
    ):
        expected = strings or ["2024-01-01", "2024-01-02", "2024-01-03 12:00:00"]
        table = read_table({"x": given})
        assert isinstance(table.columns["x"], StringColumn)
        assert cells(table, "x") == expected
        assert table.warnings == []
    for numbers in ([2**53, -(2**53)], [1e300, float(BIG)], [decimal.Decimal("nan"), 1]):
        assert isinstance(read_table({"x": numbers}).columns["x"], NumericColumn)
    assert one([BIG, 1], types={"x": "numeric"}) == [float(BIG), 1]


def test_kinds_that_the_caller_chooses() -> None:
    zips = {"zip": [1067, 20095, 1067], "n": ["1.5", " 2 ", None]}
    with_types = read_table(zips, types={"zip": "categorical", "n": "numeric"})
    assert cells(with_types, "zip") == ["1067", "20095", "1067"]
    assert cells(with_types, "n") == [1.5, 2.0, None]
    assert one([True, False, None], types={"x": "categorical"}) == [
        "True",
        "False",
        None,
    ]
    assert one(np.array([True]), types={"x": "categorical"}) == ["True"]
    assert one([1.0, 2.5], types={"x": "categorical"}) == ["1", "2.5"]
    with pytest.raises(
        chorale_client.InvalidArgumentError, match=r"'x' is numeric, but its row 1 is 'b'"
    ):
        one(["1", "b"], types={"x": "numeric"})
    for text in ("2024-01-01", "true", "1,5"):
        with pytest.raises(chorale_client.InvalidArgumentError, match="'x' is numeric, but"):
            one([text], types={"x": "numeric"})
    with pytest.raises(chorale_client.InvalidArgumentError, match="several types: date, number"):
        one([NEW_YEAR, 5], types={"x": "numeric"})
    with pytest.raises(
        chorale_client.InvalidArgumentError, match="no column 'Zip'; did you mean 'zip'"
    ):
        read_table(zips, types={"Zip": "numeric"})
    with pytest.raises(
        chorale_client.InvalidArgumentError, match="must be 'numeric' or 'categorical'"
    ):
        read_table(zips, types={"zip": "text"})  # type: ignore[dict-item]


def test_rows_become_what_the_context_has() -> None:
    rows = {"b": [True, False], "n": ["1", "2"], "c": [7, 8], "other": [[1], [2]]}
    asked = read_rows(rows, {"c": "categorical", "n": "numeric", "b": "categorical"})
    assert list(asked.columns) == ["c", "n", "b"]
    assert cells(asked, "c") == ["7", "8"]
    assert cells(asked, "n") == ["1", "2"]
    with pytest.raises(
        chorale_client.InvalidArgumentError, match="column 'B' is missing.*did you mean 'b'"
    ):
        read_rows(rows, {"B": "numeric"})


def test_booleans_match_the_categories_of_booleans() -> None:
    registered = read_table({"b": [True, False]}, types={"b": "categorical"})
    asked = read_rows({"b": np.array([True, False])}, {"b": "categorical"})
    assert cells(asked, "b") == cells(registered, "b") == ["True", "False"]
    frame = pd.DataFrame({"b": pd.array([True, None], "boolean")})
    assert cells(read_rows(frame, {"b": "categorical"}), "b") == ["True", None]


YMD = [20240131, 20240229, 20230505]


@pytest.mark.parametrize(
    "days",
    [
        YMD,
        [*YMD, None],
        [decimal.Decimal(day) for day in YMD],
        np.array(YMD),
        pd.Series([*YMD, None]),
        pd.Series([*YMD, None], dtype="Int64"),
        pl.Series([*YMD, None]),
        pa.array([*YMD, None]),
    ],
)
def test_dates_written_as_numbers_are_told(days: Any) -> None:
    (warning,) = read_table({"day": days}).warnings
    assert (warning.reason, warning.column, warning.cell_count) == ("DATES_AS_NUMBERS", "day", 3)
    assert "row 0 is 20240131" in warning.message
    assert "pandas.to_datetime(..., format='%Y%m%d')" in warning.message
    assert one(days)[:3] == YMD, "and they are numbers all the same"
    for kind in ("numeric", "categorical"):
        assert read_table({"day": days}, types={"day": kind}).warnings == []


MONTHS = [201501, 201502, 201512]


@pytest.mark.parametrize(
    "months", [MONTHS, np.array(MONTHS, dtype=float), pd.Series([*MONTHS, None]), pl.Series(MONTHS)]
)
def test_months_written_as_numbers_are_told(months: Any) -> None:
    (warning,) = read_table({"month": months}).warnings
    assert (warning.reason, warning.column, warning.cell_count) == ("DATES_AS_NUMBERS", "month", 3)
    assert "row 0 is 201501" in warning.message
    assert "pandas.to_datetime(..., format='%Y%m')" in warning.message
    assert one(months)[:3] == MONTHS
    assert read_table({"month": months}, types={"month": "numeric"}).warnings == []


@pytest.mark.parametrize(
    "numbers",
    [
        [201501, 201501, 201502],
        [201501, 201502, 201513],
        [201501, 201502, 201500],
        [201501, 201502, 189912],
        [201501, 201502, 210101],
        [201501, 201502, 20150301],
        [201501, 201502, 201503.5],
        [20240131, 20240131, 20240229],
        [20240131, 20240229, 20230230],
        [20240131, 20240229, 20231301],
        [20240131, 20240229, 20240100],
        [20240131, 20240229, 17],
        [20240131, 20240229, 20230505.5],
        [20240131, 20240229, 21010101],
        [2024, 2023, 2022],
        [True, False, None],
        [None, None, None],
        pd.to_datetime(["2024-01-31", "2024-02-29", "2023-05-05"]),
    ],
)
def test_numbers_that_are_no_dates_are_not_told_as_such(numbers: Any) -> None:
    assert read_table({"x": numbers}).warnings == []


DATES = pd.date_range("2020-01-01", periods=3)
VALUES = {"x": [1.0, 2.0, 4.0]}


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (DATES, [""]),
        (DATES.rename("day"), ["day"]),
        (DATES.tz_localize("UTC"), [""]),
        (DATES.to_period("M"), [""]),
        (pd.Index(["a", "b", "c"], name="id"), ["id"]),
        (pd.Index([5, 6, 7], name="id"), ["id"]),
        (
            pd.MultiIndex.from_arrays([["a", "a", "b"], DATES], names=["shop", "day"]),
            ["shop", "day"],
        ),
        (pd.Index(["a", "b", "c"]), []),
        (pd.Index([7, 5, 6]), []),
        (pd.RangeIndex(3, name="row"), []),
        (pd.Index([1.0, 2.0, 4.0], name="x"), []),
    ],
)
def test_an_index_that_may_be_meant_as_a_column_is_told(index: Any, names: list[str]) -> None:
    for table in (
        read_table(pd.DataFrame(VALUES, index=index)),
        read_table({"x": pd.Series(VALUES["x"], index=index)}),
    ):
        assert [warning.column for warning in table.warnings] == names
        for warning in table.warnings:
            assert (warning.reason, warning.cell_count) == ("UNUSED_INDEX", 3)
            assert ".reset_index() converts it to a column" in warning.message
    frame = pd.DataFrame(VALUES, index=index)
    assert read_rows(frame, {"x": "numeric"}).warnings == []
    if "x" not in names and index.nlevels == 1:
        assert read_table(frame.assign(**{index.name or "copy": index})).warnings == []


@pytest.mark.parametrize(
    ("name", "values", "is_index"),
    [
        ("Unnamed: 0", [0, 1, 2], True),
        ("Unnamed: 12", [1, 2, 3], True),
        ("Unnamed: 0.1", [250, 251, 252], True),
        ("Unnamed: 0", [0, 1, 3], False),
        ("Unnamed: 0", [2, 1, 0], False),
        ("Unnamed: 0", [-1, 0, 1], False),
        ("Unnamed: 0", [0.5, 1.5, 2.5], False),
        ("Unnamed: 0", [0, None, 2], False),
        ("Unnamed: 0", ["a", "b", "c"], False),
        ("unnamed: 0", [0, 1, 2], False),
        ("Unnamed: x", [0, 1, 2], False),
        ("row", [0, 1, 2], False),
    ],
)
def test_a_column_without_a_name_in_its_file(name: str, values: list[Any], is_index: bool) -> None:
    table = read_table({name: values, **VALUES})
    assert list(table.columns) == (["x"] if is_index else [name, "x"])
    if is_index:
        (warning,) = table.warnings
        assert (warning.reason, warning.column, warning.cell_count) == ("UNUSED_INDEX", name, 3)
        assert "dropped as an index; to keep it, rename it" in warning.message
        assert name in read_table({name: values}, types={name: "numeric"}).columns
        assert read_numbers({name: values}, name) is not None


def test_an_integer_beyond_all_floats_is_infinite() -> None:
    with pytest.raises(chorale_client.InvalidArgumentError, match="'x' is infinite in row 1"):
        one([1, 10**400], types={"x": "numeric"})


@pytest.mark.parametrize(
    "cells",
    [
        [True, 0, 1.5],
        [1, 2.5, decimal.Decimal(3)],
        [NEW_YEAR, pd.Timestamp(NEW_YEAR), np.datetime64("2024-01-01"), None, pd.NaT],
    ],
)
def test_numbers_of_several_types_are_no_mixture(cells: list[Any]) -> None:
    assert read_table({"x": cells}).warnings == []


@pytest.mark.parametrize(
    "data",
    [
        {None: [1], "a": [2]},
        {float("nan"): [1], "a": [2]},
        pd.DataFrame([[1, 2]], columns=[None, "a"]),
        pd.DataFrame([[1, 2]], columns=[np.nan, "a"]),
        pd.DataFrame([[1, 2]], columns=pd.Index([pd.NaT, "a"], dtype=object)),
        pd.DataFrame([[1, 2, 3]], columns=[None, None, "a"]),
    ],
)
def test_a_name_that_is_missing_is_none(data: Any) -> None:
    message = "column without a name: the name at position 0"
    with pytest.raises(chorale_client.InvalidArgumentError, match=message):
        read_table(data)
    with pytest.raises(chorale_client.InvalidArgumentError, match=message):
        read_rows(data, {"a": "numeric"})
    assert list(read_table({"None": [1], "nan": [2]}).columns) == ["None", "nan"]


def test_texts_that_have_no_utf_8_are_refused_by_their_column() -> None:
    half = "b\ud83d"
    for values in (["a", half], np.array(["a", half], dtype=object), np.array(["a", half])):
        for kinds in ({}, {"town": "categorical"}):
            with pytest.raises(
                chorale_client.InvalidArgumentError,
                match=r"'town': its (string|category) 'b\\ud83d' is no",
            ) as caught:
                read_table({"town": values}, types=kinds)  # type: ignore[arg-type]
            assert caught.value.field == "town"
        with pytest.raises(chorale_client.InvalidArgumentError, match="'town': its category"):
            read_rows({"town": values}, {"town": "categorical"})
    with pytest.raises(
        chorale_client.InvalidArgumentError, match=r"name of column 'b\\ud83d' is not valid Unicode"
    ):
        read_table({half: [1]})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": [1, 2], "b": [1]}, r"differ in length: \{'a': 2, 'b': 1\}"),
        ({"a": "text"}, "'a' has the type str, must be a list or an array"),
        ({"a": 1}, "'a' has the type int"),
        (
            {"a": [object()]},
            "'a' has a cell of type object, which is not a number, a date or a string",
        ),
        ({"a": [datetime.time(1)]}, "'a' has a cell of type time, which is not"),
        ({"a": [1.0, float("inf")]}, "'a' is infinite in row 1"),
        ({" ": [1]}, "a column without a name"),
        ({1: [1], "1": [2]}, "more than one column '1'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column 'a'"),
        (3, "the table has the type int, must be a pandas"),
    ],
)
def test_tables_that_cannot_be_used(data: Any, message: str) -> None:
    with pytest.raises(chorale_client.InvalidArgumentError, match=message):
        read_table(data)


def test_a_column_without_cells_is_numeric() -> None:
    assert isinstance(read_table({"x": [None, None]}).columns["x"], NumericColumn)
    assert isinstance(
        read_table({"x": [None]}, types={"x": "categorical"}).columns["x"],
        CategoricalColumn,
    )
