"""The package against a real server with the model that is shipped."""

from __future__ import annotations

import datetime
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pytest
from chorale_client import functionals
from own_server import ROOT

PENGUINS = pd.read_csv(ROOT / "datasets/penguins.csv")
HELD_OUT = pd.read_csv(ROOT / "datasets/penguins_heldout.csv")[:6]
TARGET = "body_mass_g"


@pytest.fixture(scope="module")
def penguins(real: chorale_client.Client) -> chorale_client.Context:
    return real.register(PENGUINS, target=TARGET)


def test_a_registered_table(real: chorale_client.Client, penguins: chorale_client.Context) -> None:
    assert penguins.row_count == len(PENGUINS)
    assert penguins.target == TARGET
    kinds = {feature.name: feature.kind for feature in penguins.features}
    assert kinds["species"] == "categorical"
    assert kinds["year"] == "numeric"
    assert next(f.missing for f in penguins.features if f.name == "sex") == 9
    again = real.register(PENGUINS, target=TARGET)
    assert (again.name, again.digest) == (penguins.name, penguins.digest)
    assert penguins.name in [context.name for context in real.contexts()]
    [model] = [model for model in real.models() if model.is_default]
    assert penguins.model == model.name
    penguins.warm()
    assert penguins.state == "resident"


def test_a_memory_set_is_part_of_the_content(
    real: chorale_client.Client, penguins: chorale_client.Context
) -> None:
    reduced = real.register(PENGUINS, target=TARGET, memory_rows=64)
    assert (reduced.memory_rows, reduced.memory_policy) == (64, "merge")
    assert reduced.row_count == len(PENGUINS)
    assert reduced.resident_bytes < penguins.resident_bytes / 4
    means = penguins.predict(HELD_OUT).means
    assert (reduced.predict(HELD_OUT).means != means).any()
    # As many keys as rows: another content, with the predictions of all rows.
    whole = real.register(PENGUINS, target=TARGET, memory_rows=len(PENGUINS))
    np.testing.assert_array_equal(whole.predict(HELD_OUT).means, means)
    assert len({penguins.digest, reduced.digest, whole.digest}) == 3
    with pytest.raises(chorale_client.InvalidArgumentError, match="63") as caught:
        real.register(PENGUINS, target=TARGET, memory_rows=63)
    assert caught.value.field == "spec.memory_row_count"
    for context in (reduced, whole):
        context.delete()


def test_rows_are_appended_and_encoded_anew(real: chorale_client.Client) -> None:
    first, more = PENGUINS[:300], PENGUINS[300:]
    context = real.register(first, target=TARGET, name="growing")
    before = context.predict(HELD_OUT).means
    estimate = context.append(more, validate_only=True).estimate
    assert estimate is not None
    assert estimate.device_bytes > 0
    appended = context.append(more)
    assert (appended.row_count, appended.already_appended) == (len(more), False)
    assert (context.row_count, context.appended_rows) == (len(PENGUINS), len(more))
    means = context.predict(HELD_OUT).means
    assert (means != before).any()
    again = context.append(more, first_row=300)
    assert (again.row_count, again.already_appended) == (len(more), True)
    with pytest.raises(chorale_client.RowCountMismatchError, match="301"):
        context.append(more, first_row=301)
    context.warm(encode_anew=True)
    assert context.appended_rows == 0
    whole = real.register(PENGUINS, target=TARGET, name="grown")
    assert context.digest == whole.digest
    anew = context.predict(HELD_OUT).means
    np.testing.assert_array_equal(anew, whole.predict(HELD_OUT).means)
    assert (anew != means).any()
    for each in (context, whole):
        each.delete()


def test_rows_do_not_go_to_another_table(real: chorale_client.Client) -> None:
    context = real.register(PENGUINS[:100], target=TARGET, name="swapped")
    other = real.register(PENGUINS[100:200], target=TARGET, name="swapped", replace=True)
    with pytest.raises(chorale_client.SourceChangedError, match=r"refresh\(\)"):
        context.append(PENGUINS[200:210])
    other.append(PENGUINS[200:210])
    # A repetition of that append is recognised, whatever content the object expects.
    assert context.append(PENGUINS[200:210]).already_appended
    assert context.digest == other.digest
    other.delete()


