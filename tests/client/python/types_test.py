"""What a column is by its type, and rows by what the context has."""

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
from chorale_client._columns import NumericColumn, StringColumn
from chorale_client._tables import Table, read_rows, read_table
from tables_test import DAY, cells, one

OF_WHATEVER = [
    (["b", None, "a"], ["b", None, "a"]),
    ([3, None, 1], ["3", None, "1"]),
    ([3.5, None, 1.0], ["3.5", None, "1"]),
    ([True, None, False], ["True", None, "False"]),
    ([datetime.date(2024, 1, 1), None], ["2024-01-01", None]),
    ([datetime.datetime(2024, 1, 1, 5), None], ["2024-01-01 05:00:00", None]),
]


@pytest.mark.parametrize(("values", "texts"), OF_WHATEVER)
def test_types_of_categories_are_categories_of_whatever(values: Any, texts: Any) -> None:
    categorical = pd.Categorical(values)
    frame = pd.DataFrame({"x": categorical})
    dictionary = pa.array(values).dictionary_encode()
    for data in (
        frame,
        {"x": categorical},
        {"x": pd.CategoricalIndex(categorical)},
        pa.table({"x": dictionary}),
        {"x": dictionary},
    ):
        table = read_table(data)
        assert cells(table, "x") == texts
        assert table.warnings == []
        assert cells(read_rows(data, {"x": "categorical"}), "x") == texts


def test_categories_of_pandas_are_those_of_their_texts() -> None:
    ages = pd.Series(pd.cut([5, 40, 95, np.nan], 3))
    months = pd.Series(pd.period_range("2020-01", periods=3, freq="M")).astype("category")
    whole = pd.Series([1, 2, None], dtype="Int64").astype("category")
    for column in (ages, months, whole, pd.Series([7, 3]).astype("category")):
        of_texts = column.astype(object).where(column.notna(), None)
        of_texts = of_texts.map(lambda cell: None if cell is None else str(cell))
        assert one(column) == one(of_texts, types={"x": "categorical"})
    assert one(ages)[0] == "(4.91, 35.0]"


def test_types_of_categories_of_polars() -> None:
    enum = pl.Series(["2024-01-01", "true"], dtype=pl.Enum(["true", "2024-01-01"]))
    assert one(enum) == ["2024-01-01", "true"]
    assert one(enum.cast(pl.Categorical)) == ["2024-01-01", "true"]


def test_who_says_numbers_gets_them_of_categories() -> None:
    assert one(pd.Categorical([3, None, 1]), types={"x": "numeric"}) == [3, None, 1]


def test_periods_are_their_start() -> None:
    months = pd.period_range("2024-01", periods=2, freq="M")
    for data in (
        months,
        pd.Series(months),
        list(months),
        pd.Series([months[0], months[1], pd.NaT]),
    ):
        table = read_table({"x": data})
        assert cells(table, "x")[:2] == [DAY, DAY + 31]
        assert meaning(table) == "date"


def meaning(table: Table) -> str:
    column = table.columns["x"]
    assert isinstance(column, NumericColumn)
    return column.meaning


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.5, 2], "number"),
        ([decimal.Decimal(1)], "number"),
        (np.array([1, 2]), "number"),
        ([None], "number"),
        ([True, None, False], "boolean"),
        (np.array([True, False]), "boolean"),
        (pd.Series([True, None], dtype="boolean"), "boolean"),
        (pl.Series([True, None]), "boolean"),
        ([True, 2], "number"),
        ([datetime.date(2024, 1, 1), None], "date"),
        (pd.to_datetime(["2024-01-01"]), "date"),
        (pd.Series(pd.to_datetime(["2024-01-01"])).dt.tz_localize("Europe/Berlin"), "date"),
        (pl.Series([datetime.date(2024, 1, 1)]), "date"),
        (np.array(["2024-01-01"], "M8[D]"), "date"),
        ([np.datetime64("2024-01-01")], "date"),
        ([datetime.timedelta(1)], "duration"),
        (pd.to_timedelta(["1D"]), "duration"),
        (np.array([1], "m8[h]"), "duration"),
    ],
)
def test_what_numbers_stand_for(values: Any, expected: str) -> None:
    assert meaning(read_table({"x": values})) == expected
    assert meaning(read_table({"x": values}, types={"x": "numeric"})) == expected


@pytest.mark.parametrize(
    ("of_context", "given", "expected"),
    [
        ("boolean", [True, np.False_, 1, 0.0, None], [1, 0, 1, 0, None]),
        ("boolean", pd.Series([True, None], dtype="boolean"), [1, None]),
        ("boolean", pl.Series([True, None]), [1, None]),
        ("date", pd.to_datetime(["2024-01-01", None]), [DAY, None]),
        ("date", pd.period_range("2024-01", periods=1, freq="M"), [DAY]),
    ],
)  # fmt: skip
def test_rows_are_read_by_what_the_context_has(of_context: Any, given: Any, expected: Any) -> None:
    table = read_rows({"x": given}, {"x": "numeric"}, {"x": of_context})
    assert cells(table, "x") == expected
    assert meaning(table) == of_context
    assert table.warnings == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["2024-01-01", "2024-01", None], ["2024-01-01", "2024-01", None]),
        ([datetime.date(2024, 1, 1), "19724", 19725.5], ["2024-01-01", "19724", "19725.5"]),
        ([datetime.date(2024, 1, 1), 19724], ["2024-01-01", "19724"]),
        (pd.Series(["True", "FALSE"], dtype="category"), ["True", "FALSE"]),
        (["1.5", " 2 ", "nan", b"3"], ["1.5", "2", "nan", "3"]),
    ],
)
def test_strings_are_parsed_by_the_server(given: Any, expected: Any) -> None:
    for of_context in ("number", "boolean", "date", "duration"):
        table = read_rows({"x": given}, {"x": "numeric"}, {"x": of_context})
        assert isinstance(table.columns["x"], StringColumn)
        assert cells(table, "x") == expected
        assert table.warnings == []


def test_a_cell_that_is_no_value_of_any_column() -> None:
    with pytest.raises(chorale_client.InvalidArgumentError, match="'x' has a cell of type list"):
        read_rows({"x": [[1]]}, {"x": "numeric"}, {"x": "number"})
