"""What follows from joint samples, against numpy by hand; and frames of other libraries."""

from __future__ import annotations

import builtins
import pickle
import statistics
import warnings
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chorale_client._labels import Labels
from chorale_client._models_and_contexts import Source, Timings
from chorale_client._predictions import Mixtures, Predictions, quantile_name

VALUES = np.array([[1.0, 5.0, 3.0], [2.0, 2.0, 9.0], [4.0, 8.0, 6.0], [7.0, 1.0, 0.0]])


EXTRAS = ("xarray", "arviz", "matplotlib", "tqdm", "polars", "pandas", "pyarrow")


def make(values: Any = VALUES, index: Any = ("a", "b", "c"), backend: str | None = "pandas") -> Any:
    if backend != "pandas":
        index = np.arange(len(index))
    elif not isinstance(index, pd.Index):
        index = pd.Index(index)
    labels = Labels(index, backend)
    return chorale_client.Samples(
        np.asarray(values), labels, "y", 7, Source("d", "m"), Timings(), None, ()
    )


def test_of_each_row() -> None:
    samples = make()
    columns = [list(column) for column in VALUES.T]
    assert len(samples) == 3
    assert samples.paths == 4
    assert samples.mean().tolist() == [statistics.mean(column) for column in columns]
    assert samples.std() == pytest.approx([statistics.stdev(column) for column in columns])
    assert samples.quantile(0.5).tolist() == [statistics.median(column) for column in columns]
    assert samples.quantile([0.0, 1.0]).tolist() == [[min(c), max(c)] for c in columns]
    assert samples.interval(0.5) == pytest.approx(samples.quantile([0.25, 0.75]))
    with pytest.raises(chorale_client.InvalidArgumentError, match="level: 1.5"):
        samples.interval(1.5)


def test_of_rows_together() -> None:
    samples = make()
    assert samples.sum().tolist() == [9, 13, 18, 8]
    assert samples.sum(["a", "c"]).tolist() == [4, 11, 10, 7]
    assert samples.sum(np.array([True, False, False])).tolist() == [1, 2, 4, 7]
    assert samples.sum("b").tolist() == [5, 2, 8, 1]
    assert samples.sum([]).tolist() == [0, 0, 0, 0]
    assert samples.max().tolist() == [5, 9, 8, 7]
    assert samples.min(["b", "c"]).tolist() == [3, 2, 6, 0]
    assert samples.ranks().tolist() == [[3, 1, 2], [2, 3, 1], [3, 1, 2], [1, 2, 3]]
    assert samples.argmax_probabilities().tolist() == [0.25, 0.5, 0.25]
    means = [sum(column) / 4 for column in VALUES.T]
    for i in range(3):
        for j in range(3):
            covariance = sum((p[i] - means[i]) * (p[j] - means[j]) for p in VALUES) / 3
            assert samples.cov()[i, j] == pytest.approx(covariance)
            spread = samples.std()[i] * samples.std()[j]
            assert samples.corr()[i, j] == pytest.approx(covariance / spread)
    assert make(VALUES[:, :1], ["a"]).cov().shape == (1, 1)
    assert make(VALUES[:, :1], ["a"]).corr().shape == (1, 1)
    for reduce in (samples.max, samples.min):
        with pytest.raises(chorale_client.InvalidArgumentError, match="rows: there are none"):
            reduce([])
    with pytest.raises(chorale_client.InvalidArgumentError, match="mask has the shape"):
        samples.sum([True])
    with pytest.raises(KeyError):
        samples.sum(["z"])


def test_ranks_of_ties_keep_the_order_of_the_rows() -> None:
    assert make([[1.0, 1.0, 2.0]]).ranks().tolist() == [[2, 3, 1]]


def test_rows_by_their_labels() -> None:
    samples = make(index=["a", "b", "a"])
    assert samples["b"].tolist() == [5, 2, 8, 1]
    assert samples["a"].tolist() == VALUES[:, [0, 2]].tolist()
    with pytest.raises(KeyError):
        samples["z"]
    numbered = make(backend=None)
    assert numbered[1].tolist() == numbered[-2].tolist() == [5, 2, 8, 1]
    for wrong in (3, -4, 0.5, "a"):
        with pytest.raises(KeyError):
            numbered[wrong]
    assert [row.tolist() for row in samples] == VALUES.T.tolist()
    assert np.asarray(samples).tolist() == VALUES.tolist()
    assert np.array(samples, dtype=np.float32).dtype == np.float32


def test_some_rows_stay_joint() -> None:
    samples = make()
    assert samples.select(["c", "a"]).values.tolist() == VALUES[:, [2, 0]].tolist()
    assert list(samples.select(["c", "a"]).index) == ["c", "a"]
    assert samples.select(slice(1)).values.tolist() == VALUES[:, :1].tolist()


def test_independent_rows_keep_their_draws_and_lose_their_order() -> None:
    rng = np.random.default_rng(0)
    samples = make(rng.normal(size=(2000, 1)) + np.zeros(3))  # all rows equal
    alone = samples.independent()
    assert np.array_equal(np.sort(alone.values, axis=0), np.sort(samples.values, axis=0))
    assert samples.corr()[0, 1] == pytest.approx(1)
    assert abs(alone.corr()[0, 1]) < 0.1
    assert np.array_equal(alone.values, samples.independent().values)
    assert not np.array_equal(alone.values, samples.independent(seed=1).values)