def test_lists_are_filtered_and_sorted(
    real: chorale_client.Client, penguins: chorale_client.Context
) -> None:
    for name, rows in (("list-a", 30), ("list-b", 20), ("list-c", 40)):
        real.register(PENGUINS[:rows], target=TARGET, name=name, labels={"of": name[-1]})
    listed = real.contexts(filter="name = contexts/list-*", order_by="row_count desc")
    assert [context.name for context in listed] == ["list-c", "list-a", "list-b"]
    [context] = real.contexts(filter='labels.of = "b" AND row_count < 30')
    assert context.features == real.context("list-b").features
    assert context.predict(HELD_OUT).means.shape == (6,)
    assert penguins.name not in [c.name for c in real.contexts(filter="labels.of:*")]
    with pytest.raises(chorale_client.InvalidArgumentError, match="at byte 0") as caught:
        real.contexts(filter="rows > 1")
    assert caught.value.field == "filter"
    for context in listed:
        context.delete()


def test_the_server_describes_itself(real: chorale_client.Client) -> None:
    info = real.server_info()
    assert info.version
    assert info.backend == "cpu"
    assert info.device
    assert "authentication" not in info.features
    assert "memory_sets" in info.features
    assert "append_rows" in info.features
    assert info.limits.max_message_bytes == 4 << 20
    assert info.limits.max_paths == 16384
    assert info.quotas.max_contexts == 0


def test_each_kind_of_table_is_the_same_context(
    real: chorale_client.Client, penguins: chorale_client.Context
) -> None:
    for data in (pl.from_pandas(PENGUINS), PENGUINS.to_dict("list"), PENGUINS.convert_dtypes()):
        assert real.register(data, target=TARGET).digest == penguins.digest
    features = PENGUINS.drop(columns=TARGET)
    apart = real.register(features, target=PENGUINS[TARGET], name="apart")
    assert apart.target == TARGET
    assert [f.name for f in apart.features] == list(features.columns)
    apart.delete()
    with pytest.raises(chorale_client.NotFoundError):
        real.context("apart")


def test_predictions_are_about_right(penguins: chorale_client.Context) -> None:
    result = penguins.predict(HELD_OUT, quantiles=[0.05, 0.5, 0.95], mixtures=True)
    frame = result.to_frame()
    assert frame.index.equals(HELD_OUT.index)
    assert (frame["q05"] < frame["q50"]).all()
    assert (frame["q50"] < frame["q95"]).all()
    assert abs(frame["mean"] - HELD_OUT[TARGET]).mean() < PENGUINS[TARGET].std()
    assert result.mixtures is not None
    assert (result.mixtures.weights * result.mixtures.means).sum(axis=1) == pytest.approx(
        result.means, rel=1e-4
    )
    assert result.source.context_digest == penguins.digest


def test_samples_and_streams_are_the_same_draws(penguins: chorale_client.Context) -> None:
    samples = penguins.sample(HELD_OUT, paths=40, seed=5)
    assert samples.values.shape == (40, 6)
    assert samples.seed == 5
    assert samples.timings.total > 0
    again = np.full((40, 6), np.nan)
    for block in penguins.stream(HELD_OUT, paths=40, seed=5):
        paths, steps = block.values.shape
        again[
            block.first_path : block.first_path + paths, block.first_step : block.first_step + steps
        ] = block.values
    assert np.array_equal(again, samples.values)
    other = penguins.sample(HELD_OUT, paths=40)
    assert not np.array_equal(other.values, samples.values)
    assert np.array_equal(penguins.sample(HELD_OUT, paths=40, seed=other.seed).values, other.values)


