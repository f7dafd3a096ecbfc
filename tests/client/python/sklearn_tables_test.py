"""What `ChoraleRegressor` takes as X and y, and says of what it does not take."""

from __future__ import annotations

from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pytest
from chorale_client.sklearn import ChoraleRegressor
from sklearn.datasets import make_friedman1

Table = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def address(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimators that name no server use the real one."""
    monkeypatch.setenv("CHORALE_SERVER", server)


@pytest.fixture(scope="module")
def table() -> Table:
    X, y = make_friedman1(n_samples=120, noise=0.5, random_state=0)  # noqa: N806
    return X, y


def test_masks_and_types_of_categories(table: Table) -> None:
    X, y = table  # noqa: N806
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": np.arange(len(y)) % 4})
    kinds = ["numeric", "numeric", "categorical"]
    for choice in ([False, False, True], frame.dtypes == "int64", lambda f: f.columns[-1:]):
        model = ChoraleRegressor(categorical_features=choice).fit(frame, y)
        assert [f.kind for f in model.context_.features] == kinds
        assert np.isfinite(model.predict(frame[:3])).all()
    typed = frame.astype({"g": "category"})
    model = ChoraleRegressor(categorical_features="from_dtype").fit(typed, y)
    assert [f.kind for f in model.context_.features] == kinds
    with pytest.raises(ValueError, match="no column at position 3"):
        ChoraleRegressor(categorical_features=[3]).fit(frame, y)


def test_tables_of_other_libraries(table: Table) -> None:
    X, y = table  # noqa: N806
    frame = pl.DataFrame({"a": X[:, 0], "g": pl.Series(["u", "v"] * 60, dtype=pl.Categorical)})
    expected = ChoraleRegressor().fit(frame, y).predict(frame[:5])
    for data in (frame.lazy(), frame.to_arrow()):
        model = ChoraleRegressor().fit(data, y)
        assert list(model.feature_names_in_) == ["a", "g"]
        np.testing.assert_array_equal(
            model.predict(data), ChoraleRegressor().fit(frame, y).predict(frame)
        )
        np.testing.assert_array_equal(model.predict(frame[:5]), expected)
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        ChoraleRegressor().fit(frame.to_arrow()[:0], y)


def test_standard_deviations(table: Table) -> None:
    X, y = table  # noqa: N806
    model = ChoraleRegressor().fit(X[:100], y[:100])
    means, stds = model.predict(X[100:], return_std=True)
    expected = model.context_.predict(X[100:])
    np.testing.assert_array_equal(means, expected.means)
    np.testing.assert_array_equal(stds, expected.stds)
    with pytest.raises(ValueError, match="return_std: requires output_type='mean', not 'median'"):
        model.predict(X[100:], output_type="median", return_std=True)


def test_class_labels_are_refused_with_the_reason(table: Table) -> None:
    X, y = table  # noqa: N806
    labels = np.where(y > y.mean(), "high", "low")
    for wrong in (labels, labels.tolist(), pd.Series(labels), pd.Series(labels).astype("category")):
        with pytest.raises(ValueError, match="numeric; classification is not supported"):
            ChoraleRegressor().fit(X, wrong)
    model = ChoraleRegressor().fit(X, [str(value) for value in y])  # numbers all the same
    np.testing.assert_array_equal(model.predict(X[:3]), ChoraleRegressor().fit(X, y).predict(X[:3]))


def test_one_line_of_warnings_at_fit(table: Table) -> None:
    X, y = table  # noqa: N806
    frame = pd.DataFrame({"x": X[:, 0], "c": 1.0, "d": 2.0, "n": [f"{v:.2f}%" for v in X[:, 1]]})
    with pytest.warns(chorale_client.DataWarning) as found:
        ChoraleRegressor().fit(frame, y)
    (warning,) = (w.message for w in found)
    assert isinstance(warning, chorale_client.DataWarning)
    reasons = {part.column: part.reason for part in warning.parts}
    assert reasons == {"n": "NUMBERS_AS_TEXT", "c": "DROPPED_COLUMN", "d": "DROPPED_COLUMN"}