def test_pit() -> None:
    samples = make()
    pit = samples.pit([3.0, 5.0, np.nan])
    assert pit[:2].tolist() == [0.5, 0.5 + 0.125]
    assert np.isnan(pit[2])
    with pytest.raises(chorale_client.InvalidArgumentError, match=r"must be \(3,\)"):
        samples.pit([1.0])


# ---- Frames --------------------------------------------------------------------------------


def test_frames_are_of_the_kind_that_the_rows_came_in() -> None:
    frame = make().to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == ["a", "b", "c"]
    assert frame.to_numpy().tolist() == VALUES.tolist()
    summary = make().to_frame(summary=True)
    assert summary.index.tolist() == ["a", "b", "c"]
    assert summary.columns.tolist() == [
        "mean",
        "std",
        "q05",
        "q25",
        "q50",
        "q75",
        "q95",
    ]
    assert summary["q50"].tolist() == [3.0, 3.5, 4.5]
    assert isinstance(make(backend="polars").to_frame(), pl.DataFrame)
    assert isinstance(make(backend="pyarrow").to_frame(summary=True), pa.Table)
    assert isinstance(make(backend=None).to_frame(), pd.DataFrame)
    assert make(backend=None).to_frame().columns.tolist() == ["0", "1", "2"]
    arrow = make(index=["a", "b", "a"]).to_arrow()
    assert arrow.column_names == ["a[0]", "b[1]", "a[2]"]
    dates = make(index=pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]))
    assert dates.to_frame().columns.tolist() == [
        "2024-01-01",
        "2024-01-02",
        "2024-01-03",
    ]


def test_for_xarray_and_arviz() -> None:
    array = make().to_xarray()
    assert array.dims == ("path", "row")
    assert array.sel(row="b").values.tolist() == [5, 2, 8, 1]
    assert array.attrs["seed"] == "7"
    with warnings.catch_warnings():  # ArviZ tells of a change to come
        warnings.simplefilter("ignore")
        data = make().to_arviz()
    assert data.posterior_predictive["y"].dims == ("chain", "draw", "row")
    assert data.posterior_predictive["y"].sel(row="c").values.tolist() == [[3, 9, 6, 0]]


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_import(name: str, *rest: Any) -> Any:
        if name.split(".")[0] in EXTRAS:
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_import)
    samples = make(backend=None)
    for use, extra in (
        (samples.to_xarray, "xarray"),
        (samples.to_arviz, "arviz"),
        (samples.plot, "plots"),
        (samples.to_frame, "pandas"),
        (lambda: chorale_client._progress.Progress(True, 1, "rows"), "progress"),
    ):
        with pytest.raises(ImportError, match=rf"chorale-client\[{extra}\]"):
            use()


def test_samples_travel_between_processes() -> None:
    copy = pickle.loads(pickle.dumps(make()))
    assert copy.values.tolist() == VALUES.tolist()
    assert list(copy.index) == ["a", "b", "c"]
    assert repr(copy) == "<Samples of 'y': 4 paths of 3 rows>"


# ---- Predictions ---------------------------------------------------------------------------


def test_predictions() -> None:
    predictions = Predictions(
        means=np.array([1.0, 2.0]),
        stds=np.array([0.1, 0.2]),
        quantiles=np.array([[0.5, 1.5], [1.0, 3.0]]),
        probabilities=np.array([0.05, 0.975]),
        mixtures=None,
        labels=Labels(pd.Index(["r", "s"]), "pandas"),
        target="y",
        source=Source(),
        warnings=(),
    )
    frame = predictions.to_frame()
    assert frame.columns.tolist() == ["mean", "std", "q05", "q97.5"]
    assert frame.loc["s"].tolist() == [2.0, 0.2, 1.0, 3.0]
    assert predictions.to_arrow()["q05"].to_pylist() == [0.5, 1.0]
    assert repr(predictions) == "<Predictions of 'y': 2 rows>"
    assert [quantile_name(p) for p in (0.5, 0.025, 0.001)] == ["q50", "q02.5", "q00.1"]
    assert [quantile_name(p) for p in (0.07, 0.29, 1e-7)] == ["q07", "q29", "q00.00001"]


def test_each_quantile_has_a_column_of_its_own() -> None:
    probabilities = np.array([0.9999999, 0.99999999, 0.5, 0.5])
    predictions = Predictions(
        means=np.zeros(1),
        stds=np.ones(1),
        quantiles=np.array([[1.0, 2.0, 3.0, 4.0]]),
        probabilities=probabilities,
        mixtures=None,
        labels=Labels(pd.Index(["r"]), "pandas"),
        target="y",
        source=Source(),
        warnings=(),
    )
    frame = predictions.to_frame()
    assert frame.columns[2:].tolist() == ["q99.99999", "q99.999999", "q50[2]", "q50[3]"]
    assert frame.iloc[0, 2:].tolist() == [1, 2, 3, 4]
    assert predictions.to_arrow().column_names == frame.columns.tolist()


def test_densities_of_mixtures() -> None:
    mixtures = Mixtures(
        np.array([[0.0, 3.0], [1.0, 1.0]]),
        np.array([[1.0, 2.0]] * 2),
        np.array([[0.25, 0.75]] * 2),
    )
    grid = np.linspace(-20, 25, 9001)
    densities = mixtures.density(grid)
    assert densities.shape == (2, 9001)
    assert densities.sum(axis=1) * (grid[1] - grid[0]) == pytest.approx([1, 1])
    by_hand = 0.25 * statistics.NormalDist(0, 1).pdf(1) + 0.75 * statistics.NormalDist(3, 2).pdf(1)
    assert mixtures.density([[1.0], [1.0]])[0, 0] == pytest.approx(by_hand)