@pytest.mark.parametrize("groupby", [None, "species"])
def test_summaries_are_statistics_of_samples(
    penguins: chorale_client.Context, groupby: str | None
) -> None:
    species = ["Gentoo", "Adelie"] * 3
    rows = HELD_OUT.assign(species=species, body_mass_g=np.nan)
    rows.loc[rows.index[:2], "body_mass_g"] = [5000.0, 4000.0]
    options: dict[str, Any] = {"given": True, "groupby": groupby, "paths": 200, "seed": 5}
    samples = penguins.sample(rows, **options)
    over = functionals.count(above=4500.0)
    summary = penguins.summarize(
        rows,
        functionals={"sum": "sum", "best": "argmax", "over": over},
        quantiles=[0.1, 0.9],
        covariance=True,
        return_paths=3,
        estimator="values",
        **options,
    )
    drawn = samples.values[:, 2:]
    np.testing.assert_allclose(summary.means, drawn.mean(axis=0))
    np.testing.assert_allclose(summary.mean_errors, drawn.std(axis=0, ddof=1) / 200**0.5)
    np.testing.assert_allclose(summary.quantiles, samples.quantile([0.1, 0.9])[2:])
    assert summary.samples is not None
    np.testing.assert_array_equal(summary.samples.values, samples.values[:3])
    groups = [np.full(6, True)]
    if groupby is not None:
        groups = [rows["species"].to_numpy() == name for name in summary.groups or ()]
    covariance = samples.cov()
    assert summary.covariance is not None
    matrices = [summary.covariance] if groupby is None else summary.covariance
    for own, matrix in zip(groups, matrices, strict=True):
        unknown = np.flatnonzero(own & (np.arange(6) >= 2))
        np.testing.assert_allclose(matrix, covariance[np.ix_(unknown, unknown)])
    sums = np.stack([samples.sum(own) for own in groups], axis=1)
    counts = np.stack([(samples.values[:, own] > 4500).sum(axis=1) for own in groups], axis=1)
    found = summary.functionals
    np.testing.assert_allclose(np.atleast_1d(found["sum"].mean), sums.mean(axis=0))
    np.testing.assert_allclose(np.atleast_1d(found["sum"].std), sums.std(axis=0, ddof=1))
    np.testing.assert_allclose(np.atleast_1d(found["over"].mean), counts.mean(axis=0))
    best = np.empty(6)
    for own in groups:
        best[own] = samples.select(own).argmax_probabilities()
    np.testing.assert_allclose(found["best"].mean, best)
    np.testing.assert_allclose(
        np.asarray(summary.known_log_density), np.asarray(samples.known_log_density)
    )


def test_conditional_estimates_are_near_the_statistics_of_samples(
    penguins: chorale_client.Context,
) -> None:
    options: dict[str, Any] = {"functionals": ["sum"], "quantiles": [0.9], "snap": False, "seed": 5}
    values = penguins.summarize(HELD_OUT, paths=2000, estimator="values", **options)
    assert not values.conditional
    for sampling in ("independent", "sobol"):
        summary = penguins.summarize(HELD_OUT, paths=2000, sampling=sampling, **options)
        assert summary.conditional
        assert summary.functionals["sum"].conditional
        assert (summary.mean_errors < values.mean_errors).all()
        assert (np.abs(summary.means - values.means) < 6 * values.mean_errors).all()
        assert (np.abs(summary.quantiles - values.quantiles) < 6 * values.quantile_errors).all()
    counts = penguins.summarize(HELD_OUT, paths=200, snap=True)
    assert counts.conditional == (penguins.sample(HELD_OUT, paths=2).values % 1 != 0).any()


def test_log_densities_of_samples_are_those_that_came_with_them(
    penguins: chorale_client.Context,
) -> None:
    samples = penguins.sample(HELD_OUT, paths=3, seed=1, log_densities=True)
    assert samples.log_densities is not None
    result = penguins.log_density(HELD_OUT, samples.values, terms=True, cdfs=True)
    assert result.terms is not None
    assert result.cdfs is not None
    assert ((result.cdfs > 0) & (result.cdfs < 1)).all()
    ends = penguins.predict(HELD_OUT[:1], quantiles=[0.025, 0.5, 0.975], snap=False).quantiles
    first = penguins.log_density(HELD_OUT[:1], ends.T, cdfs=True)
    assert first.cdfs is not None
    assert first.cdfs[:, 0] == pytest.approx([0.025, 0.5, 0.975], abs=1e-3)
    assert result.terms == pytest.approx(samples.log_densities, abs=1e-3)
    assert result.terms.sum(axis=1) == pytest.approx(result.joint, abs=1e-3)
    by_orders = penguins.log_density(HELD_OUT, orders=5, seed=2)
    assert by_orders.standard_errors is not None
    assert (
        by_orders.joint.tolist() == penguins.log_density(HELD_OUT, orders=5, seed=2).joint.tolist()
    )
    shuffled = penguins.sample(HELD_OUT, paths=3, seed=1, order="random")
    assert np.isfinite(shuffled.values).all()


