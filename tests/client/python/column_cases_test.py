"""Columns of texts, by the table of cases that the command line is held to as well."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chorale_client._columns import CategoricalColumn, NumericColumn
from chorale_client._date_text import is_compact_date, looks_like_date, parse_date
from chorale_client._meanings import parse_as
from chorale_client._number_text import looks_like_number, parse_number
from chorale_client._tables import read_table
from own_server import ROOT

CASES = json.loads((ROOT / "tests/client/column_cases.json").read_text())

MAKERS: dict[str, Callable[[list[str | None]], Any]] = {
    "list": list,
    "array": lambda cells: np.array(cells, dtype=object),
    "pandas": lambda cells: pd.Series(cells, dtype="string"),
    "polars": lambda cells: pl.Series(cells, dtype=pl.String),
    "arrow": lambda cells: pa.array(cells, pa.string()),
}


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_texts(case: dict[str, Any], make: Callable[[list[str | None]], Any]) -> None:
    expected = case.get("python", case)
    table = read_table({"x": make(case["cells"])})
    column = table.columns["x"]
    assert column.kind == expected["kind"]
    if isinstance(column, NumericColumn):
        assert column.meaning == expected["meaning"]
        values = [None if np.isnan(value) else value for value in column.values.tolist()]
        assert values == expected["values"]
    else:
        assert column.categories == expected["categories"]
    reasons = [warning.reason for warning in table.warnings]
    assert reasons == ([] if expected["note"] is None else [expected["note"]])


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_who_says_categories_gets_them(case: dict[str, Any]) -> None:
    texts = list(dict.fromkeys(cell for cell in case["cells"] if cell is not None))
    for table in (
        read_table({"x": case["cells"]}, types={"x": "categorical"}),
        read_table({"x": pd.Series(case["cells"], dtype="category")}),
        read_table({"x": pl.Series(case["cells"], dtype=pl.Categorical)}),
    ):
        column = table.columns["x"]
        assert isinstance(column, CategoricalColumn)
        assert column.categories == texts
        assert table.warnings == []


def test_warnings_say_what_to_do() -> None:
    def message(cells: list[str]) -> str:
        (found,) = read_table({"x": cells}).warnings
        assert found.column == "x"
        return found.message

    assert "types={'x': 'numeric'} reads them" in message(["1", "2", "3"])
    assert "3 of its 4 cells look like numbers" in message(["1,5", "2,5", "a", "3,5"])
    assert "(row 1 is 'n/a'): if these are missing, set them to None" in message(["1", "n/a", "3"])
    assert "(row 0 is 'Jan 2012'): convert them to dates" in message(["Jan 2012", "Feb 2012"])
    assert "to_datetime(..., format='%Y%m'), or" in message(["201501", "201502", "201503"])
    assert "types={'x': 'categorical'} keeps the strings" in message(["2012-01", "2012-02"])
    assert "drop the column" in message([f"id {i}x" for i in range(30)])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["2023-02-28", "2023-02-30", "2023-03-01"],
            r"1 of its 3 cells are not .* \(row 1 is '2023-0",
        ),
        (
            ["2023-02", "2023-03", "n/a"],
            r"1 of its 3 cells are not .* \(row 2 is 'n/a'\): correct these",
        ),
        (["2023-02-01", "5", "2023-03-01"], "row 1 is '5'"),
        (
            ["2023-02-28", "31.1.2023", "1.2.2023"],
            r"3 of its 3 cells look .* \(row 1 is '31.1.2023'",
        ),
        (["0000-00-00", "2023-13-01"], r"2 of its 2 cells look .* \(row 0 is '0000-00-00'"),
    ],
)
def test_warnings_about_dates_show_the_cell_that_is_none(cells: list[str], message: str) -> None:
    (warning,) = read_table({"x": cells}).warnings
    assert warning.reason == "DATES_AS_TEXT"
    assert re.search(message, warning.message)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0.0),
        ("1970-01-02T06:00Z", 1.25),
        ("1970-01-01 00:00:00.000000001", 1 / 86_400e9),
        ("1970-01-01T00:00+24:00", None),
        ("1970-01-01T24:00", None),
        ("1970-13", None),
        ("0000-01-01", None),
        ("1970-1-1", None),
        ("1970", None),
        ("\u0661970-01-01", None),
    ],
)
def test_dates(text: str, days: float | None) -> None:
    assert parse_date(text) == days


def test_dates_are_those_of_other_types() -> None:
    texts = ["2024-02-29 12:34:56.789012", "1912-01-01 00:00:01"]
    times = pd.to_datetime(texts, format="ISO8601")
    (read,) = read_table({"x": times}).columns.values()
    assert isinstance(read, NumericColumn)
    assert [parse_date(text) for text in texts] == read.values.tolist()


def test_what_looks_like_a_date_or_a_number() -> None:
    assert not any(map(looks_like_date, ("1.5", "12", "May", "red", "1-2", "Q5 2012", "")))
    assert is_compact_date("20240229")
    assert not is_compact_date("20230229")
    assert not is_compact_date("99990101")
    for text in ("(1,234.50)", "< 0.1", "12,34,567", "1 234,5 \u20ac", "\u221e", "7 \u00b0C", "5m"):
        assert looks_like_number(text), text
    for text in ("10A", "12 Main", "kg", "", "$", "1.5", "1.2.3", "nan", "x" * 99 + "1 kg"):
        assert not looks_like_number(text), text
    assert parse_number("\u22125") == -5
    assert parse_number("1e999") is None
    assert parse_number("1_000") is None


def test_durations_in_texts() -> None:
    assert parse_as("1 days 12:00:00", "duration") == 1.5
    assert parse_as("-1 day, 12:00:00", "duration") == -0.5
    assert parse_as("-1 days +12:00:00", "duration") == -0.5
    assert parse_as("-06:00", "duration") == -0.25
    assert parse_as("3 days", "duration") == 3.0
    assert parse_as("2", "duration") == 2.0
    assert parse_as("soon", "duration") is None


def test_more_texts_than_a_server_takes_are_not_judged() -> None:
    many = [str(i) for i in range(10_001)]
    (warning,) = read_table({"x": many[:50]}).warnings
    assert warning.reason == "NUMBERS_AS_TEXT"
    assert read_table({"x": many}).warnings == []
