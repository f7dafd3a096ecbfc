"""Summaries of paths, by a fake server: the statistics of the samples with the same seed."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pytest
from chorale_client import aio, functionals
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale
from fake_known_values import NAN
from fake_summaries import ROWS, Floats, longest_run, quantile_errors, sampled_paths, summarized
from grpc import StatusCode
from scipy.stats import rankdata

QUANTILES = [0.1, 0.5, 0.999]
# Of all rows, and of some rows in another order than that of the table.
ARGUMENTS: list[dict[str, Any]] = [{}, {"rows": ["d", "a", "e", "b"]}]
FUNCTIONALS = {
    f"{name}{number}": getattr(functionals, name)(**arguments)
    for number, arguments in enumerate(ARGUMENTS)
    for name in ("sum", "mean", "max", "min", "argmax", "argmin", "rank")
} | {
    f"{name} {side}{number}": getattr(functionals, name)(**{side: 5.0}, **arguments)
    for number, arguments in enumerate(ARGUMENTS)
    for name in ("any", "all", "count", "excess", "improvement", "longest_run", "sum_beyond")
    for side in ("above", "below")
}
FUNCTIONALS["weighted"] = functionals.sum(
    ["d", "a", "e"], weights=pd.Series({"a": 2.0, "d": -1.0, "e": 0.5})
)


def evaluate(name: str, values: Floats, weights: Floats) -> Floats:
    """The numbers [paths] or [paths, rows] of a functional in `FUNCTIONALS`."""
    kind = name.rstrip("01").partition(" ")[0]
    beyond = values - 5.0 if "above" in name else 5.0 - values
    if kind in ("argmax", "argmin"):
        signed = values if kind == "argmax" else -values
        best: Floats = (signed == signed.max(axis=1)[:, None]).astype(np.float64)
        return np.asarray(best / best.sum(axis=1)[:, None])
    if kind == "longest_run":
        return np.array([longest_run(path) for path in beyond > 0], dtype=float)
    if kind == "sum_beyond":
        total = values.sum(axis=1)
        return np.asarray((total > 5.0) if "above" in name else (total < 5.0), dtype=np.float64)
    simple: dict[str, Any] = {
        "weighted": lambda: (values * weights).sum(axis=1),
        "rank": lambda: rankdata(-values, axis=1),
        "any": lambda: (beyond.max(axis=1) > 0).astype(float),
        "all": lambda: (beyond.min(axis=1) > 0).astype(float),
        "count": lambda: (beyond > 0).sum(axis=1).astype(float),
        "excess": lambda: beyond.clip(0).sum(axis=1),
        "improvement": lambda: beyond.clip(0).max(axis=1),
    }
    if kind in simple:
        return np.asarray(simple[kind]())
    return np.asarray(getattr(values, kind)(axis=1))


def check_statistics(found: Any, draws: Floats, quantiles: Any = QUANTILES) -> None:
    """Checks the attributes that Summary and FunctionalSummary have; draws [paths, ...]."""
    plural = "s" if isinstance(found, chorale_client.Summary) else ""
    stds = draws.std(axis=0, ddof=1)
    expected = {"mean": draws.mean(axis=0), "mean_error": stds / np.sqrt(len(draws)), "std": stds}
    for name, value in expected.items():
        assert getattr(found, name + plural) == pytest.approx(value)
    if quantiles is not None:
        at_quantiles = np.moveaxis(np.quantile(draws, quantiles, axis=0), 0, -1)
        assert found.quantiles == pytest.approx(at_quantiles)
        assert found.quantile_errors == pytest.approx(quantile_errors(draws, quantiles))


@pytest.mark.parametrize("given", ["none", "shared", "separate"])
@pytest.mark.parametrize("groupby", [None, "store"])
def test_summaries_are_statistics_of_the_samples(
    fake: FakeChorale, context: chorale_client.Context, given: str, groupby: str | None
) -> None:
    paths = 40
    known: Any = None
    if given == "shared":
        known = pd.Series({"b": 10.0, "a": 20.0})
    elif given == "separate":
        known = np.full((paths, 5), NAN)
        known[:, [0, 1]] = np.arange(2 * paths).reshape(paths, 2)
    options: dict[str, Any] = {"given": known, "groupby": groupby, "paths": paths, "seed": 3}
    fake.answers["Sample"].append(sampled_paths())
    samples = context.sample(ROWS, **options)
    fake.answers["Summarize"].append(summarized)
    summary = context.summarize(
        ROWS,
        functionals=FUNCTIONALS,
        quantiles=QUANTILES,
        covariance=True,
        return_paths=7,
        **options,
    )
    others = [0, 1, 2, 3, 4] if known is None else [2, 3, 4]
    assert summary.index.tolist() == [ROWS.index[row] for row in others]
    drawn = samples.values[:, others]
    check_statistics(summary, drawn)
    assert summary.probabilities.tolist() == QUANTILES
    stores = [ROWS["store"].iloc[row] for row in others]
    assert summary.covariance is not None
    matrices = summary.covariance if groupby else [summary.covariance]
    for store, matrix in zip(("y", "x") if groupby else (None,), matrices, strict=True):
        joint = [i for i, other in enumerate(stores) if store in (None, other)]
        assert matrix == pytest.approx(np.atleast_2d(np.cov(drawn[:, joint], rowvar=False)))
    assert summary.groups == samples.groups == (None if groupby is None else ("y", "x"))
    assert summary.samples is not None
    assert np.array_equal(summary.samples.values, samples.values[:7])
    assert summary.samples.index.tolist() == list("abcde")
    assert summary.known_log_density == pytest.approx(samples.known_log_density)
    density = samples.known_log_density
    first = density[:7] if given == "separate" and density is not None else density  # type: ignore[index]
    assert summary.samples.known_log_density == pytest.approx(first)
    assert (summary.seed, summary.samples.seed, summary.paths, summary.target) == (
        3,
        3,
        40,
        "price",
    )

    assert list(summary.functionals) == list(FUNCTIONALS)
    for name, functional in FUNCTIONALS.items():
        found = summary.functionals[name]
        labels = list("abcde") if functional.rows is None else functional.rows
        of_labels = samples.values[:, [list("abcde").index(label) for label in labels]]
        weights = np.array([-1.0, 2.0, 0.5])
        groups = [np.full(len(labels), True)]
        if groupby is not None:
            groups = [np.array([ROWS["store"][a] == store for a in labels]) for store in ("y", "x")]
        draws = [
            evaluate(name, of_labels[:, own], weights[own] if name == "weighted" else weights)
            for own in groups
        ]
        if functional.of_each_row:
            assert found.index.tolist() == labels
            assert found.quantiles is None
            together = np.empty(of_labels.shape)
            for own, of_group in zip(groups, draws, strict=True):
                together[:, own] = of_group
            check_statistics(found, together, None)
        elif groupby is None:
            assert isinstance(found.mean, float)
            check_statistics(found, draws[0])
        else:
            check_statistics(found, np.stack(draws, axis=1))


@pytest.mark.parametrize("given", [None, True])
def test_requests(fake: FakeChorale, context: chorale_client.Context, given: bool | None) -> None:
    fake.answers["Sample"].append(sampled_paths())
    fake.answers["Summarize"].append(summarized)
    rows = ROWS.assign(price=[NAN, 600.0, NAN, NAN, 800.0])
    rows = rows if given else ROWS
    options: dict[str, Any] = {
        "given": given,
        "groupby": "store",
        "paths": 4,
        "seed": 5,
        "order": "random",
        "sampling": "sobol",
        "wrap": True,
        "snap": False,
    }
    context.sample(rows, **options)
    summary = context.summarize(rows, estimator="values", **options)
    assert summary.quantiles.shape == (3 if given else 5, 5)
    assert summary.probabilities.tolist() == [0.05, 0.25, 0.5, 0.75, 0.95]
    [sampled], [request] = fake.requests("Sample"), fake.requests("Summarize")
    assert sampled.sampling == pb.SampleRequest.SAMPLING_SOBOL
    alike = pb.SummarizeRequest(
        quantiles=summary.probabilities, estimator=pb.SummarizeRequest.ESTIMATOR_VALUES
    )
    alike.MergeFromString(sampled.SerializeToString())
    assert request == alike


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"total": "sum"}, pb.Functional(type="TYPE_SUM")),
        (["rank"], pb.Functional(type="TYPE_RANK")),
        (("argmin",), pb.Functional(type="TYPE_ARGMIN")),
        ({"a": functionals.max("c")}, pb.Functional(type="TYPE_MAX", rows=[2])),
        ({"a": functionals.min(["e", "b"])}, pb.Functional(type="TYPE_MIN", rows=[4, 1])),
        (
            {"a": functionals.mean(ROWS["store"] == "x")},
            pb.Functional(type="TYPE_MEAN", rows=[1, 3]),
        ),
        ({"a": functionals.mean(slice(2))}, pb.Functional(type="TYPE_MEAN", rows=[0, 1])),
        (
            {"a": functionals.sum_beyond(["e", "a"], below=9, weights=[2, 1])},
            pb.Functional(
                type="TYPE_SUM_BEYOND", rows=[4, 0], weights=[2, 1], threshold=9, below=True
            ),
        ),
        ({"a": functionals.any(above=3)}, pb.Functional(type="TYPE_ANY", threshold=3.0)),
        ({"a": functionals.all(below=0)}, pb.Functional(type="TYPE_ALL", below=True)),
        (
            {"a": functionals.longest_run(["b", "a"], below=-1.5)},
            pb.Functional(type="TYPE_LONGEST_RUN", rows=[1, 0], threshold=-1.5, below=True),
        ),
        (
            {"a": functionals.sum(weights=[1, 2, 3, 4, 5])},
            pb.Functional(type="TYPE_SUM", weights=[1, 2, 3, 4, 5]),
        ),
        (
            {"a": functionals.sum(["e", "a"], weights=pd.Series([2.0, 1.0], index=["a", "e"]))},
            pb.Functional(type="TYPE_SUM", rows=[4, 0], weights=[1, 2]),
        ),
    ],
    ids=str,
)
def test_forms_of_functionals(
    fake: FakeChorale, context: chorale_client.Context, asked: Any, message: pb.Functional
) -> None:
    fake.answers["Summarize"].append(summarized)
    summary = context.summarize(ROWS, functionals=asked, paths=2)
    [name] = summary.functionals
    assert name in asked
    assert list(fake.requests("Summarize")[0].functionals) == [message]


def test_rows_without_labels_have_functionals_by_position(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Summarize"].append(summarized)
    asked = {"best": functionals.argmax([3, 1])}
    summary = context.summarize(pl.from_pandas(ROWS), functionals=asked, paths=2)
    assert list(fake.requests("Summarize")[0].functionals[0].rows) == [3, 1]
    assert list(summary.functionals["best"].index) == [3, 1]


def test_functionals_are_immutable() -> None:
    functional = functionals.any(["a"], above=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        functional.threshold = 3.0  # type: ignore[misc]
    copy = pickle.loads(pickle.dumps(functional))
    assert (copy.type, copy.rows, copy.threshold, copy.below) == ("any", ["a"], 2.0, False)


def test_the_response_says_what_is_estimated_from_distributions(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    def answer(request: Any) -> pb.SummarizeResponse:
        response: pb.SummarizeResponse = summarized(request)
        response.conditional = True
        response.functionals[1].conditional = True
        return response

    fake.answers["Summarize"].extend([answer, summarized])
    summary = context.summarize(ROWS, paths=2, functionals=["max", "sum", "rank"])
    assert summary.conditional
    assert [one.conditional for one in summary.functionals.values()] == [False, True, False]
    [request] = fake.requests("Summarize")
    assert request.estimator == pb.SummarizeRequest.ESTIMATOR_UNSPECIFIED
    assert request.sampling == pb.SampleRequest.SAMPLING_UNSPECIFIED
    assert not context.summarize(ROWS, paths=2).conditional


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_groups_with_several_keys(
    fake: FakeChorale, context: chorale_client.Context, library: str
) -> None:
    fake.answers["Summarize"].extend([summarized] * 2)
    rows = ROWS.assign(month=[1, 1, 2, 2, 2])
    table = rows if library == "pandas" else pl.from_pandas(rows)
    labels = {"store": list(rows["store"]), "month": list(rows["month"])}
    pairs = list(dict.fromkeys(zip(*labels.values(), strict=True)))
    by_two = context.summarize(table, groupby=["store", "month"], functionals=["sum"], paths=2)
    cells = by_two.to_frame(functionals=True)["group"].to_list()
    assert cells == (pairs if library == "pandas" else [f"{s}, {month}" for s, month in pairs])
    mixed = np.array([1, "a", 1, 1, "a"], dtype=object)
    by_label = context.summarize(table, groupby=mixed, functionals=["sum"], paths=2)
    cells = by_label.to_frame(functionals=True)["group"].to_list()
    assert cells == ([1, "a"] if library == "pandas" else ["1", "a"])


def test_frames(fake: FakeChorale, context: chorale_client.Context) -> None:
    asked = ["sum", "argmax", "max"]
    options: dict[str, Any] = {"functionals": asked, "quantiles": [0.5, 0.975], "paths": 9}
    columns = ["mean", "mean_error", "std", "q50", "q97.5"]
    fake.answers["Summarize"].extend([summarized] * 4)
    summary = context.summarize(ROWS, **options)
    frame = summary.to_frame()
    assert frame.index.tolist() == list("abcde")
    assert frame.columns.tolist() == columns
    assert frame["mean_error"].tolist() == summary.mean_errors.tolist()
    assert frame["q97.5"].tolist() == summary.quantiles[:, 1].tolist()
    assert summary.to_arrow().column_names == columns
    frame = summary.to_frame(functionals=True)
    assert frame.columns.tolist() == ["functional", *columns]
    assert frame["functional"].tolist() == ["sum", "max"]
    of_maximum = summary.functionals["max"]
    assert of_maximum.quantiles is not None
    assert frame.iloc[1].tolist()[1:3] == [of_maximum.mean, of_maximum.mean_error]
    assert frame.iloc[1].tolist()[4:] == of_maximum.quantiles.tolist()
    assert repr(summary) == "<Summary of 'price': 9 paths of 5 rows>"
    assert len(summary) == 5

    grouped = context.summarize(pl.from_pandas(ROWS), groupby=["store", "town"], **options)
    frame = grouped.to_frame(functionals=True)
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == ["functional", "group", *columns]
    assert frame["functional"].to_list() == ["sum"] * 4 + ["max"] * 4
    assert list(map(tuple, frame["group"].to_list()[:4])) == list(grouped.groups or ())
    assert frame["mean"].to_list()[4:] == np.asarray(grouped.functionals["max"].mean).tolist()

    none = context.summarize(ROWS, paths=2, quantiles=(), functionals=["sum"])
    assert none.to_frame().columns.tolist() == columns[:3]
    assert none.to_frame(functionals=True).shape == (1, 4)
    none = context.summarize(ROWS, paths=2)
    assert (none.functionals, none.covariance, none.samples) == ({}, None, None)
    assert none.to_frame(functionals=True).shape == (0, 9)


def test_warnings_and_pickles(fake: FakeChorale, context: chorale_client.Context) -> None:
    def warned(request: Any) -> pb.SummarizeResponse:
        answer = summarized(request)
        answer.warnings.add(reason=pb.Warning.REASON_OUTLIERS, column="area", message="far")
        return answer

    fake.answers["Summarize"].append(warned)
    with pytest.warns(chorale_client.DataWarning, match=r"far \[OUTLIERS\]"):
        summary = context.summarize(ROWS, paths=2, functionals=["sum", "rank"], return_paths=1)
    assert [warning.reason for warning in summary.warnings] == ["OUTLIERS"]
    copy = pickle.loads(pickle.dumps(summary))
    assert copy.means.tolist() == summary.means.tolist()
    assert copy.functionals["sum"].mean == summary.functionals["sum"].mean
    assert copy.functionals["rank"].index.tolist() == list("abcde")


def test_asyncio(fake: FakeChorale) -> None:
    fake.context()
    fake.answers["Summarize"].extend([summarized, Failure(StatusCode.UNIMPLEMENTED)])

    async def main() -> None:
        async with aio.connect(fake.address) as client:
            context = await client.context("houses")
            summary = await context.summarize(
                ROWS, paths=2, functionals=["sum"], seed=1, sampling="sobol", estimator="values"
            )
            assert summary.seed == 1
            [request] = fake.requests("Summarize")
            assert request.sampling == pb.SampleRequest.SAMPLING_SOBOL
            assert request.estimator == pb.SummarizeRequest.ESTIMATOR_VALUES
            assert isinstance(summary.functionals["sum"].mean, float)
            with pytest.raises(chorale_client.UnimplementedError, match="summarize: the server"):
                await context.summarize(ROWS)

    asyncio.run(main())