def test_errors_name_field_and_limit(
    real: chorale_client.Client, penguins: chorale_client.Context
) -> None:
    with pytest.raises(chorale_client.InvalidArgumentError) as caught:
        penguins.sample(HELD_OUT, paths=100_000)
    assert caught.value.field == "path_count"
    assert caught.value.limit == 16384
    with pytest.raises(chorale_client.InvalidArgumentError, match=r"\[a-z0-9\]"):
        real.register(PENGUINS, target=TARGET, name="My Penguins")
    with pytest.raises(chorale_client.AlreadyExistsError, match="another name"):
        real.register(PENGUINS[:9], target=TARGET, name=penguins.name)
    with pytest.raises(chorale_client.InvalidArgumentError) as caught:
        penguins.sample(pd.concat([HELD_OUT] * 11))
    assert caught.value.field == "rows"
    assert penguins.sample(pd.concat([HELD_OUT] * 11), paths=1, wrap=True).values.shape == (1, 66)


def test_warnings_of_rows(penguins: chorale_client.Context) -> None:
    rows = HELD_OUT.assign(species="Emperor")
    with pytest.warns(chorale_client.DataWarning, match="Emperor|species") as told:
        result = penguins.predict(rows)
    assert [warning.reason for warning in result.warnings] == ["UNKNOWN_CATEGORY"]
    assert result.warnings[0].cell_count == 6
    assert told[0].filename == __file__


def test_calls_hold_to_the_table_that_they_began_with(real: chorale_client.Client) -> None:
    first = real.register({"x": [1, 2, 3], "y": [1.0, 2.0, 3.0]}, target="y", name="moves")
    first.delete()
    second = real.register({"x": [1, 2, 3], "y": [5.0, 2.0, 3.0]}, target="y", name="moves")
    for call in (first.predict, first.sample):
        with pytest.raises(chorale_client.SourceChangedError, match=r"refresh\(\)"):
            call({"x": [2]})
    first.refresh()
    assert first.predict({"x": [2]}).means.tolist() == second.predict({"x": [2]}).means.tolist()


def test_a_context_is_validated_replaced_and_deleted(real: chorale_client.Client) -> None:
    first, second = PENGUINS[:100], PENGUINS[:120]
    validated = real.register(first, target=TARGET, name="changing", validate_only=True)
    assert validated.estimate is not None
    assert validated.estimate.device_bytes >= validated.resident_bytes
    with pytest.raises(chorale_client.NotFoundError):
        real.context("changing")
    context = real.register(
        first,
        target=TARGET,
        name="changing",
        description="Penguins",
        labels={"year": "2026"},
        expires=datetime.timedelta(hours=1),
    )
    assert (context.estimate, context.digest) == (None, validated.digest)
    assert (context.description, context.labels) == ("Penguins", {"year": "2026"})
    assert context.expires is not None
    assert 3500 < (context.expires - context.created).total_seconds() < 3601
    estimate = context.validate_sample(HELD_OUT, paths=100)
    assert estimate.device_bytes > 0
    context.refresh()
    assert context.last_used is None

    with pytest.raises(chorale_client.AlreadyExistsError):
        real.register(second, target=TARGET, name="changing")
    with pytest.raises(chorale_client.EtagMismatchError) as refused:
        real.register(second, target=TARGET, name="changing", replace=True, etag="old")
    assert refused.value.reason == "ETAG_MISMATCH"
    replaced = real.register(
        second, target=TARGET, name="changing", replace=True, etag=context.etag
    )
    assert (replaced.row_count, replaced.created) == (120, context.created)
    assert (replaced.description, replaced.labels, replaced.expires) == ("", {}, None)
    with pytest.raises(chorale_client.EtagMismatchError):
        replaced.delete(etag=context.etag)
    replaced.delete(etag=replaced.etag)
    with pytest.raises(chorale_client.NotFoundError):
        replaced.delete()
    replaced.delete(allow_missing=True)


def test_texts_of_a_file_are_the_table_and_the_rows_of_their_types(
    real: chorale_client.Client,
) -> None:
    rng = np.random.default_rng(0)
    typed = pd.DataFrame(
        {"day": pd.date_range("2024-01-01", periods=40), "sold": rng.random(40) < 0.5}
    )
    price = pd.Series(rng.normal(size=40), name="price")
    texts = pd.DataFrame(
        {"day": typed["day"].dt.strftime("%Y-%m-%d"), "sold": typed["sold"].map(str).str.upper()}
    )
    context = real.register(typed, target=price)
    assert [feature.meaning for feature in context.features] == ["date", "boolean"]
    expected = context.predict(typed).means
    assert np.array_equal(context.predict(texts).means, expected)
    same = real.register(texts, target=price)
    assert "READ_AS_DATES" in [warning.reason for warning in same.warnings]
    assert same.digest == context.digest
    assert np.array_equal(same.predict(typed).means, expected)
    context.delete()
    same.delete()
