"""Results of calls with known values of query rows, by a fake server."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pytest
from chorale_client import aio
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale, block, blocks, summary
from fake_known_values import (
    KNOWN,
    NAN,
    PRICED,
    ROWS,
    SOURCE,
    Invalid,
    predicted,
    sampled,
    weighed,
)

# ---- Predictions ---------------------------------------------------------------------------


def test_predictions_of_the_other_rows(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Predict"].append(predicted)
    result = context.predict(PRICED, given=True, quantiles=[0.25, 0.75], wrap=True)
    assert result.means.tolist() == [1450, 1470]
    assert result.quantiles.tolist() == [[1450.25, 1450.75], [1470.25, 1470.75]]
    assert result.index.tolist() == ["a", "c"]
    assert result.to_frame().index.tolist() == ["a", "c"]
    assert result.known_log_density == -1400
    [request] = fake.requests("Predict")
    assert request.beyond_buffer == pb.BEYOND_BUFFER_WRAP
    with pytest.raises(Invalid, match=r"given: the shape is \(1, 4\), must be \(4,\)"):
        context.predict(ROWS, given=[KNOWN])


# ---- Samples -------------------------------------------------------------------------------


def test_samples_have_the_known_values_in_their_places(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append(sampled())
    done: list[Any] = []
    samples = context.sample(
        PRICED, paths=2, given=True, log_densities=True, progress=lambda *now: done.append(now)
    )
    assert samples.values.tolist() == [[1450, 600, 1470, 800], [1450.01, 600, 1470.01, 800]]
    assert samples.sum().tolist() == [4320, 4320.02]
    assert samples.log_densities is not None
    assert np.isnan(samples.log_densities).tolist() == [[False, True, False, True]] * 2
    assert samples.log_densities[:, 0].tolist() == [-1450, -1450.01]
    assert samples.known_log_density == -1400
    assert samples.select(["a"]).known_log_density == -1400
    assert samples.independent().known_log_density is None
    assert done == [(4, 4)]


def test_paths_are_continued(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Sample"].extend([[*sampled()[:1], summary()], sampled()])
    first = context.sample(ROWS[:2], paths=3)
    start = np.full((3, 4), NAN)
    start[:, :2] = first.values
    more = context.sample(ROWS, paths=3, given=start)
    assert np.array_equal(more.values[:, :2], first.values)
    assert more.values[:, 2].tolist() == pytest.approx([180, 180.03, 180.06])
    assert isinstance(more.known_log_density, np.ndarray)
    assert more.known_log_density.tolist() == pytest.approx([-110, -110.02, -110.04])
    fake.answers["Sample"].append(sampled())
    again = context.sample(ROWS, paths=3, given=first.to_frame())
    assert np.array_equal(again.values, more.values)


def test_random_orders_draw_the_other_rows(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    end = summary(known_log_densities=[-5])
    fake.answers["Sample"].append(
        [blocks(block(0, 0, [[1.0, 2.0], [3.0, 4.0]], rows=[2, 0, 0, 2])), end]
    )
    samples = context.sample(PRICED, paths=2, given=True, order="random")
    assert samples.values.tolist() == [[2, 600, 1, 800], [3, 600, 4, 800]]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([blocks(block(0, 0, [[1.0]])), summary(known_log_densities=[0])], "1 of 2 values arrived"),
        (
            [blocks(block(0, 0, [[1.0, 2.0]])), summary(known_log_densities=[0, 0])],
            "sent 2 log-densities of known values instead of 1",
        ),
        ([blocks(*[block(0, 0, [[1.0]])] * 3)], "values arrived twice"),
    ],
)
def test_samples_that_are_not_whole(
    fake: FakeChorale, context: chorale_client.Context, messages: Any, message: str
) -> None:
    fake.answers["Sample"].append(messages)
    with pytest.raises(chorale_client.DataLossError, match=re.escape(message)):
        context.sample(PRICED, paths=1, given=True)


def test_blocks_have_the_other_rows(fake: FakeChorale, context: chorale_client.Context) -> None:
    end = summary(known_log_densities=[-5])
    fake.answers["Sample"].append(
        [blocks(block(0, 1, [[7.0], [8.0]]), block(0, 0, [[5.0], [6.0]])), end]
    )
    later, earlier = context.stream(PRICED, paths=2, given=True)
    assert later.rows is not None
    assert earlier.rows is not None
    assert later.rows.tolist() == [[2], [2]]
    assert earlier.rows.tolist() == [[0], [0]]
    assert later.values.tolist() == [[7], [8]]
    fake.answers["Sample"].append([blocks(block(0, 0, [[5.0, 6.0]], rows=[2, 0])), end])
    [only] = context.stream(PRICED, paths=1, given=True, order="random")
    assert only.rows is not None
    assert only.rows.tolist() == [[2, 0]]


def test_a_validated_sample_has_the_known_values(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append([summary(estimate=pb.Estimate(device_bytes=5))])
    assert context.validate_sample(PRICED, given=True).device_bytes == 5
    [request] = fake.requests("Sample")
    assert request.validate_only
    assert list(request.known.rows) == [1, 3]


# ---- Densities -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0],
        [1.0, NAN, 2.0, NAN],
        pd.Series([2.0, 1.0], index=["c", "a"]),
        pd.Series([9.0, 2.0, 1.0, 9.0], index=list("bcad")),
        pd.DataFrame([[2.0, 1.0]], columns=["c", "a"]),
        [pd.Series([2.0, 1.0], index=["c", "a"])],
        pl.DataFrame({"c": [2.0], "a": [1.0]}),
    ],
    ids=str,
)
def test_densities_of_the_other_rows(
    fake: FakeChorale, context: chorale_client.Context, values: Any
) -> None:
    fake.answers["LogDensity"].append(weighed)
    result = context.log_density(PRICED, values, given=True, terms=True)
    [request] = fake.requests("LogDensity")
    assert list(request.values) == [1, 2]
    assert list(request.known.values) == [600, 800]
    assert result.terms is not None
    assert result.terms.tolist() == [[-1401, -1402]]
    assert float(result) == -2803
    assert result.known_log_density == -1400
    assert result.index.tolist() == ["a", "c"]


def test_densities_of_the_target_column_given_some_of_its_values(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["LogDensity"].append(weighed)
    sold = ROWS.assign(price=[1.0, NAN, 2.0, 800.0])
    context.log_density(sold, given=pd.Series({"b": 600.0, "d": 800.0}))
    assert list(fake.requests("LogDensity")[0].values) == [1, 2]
    message = "missing cells in rows that are not known: pass the values of these rows"
    with pytest.raises(Invalid, match=message):
        context.log_density(PRICED, given=True)


def test_each_vector_has_its_known_values(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["LogDensity"].append(weighed)
    given = [KNOWN, [NAN, 1.0, NAN, 2.0]]
    result = context.log_density(ROWS, [[1.0, 2.0], [3.0, 4.0]], given=given)
    assert list(fake.requests("LogDensity")[0].known.values) == [600, 800, 1, 2]
    assert result.joint.tolist() == [-2803, -13]
    assert isinstance(result.known_log_density, np.ndarray)
    assert result.known_log_density.tolist() == [-1400, -3]
    with pytest.raises(Invalid, match="known values for 2 vectors, but there are 1"):
        context.log_density(ROWS, [1.0, 2.0], given=given)


def test_known_values_of_many_vectors_take_several_calls(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["LogDensity"].extend([weighed] * 4)
    rng = np.random.default_rng(0)
    values, known = rng.normal(size=(100_000, 2)), rng.normal(size=(100_000, 4))
    known[:, [0, 2]] = NAN
    result = context.log_density(ROWS, values, given=known)
    assert len(fake.requests("LogDensity")) == 2
    sums = known[:, 1] + known[:, 3]
    np.testing.assert_allclose(result.joint, -values.sum(axis=1) - 2 * sums)
    assert isinstance(result.known_log_density, np.ndarray)
    np.testing.assert_allclose(result.known_log_density, -sums)
    together = context.log_density(ROWS, values, given=KNOWN)
    assert together.known_log_density == -1400


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0, 3.0], "values: the shape is (3,), must be (2,) or (vectors, 2): a value for"),
        ([1.0, NAN], "values: nan in vector 0 at row 2"),
        ([NAN, 1.0, 2.0, 3.0], "values: nan in vector 0 at row 0"),
        ([[1.0, 2.0], [3.0]], "values: "),
        (pd.Series([1.0, 2.0], index=["a", "b"]), "values: its labels are not those of the rows"),
    ],
)
def test_values_that_cannot_be_weighed(
    context: chorale_client.Context, values: Any, message: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(message)):
        context.log_density(ROWS, values, given=KNOWN)


# ---- asyncio -------------------------------------------------------------------------------


def test_calls_of_the_asyncio_client(fake: FakeChorale) -> None:
    fake.context()
    fake.answers["Predict"].append(predicted)
    fake.answers["LogDensity"].append(weighed)
    validated = [summary(estimate=pb.Estimate(device_bytes=5))]
    fake.answers["Sample"].extend([sampled(), sampled(), validated])

    async def main() -> None:
        async with aio.connect(fake.address, connect_timeout=60) as client:
            context = await client.context("houses")
            predictions = await context.predict(PRICED, given=True, wrap=True)
            assert predictions.means.tolist() == [1450, 1470]
            samples = await context.sample(PRICED, given=True, paths=1)
            assert samples.values.tolist() == [[1450, 600, 1470, 800]]
            blocks = [block async for block in context.stream(PRICED, given=True, paths=1)]
            assert [block.rows.tolist() for block in blocks if block.rows is not None] == [
                [[0]],
                [[2]],
            ]
            densities = await context.log_density(PRICED, [1.0, 2.0], given=True)
            assert densities.known_log_density == -1400
            await context.validate_sample(PRICED, given=True)

    asyncio.run(main())
    requests = [call.request for call in fake.calls if call.method != "GetContext"]
    assert [list(request.known.rows) for request in requests] == [[1, 3]] * 5
    assert requests[0].beyond_buffer == pb.BEYOND_BUFFER_WRAP


# ---- Servers that are too old --------------------------------------------------------------


def test_servers_that_ignore_known_values(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    """They answer as if all rows had been asked for."""
    fake.answers["Predict"].append(
        pb.PredictResponse(means=[1, 2, 3, 4], stds=[1, 1, 1, 1], source=SOURCE)
    )
    fake.answers["LogDensity"].append(pb.LogDensityResponse(log_densities=[1], source=SOURCE))
    whole = blocks(block(0, 0, [[1.0, 2.0, 3.0, 4.0]]))
    fake.answers["Sample"].extend(
        [
            [whole, summary()],
            [blocks(block(0, 0, [[1.0, 2.0]])), blocks(block(0, 2, [[3.0, 4.0]])), summary()],
            [blocks(block(0, 0, [[1.0]], rows=[1])), summary()],
            [blocks(block(0, 0, [[1.0, 2.0]])), summary()],
        ]
    )
    fake.answers["Sample"].extend(list(fake.answers["Sample"]))
    calls: list[Any] = [
        lambda: context.predict(PRICED, given=True),
        lambda: context.log_density(PRICED, [1.0, 2.0], given=True),
    ]
    for order in ("given", "given", "random", "given"):
        calls.append(lambda order=order: context.sample(PRICED, paths=1, given=True, order=order))
    for order in ("given", "given", "random", "given"):
        calls.append(
            lambda order=order: list(context.stream(PRICED, paths=1, given=True, order=order))
        )
    for call in calls:
        with pytest.raises(chorale_client.UnimplementedError, match="given: the server does not"):
            call()
    assert not fake.answers["Sample"]
