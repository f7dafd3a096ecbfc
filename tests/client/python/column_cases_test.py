"""Columns of strings: what is sent, and that a server reads each case as its typed values."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chorale_client._columns import CategoricalColumn, StringColumn
from chorale_client._tables import read_rows, read_table
from own_server import ROOT

CASES = json.loads((ROOT / "tests/client/column_cases.json").read_text())
NAMES = [case["name"] for case in CASES]

MAKERS: dict[str, Callable[[list[str | None]], Any]] = {
    "list": list,
    "array": lambda cells: np.array(cells, dtype=object),
    "pandas": lambda cells: pd.Series(cells, dtype="string"),
    "polars": lambda cells: pl.Series(cells, dtype=pl.String),
    "arrow": lambda cells: pa.array(cells, pa.string()),
}
ABOUT_TEXT = {case["note"] for case in CASES} - {None}


def registered(client: chorale_client.Client, x: Any, **more: Any) -> chorale_client.Context:
    """The context of a table with a column, which is only validated."""
    table = {"x": x, "y": [float(i * i) for i in range(len(x))]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", chorale_client.DataWarning)
        return client.register(table, target="y", name="case", validate_only=True, **more)


def typed(case: dict[str, Any]) -> Any:
    values = case["values"]
    if case["meaning"] == "boolean":
        return [None if value is None else value == 1 for value in values]
    if case["meaning"] == "date":
        times = ["NaT" if value is None else round(value * 86_400e6) for value in values]
        return np.array(times, dtype="m8[us]") + np.datetime64(0, "us")
    return [None if value is None else float(value) for value in values]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_case_is_the_content_of_its_types(
    case: dict[str, Any], real: chorale_client.Client
) -> None:
    context = registered(real, case["cells"])
    (feature,) = context.features
    assert feature.kind == case["kind"]
    if case["kind"] == "numeric":
        assert feature.meaning == case["meaning"]
        same = registered(real, typed(case))
    else:
        same = registered(real, case["cells"], types={"x": "categorical"})
    assert context.digest == same.digest
    reasons = [w.reason for w in context.warnings if w.reason in ABOUT_TEXT]
    assert reasons == ([] if case["note"] is None else [case["note"]])
    assert not ABOUT_TEXT & {w.reason for w in same.warnings} - {"DATES_AS_NUMBERS"}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_strings_of_each_library_are_sent_as_they_are(
    make: Callable[[list[str | None]], Any],
) -> None:
    for case in CASES:
        for table in (
            read_table({"x": make(case["cells"])}),
            read_rows({"x": make(case["cells"])}, {"x": "numeric"}),
        ):
            column = table.columns["x"]
            if any(case["cells"]):
                assert isinstance(column, StringColumn)
                assert column.strings == [cell or "" for cell in case["cells"]]
            assert column.missing().tolist() == [cell is None for cell in case["cells"]]
            assert table.warnings == []


@pytest.mark.parametrize("case", CASES, ids=NAMES)
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


def test_equal_numbers_are_one_category(real: chorale_client.Client) -> None:
    context = registered(real, ["3", "3.0", "x"])
    assert context.features[0].categories == 2
    same = registered(real, ["3", "3", "x"], types={"x": "categorical"})
    assert context.digest == same.digest == registered(real, [3, 3.0, "x"]).digest


def test_integers_that_floats_cannot_represent_keep_their_digits(
    real: chorale_client.Client,
) -> None:
    big = 2**53
    (strings, integers, column) = (
        registered(real, cells)
        for cells in ([str(big), str(big + 1)], [big, big + 1], pd.Series([big, big + 1]))
    )
    assert strings.digest == integers.digest == column.digest
    assert strings.features[0].kind == "categorical"
    assert "LARGE_INTEGERS" in [warning.reason for warning in integers.warnings]


def test_cells_that_are_no_values_of_the_column_are_refused(real: chorale_client.Client) -> None:
    days = pd.date_range("2024-01-01", periods=20)
    table = {"day": days, "n": range(20), "y": np.sqrt(np.arange(20))}
    context = real.register(table, target="y")
    ok = context.predict({"day": ["2024-01-01", "19724"], "n": ["1", "2.0"]})
    assert np.array_equal(ok.means, context.predict({"day": days[:2], "n": [1, 2]}).means)
    for field, rows in (
        ("day", {"day": ["2024-01-01", "tomorrow"], "n": [1, 2]}),
        ("day", {"day": ["2024-01-01", "20240131"], "n": [1, 2]}),
        ("n", {"day": days[:2], "n": ["1", "2,5"]}),
    ):
        with pytest.raises(chorale_client.InvalidArgumentError, match=r"values\[1\]") as caught:
            context.predict(rows)
        assert caught.value.field == f'rows.columns["{field}"].strings.values[1]'
    context.delete()
