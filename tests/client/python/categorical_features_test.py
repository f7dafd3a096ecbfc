"""What `ChoraleRegressor(categorical_features=...)` takes, as scikit-learn's own estimators do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from chorale_client._categorical_features import categorical_names
from sklearn.compose import make_column_selector

FRAME = pd.DataFrame({"a": [0.5], "b": [1.5], "g": [1]})
NAMES = ["a", "b", "g"]


@pytest.mark.parametrize(
    "choice",
    [
        ["g"],
        "g",
        [2],
        2,
        [-1],
        np.array([2]),
        np.int64(2),
        [False, False, True],
        np.array([False, False, True]),
        np.array([False, False, True], dtype=object),
        FRAME.dtypes == "int64",
        (FRAME.dtypes == "int64").iloc[[2, 0, 1]],  # by name
        pd.Series([False, False, True]),
        pd.Series([False, False, True], dtype="boolean"),
        pd.Index(["g"]),
        slice(2, 3),
        slice("g", "g"),
        slice("g", None),
        make_column_selector(dtype_include="int"),
        lambda frame: [name for name in frame.columns if name == "g"],
        ["g "],  # looks like "g"
    ],
)
def test_ways_to_say_the_last_column(choice: Any) -> None:
    assert categorical_names(choice, FRAME, NAMES) == ["g"]


@pytest.mark.parametrize("choice", [None, "from_dtype", [], [False] * 3, slice(0, 0)])
def test_ways_to_say_none(choice: Any) -> None:
    assert categorical_names(choice, FRAME, NAMES) == []


def test_columns_that_are_only_numbered() -> None:
    array = np.zeros((1, 3))
    names = ["x0", "x1", "x2"]
    assert categorical_names([False, True, False], array, names) == ["x1"]
    assert categorical_names([0, 2], array, names) == ["x0", "x2"]
    assert categorical_names([1, 0], array, names) == ["x1", "x0"]
    assert categorical_names(pd.Series([True, False, False]), array, names) == ["x0"]


def test_numbers_by_name_are_no_positions() -> None:
    two = pd.DataFrame({"a": [0.5], "g": [1]})
    with pytest.raises(ValueError, match="convert a mask to booleans"):
        categorical_names(pd.Series([0, 1], index=["a", "g"]), two, ["a", "g"])
    assert categorical_names(pd.Series([0, 1]), two, ["a", "g"]) == ["a", "g"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (["f"], "no column 'f'; the columns are 'a', 'b', 'g'"),
        (["A"], "no column 'A'; did you mean 'a'"),
        ("category", "no column 'category'"),
        ([3], "no column at position 3: there are 3"),
        ([0, 0, 1], "3 numbers, all 0 or 1.* convert a mask to booleans"),
        (np.array([0, 1, 1]), "convert a mask to booleans"),
        ((FRAME.dtypes == "int64").astype(int), "convert a mask to booleans"),
        ([-4], "no column at position -4"),
        ([False, True], "the mask has 2 values for 3 columns"),
        ([False, None, True], "the mask has missing values"),
        ([True, 2, "a"], "booleans mixed with names or positions"),
        ([1.0], "1.0 is not a name, a position"),
        (True, "True is not a name"),
        ({"a"}, "is not a name, a position"),
        (np.zeros((1, 3), dtype=bool), "2 dimensions"),
        (pd.Series([True, False, False], index=["a", "b", "z"]), "its labels are not those"),
        (slice("z", None), "no column 'z'"),
    ],
)
def test_what_is_not_known_is_refused(choice: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"categorical_features: .*{message}"):
        categorical_names(choice, FRAME, NAMES)
