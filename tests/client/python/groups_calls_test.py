"""Results of calls with groups of query rows, by a fake server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import pytest
from chorale_client import aio
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale, block, blocks, summary
from fake_groups import predicted_groups, sampled_groups, weighed_groups
from fake_known_values import areas, predicted, sampled, weighed
from grpc import StatusCode

NAN = float("nan")
Invalid = chorale_client.InvalidArgumentError
# The stores of the rows are mixed.
ROWS = pd.DataFrame(
    {
        "area": [50.0, 60.0, 70.0, 80.0, 90.0],
        "town": ["Kiel", "Bonn", "Kiel", "Ulm", "Bonn"],
        "store": ["y", "x", "y", "x", "y"],
    },
    index=list("abcde"),
)
PRICED = ROWS.assign(price=[NAN, 600.0, 700.0, NAN, NAN])
# Each of two paths or vectors has its own values.
SEPARATE = [[NAN, 1.0, 2.0, NAN, NAN], [NAN, 3.0, 4.0, NAN, NAN]]
STORES = ["y", "x"]  # in the order of their first rows


@pytest.fixture
def context(fake: FakeChorale, client: chorale_client.Client) -> chorale_client.Context:
    fake.context()
    return client.context("houses")


def of_store(frame: pd.DataFrame, store: str) -> pd.DataFrame:
    return frame[frame["store"] == store]


def positions(store: str) -> list[int]:
    return [row for row, own in enumerate(ROWS["store"]) if own == store]


# ---- A call with groups, and a call for each group -----------------------------------------


@pytest.mark.parametrize("given", ["none", "shared", "separate"])
def test_samples_are_those_of_a_call_for_each_group(
    fake: FakeChorale, context: chorale_client.Context, given: str
) -> None:
    rows = PRICED if given == "shared" else ROWS
    known: dict[str, Any] = {"none": None, "shared": True, "separate": np.array(SEPARATE)}
    fake.answers["Sample"].append(sampled_groups())
    together = context.sample(
        rows, groupby="store", paths=2, given=known[given], log_densities=True
    )
    assert together.groups == ("y", "x")
    assert together.index.tolist() == list("abcde")
    assert together.log_densities is not None
    for number, store in enumerate(STORES):
        own = known[given][:, positions(store)] if given == "separate" else known[given]
        fake.answers["Sample"].append(sampled())
        alone = context.sample(of_store(rows, store), paths=2, given=own, log_densities=True)
        assert alone.groups is None
        at = positions(store)
        assert np.array_equal(together.values[:, at], alone.values)
        assert alone.log_densities is not None
        assert np.array_equal(together.log_densities[:, at], alone.log_densities, equal_nan=True)
        if given == "none":
            assert together.known_log_density is None
        else:
            assert isinstance(together.known_log_density, np.ndarray)
            own_density = np.asarray(alone.known_log_density, dtype=np.float64)
            assert np.array_equal(together.known_log_density[..., number], own_density)
    [request, *_] = fake.requests("Sample")
    assert list(request.group_sizes) == [3, 2]
    assert areas(request) == [50, 70, 90, 60, 80]
    assert [column.name for column in request.rows.columns] == ["area", "town"]
    assert list(request.known.rows) == ([] if given == "none" else [1, 3])


@pytest.mark.parametrize(
    ("given", "vectors"),  # 0: a vector of its own
    [("none", 0), ("none", 1), ("none", 2), ("shared", 0), ("shared", 2), ("separate", 2)],
)
def test_densities_are_those_of_a_call_for_each_group(
    fake: FakeChorale, context: chorale_client.Context, given: str, vectors: int
) -> None:
    rows = PRICED if given == "shared" else ROWS
    known: dict[str, Any] = {"none": None, "shared": True, "separate": np.array(SEPARATE)}
    values = np.arange(5.0) if vectors == 0 else np.arange(5.0 * vectors).reshape(vectors, 5)
    fake.answers["LogDensity"].append(weighed_groups)
    together = context.log_density(rows, values, groupby="store", given=known[given], terms=True)
    assert together.groups == ("y", "x")
    assert together.joint.shape == ((2,) if vectors == 0 else (vectors, 2))
    assert together.terms is not None
    others = list("abcde") if given == "none" else list("ade")
    assert together.index.tolist() == others
    for number, store in enumerate(STORES):
        at = positions(store)
        own = known[given][:, at] if given == "separate" else known[given]
        fake.answers["LogDensity"].append(weighed)
        alone = context.log_density(of_store(rows, store), values[..., at], given=own, terms=True)
        assert np.array_equal(np.atleast_2d(together.joint)[:, number], alone.joint)
        of_alone = np.isin(others, alone.index)
        assert alone.terms is not None
        assert np.array_equal(together.terms[:, of_alone], alone.terms)
        if given != "none":
            assert isinstance(together.known_log_density, np.ndarray)
            own_density = np.asarray(alone.known_log_density, dtype=np.float64)
            assert np.array_equal(together.known_log_density[..., number], own_density)
    request = fake.requests("LogDensity")[0]
    assert list(request.group_sizes) == [3, 2]
    assert areas(request) == [50, 70, 90, 60, 80]


def test_predictions_are_those_of_a_call_for_each_group(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"].append(predicted_groups)
    together = context.predict(PRICED, groupby="store", given=True, quantiles=[0.25, 0.75])
    assert together.groups == ("y", "x")
    assert together.index.tolist() == list("ade")
    assert isinstance(together.known_log_density, np.ndarray)
    for number, store in enumerate(STORES):
        fake.answers["Predict"].append(predicted)
        alone = context.predict(of_store(PRICED, store), given=True, quantiles=[0.25, 0.75])
        at = np.isin(together.index, alone.index)
        assert np.array_equal(together.means[at], alone.means)
        assert np.array_equal(together.quantiles[at], alone.quantiles)
        assert together.known_log_density[number] == alone.known_log_density
    assert list(fake.requests("Predict")[0].group_sizes) == [3, 2]


# ---- Predictions in several requests -------------------------------------------------------


def test_groups_have_no_effect_on_predictions_without_known_values(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"].append(predicted)
    result = context.predict(ROWS, groupby="store")
    assert result.means.tolist() == [50, 60, 70, 80, 90]
    assert result.groups == ("y", "x")
    assert result.known_log_density is None
    [request] = fake.requests("Predict")
    assert not request.group_sizes
    assert areas(request) == [50, 60, 70, 80, 90]


def test_requests_have_whole_groups(fake: FakeChorale, context: chorale_client.Context) -> None:
    """Of 100 groups of 30 rows, 34 fit into a request."""
    count = 3000
    frame = pd.DataFrame({"area": np.arange(count) / 8, "town": "Kiel"})
    labels = np.arange(count) % 100
    given = np.full(count, NAN)
    given[200:300] = np.arange(100)  # the third row of each group
    given[labels == 1] = NAN  # one has no known values
    fake.answers["Predict"].extend([predicted_groups] * 3)
    result = context.predict(frame, groupby=labels, given=given)
    requests = fake.requests("Predict")
    assert [list(request.group_sizes) for request in requests] == [[30] * 34, [30] * 34, [30] * 32]
    others = np.flatnonzero(np.isnan(given))
    shifts = np.where(labels == 1, 0.0, labels)[others]
    assert np.array_equal(result.means, others / 8 + shifts)
    assert np.array_equal(result.index, others)
    assert isinstance(result.known_log_density, np.ndarray)
    assert result.known_log_density.tolist() == [0, 0, *range(-2, -100, -1)]


def test_parts_of_a_large_group_have_its_known_rows(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    sizes = {"a": 10, "b": 1500, "c": 20, "d": 5}
    labels = np.repeat(list(sizes), list(sizes.values()))
    frame = pd.DataFrame({"area": np.arange(len(labels)) / 8, "town": "Kiel", "store": labels})
    given = np.full(len(labels), NAN)
    given[[3, 700, 1509]] = [1.0, 20.0, 300.0]  # of "a" and "b"
    fake.answers["Predict"].extend([predicted_groups] * 4)
    result = context.predict(frame, groupby="store", given=given)
    requests = fake.requests("Predict")
    assert [len(areas(request)) for request in requests] == [10, 1024, 1500 - 1022, 25]
    assert [list(request.group_sizes) for request in requests] == [[10], [1024], [478], []]
    assert [list(request.known.values) for request in requests] == [[1], [20, 300], [20, 300], []]
    others = np.flatnonzero(np.isnan(given))
    shift = {"a": 1.0, "b": 320.0, "c": 0.0, "d": 0.0}
    assert np.array_equal(result.means, others / 8 + [shift[store] for store in labels[others]])
    assert isinstance(result.known_log_density, np.ndarray)
    assert result.known_log_density.tolist() == [-1, -320, 0, 0]


def test_local_rows_are_not_possible(fake: FakeChorale, context: chorale_client.Context) -> None:
    calls: list[Callable[[], object]] = [
        lambda: context.predict(PRICED, groupby="store", given=True, local_rows=96),
        lambda: context.sample(ROWS, groupby="store", local_rows=96),
        lambda: context.log_density(ROWS, np.ones(5), groupby="store", local_rows=96),
    ]
    for call in calls:
        with pytest.raises(Invalid, match="local_rows: not possible with groupby, because"):
            call()
    assert not fake.requests("Predict")


# ---- Other results -------------------------------------------------------------------------


def test_groups_are_labels_of_a_series(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["LogDensity"].extend([weighed_groups] * 2)
    sold = ROWS.assign(price=[1.0, 2.0, 3.0, 4.0, 5.0])
    result = context.log_density(sold, groupby="store", orders=4)
    series = pd.Series(result.joint, index=result.groups)
    assert series.to_dict() == {"y": -9, "x": -6}
    assert result.standard_errors is not None
    assert result.standard_errors.tolist() == pytest.approx([-0.9, -0.6])
    assert repr(result) == "<LogDensities of 'price': 2 of 2 groups>"
    both = context.log_density(sold, groupby=["store", "town"])
    assert both.groups == (("y", "Kiel"), ("x", "Bonn"), ("x", "Ulm"), ("y", "Bonn"))
    assert pd.Series(both.joint, index=both.groups)[("x", "Bonn")] == -2


def test_sums_of_a_group(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Sample"].append(sampled_groups())
    done: list[Any] = []
    samples = context.sample(
        PRICED, groupby="store", given=True, paths=1, progress=lambda *now: done.append(now)
    )
    assert samples.values.tolist() == [[750, 600, 700, 680, 790]]
    assert samples.sum(ROWS["store"] == "y").tolist() == [750 + 700 + 790]
    assert samples.select(["a", "b"]).groups == ("y", "x")
    assert done == [(3, 3)]


def test_orders_are_random(fake: FakeChorale, context: chorale_client.Context) -> None:
    drawn = block(0, 0, [[1.0, 2.0], [3.0, 4.0]], rows=[4, 3, 2, 0], paths=[0, 0])
    rest = block(0, 2, [[5.0]], rows=[1], paths=[0])
    fake.answers["Sample"].append([blocks(drawn, rest), summary()])
    samples = context.sample(ROWS, groupby="store", paths=1, order="random")
    assert samples.values.tolist() == [[4, 2, 5, 1, 3]]


def test_blocks_have_paths_and_rows_of_the_table(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append(sampled_groups())
    streamed = list(context.stream(PRICED, groupby="store", given=True, paths=2))
    assert [b.first_step for b in streamed] == [0, 1]
    first, second = streamed
    assert first.rows is not None
    assert first.paths is not None
    assert second.rows is not None
    assert second.paths is not None
    assert first.rows.tolist() == [[0], [0], [3], [3]]
    assert first.paths.tolist() == [0, 1, 0, 1]
    assert first.values.ravel().tolist() == [750, 750.01, 680, 680.01]
    assert second.rows.tolist() == [[4], [4]]
    assert second.paths.tolist() == [0, 1]
    fake.answers["Sample"].append(sampled())
    assert all(b.paths is None for b in context.stream(ROWS, paths=1))


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([blocks(block(0, 0, [[1.0]], paths=[0]))], "a block lacks row indices"),
        ([blocks(block(0, 0, [[1.0]], paths=[0], rows=[5]))], "a value of a row that is not in"),
        ([blocks(block(0, 0, [[1.0]], paths=[0], rows=[-1]))], "a value of a row that is not in"),
        ([blocks(block(0, 0, [[1.0]], paths=[1], rows=[0]))], "a value of a path that is not in"),
        ([blocks(block(0, 0, [[1.0]], paths=[-1], rows=[0]))], "a value of a path that is not in"),
        ([blocks(block(0, 0, [[1.0]], paths=[0], rows=[0])), summary()], "1 of 5 values arrived"),
        ([blocks(block(0, 0, [[1.0]] * 3, paths=[0] * 3, rows=[0] * 3))], "a block of paths 0 +3"),
    ],
)
def test_samples_that_are_not_whole(
    fake: FakeChorale, context: chorale_client.Context, messages: Any, message: str
) -> None:
    fake.answers["Sample"].append(messages)
    with pytest.raises(chorale_client.DataLossError, match=re.escape(message)):
        context.sample(ROWS, groupby="store", paths=1)


def test_paths_that_were_not_requested(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Sample"].append([blocks(block(0, 0, [[1.0]], paths=[0]))])
    with pytest.raises(chorale_client.DataLossError, match="indices of paths"):
        context.sample(ROWS, paths=1)
    fake.answers["Sample"].append([blocks(block(0, 0, [[1.0]], paths=[0, 1], rows=[0]))])
    with pytest.raises(chorale_client.ChoraleError):
        context.sample(ROWS, groupby="store", paths=1)


def test_errors_name_the_rows_of_the_table(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    """The requests have the rows 0, 2, 4, 1, 3."""
    field = 'rows.columns["town"].strings.values[1]'
    failure = Failure(StatusCode.INVALID_ARGUMENT, "no", fields=((field, "is bad"),))
    fake.answers["Sample"].extend([[failure]] * 2)
    fake.answers["LogDensity"].append(failure)
    fake.answers["Predict"].append(failure)
    calls: list[Any] = [
        lambda: context.sample(ROWS, groupby="store"),
        lambda: list(context.stream(ROWS, groupby="store")),
        lambda: context.log_density(ROWS, np.ones(5), groupby="store"),
        lambda: context.predict(PRICED, groupby="store", given=True),
    ]
    for call in calls:
        with pytest.raises(Invalid, match=r"strings\.values\[2\]: is bad"):
            call()


# ---- asyncio -------------------------------------------------------------------------------


def test_calls_of_the_asyncio_client(fake: FakeChorale) -> None:
    fake.context()
    fake.answers["Predict"].append(predicted_groups)
    fake.answers["LogDensity"].append(weighed_groups)
    validated = [summary(estimate=pb.Estimate(device_bytes=5))]
    field = 'rows.columns["town"].strings.values[1]'
    failure = Failure(StatusCode.INVALID_ARGUMENT, "no", fields=((field, "is bad"),))
    fake.answers["Sample"].extend([sampled_groups(), sampled_groups(), validated, [failure]])

    async def main() -> None:
        async with aio.connect(fake.address, connect_timeout=60) as client:
            context = await client.context("houses")
            predictions = await context.predict(PRICED, groupby="store", given=True)
            assert predictions.means.tolist() == [750, 680, 790]
            samples = await context.sample(PRICED, groupby="store", given=True, paths=1)
            assert samples.values.tolist() == [[750, 600, 700, 680, 790]]
            stream = context.stream(PRICED, groupby="store", given=True, paths=1)
            streamed = [block async for block in stream]
            assert [b.rows.tolist() for b in streamed if b.rows is not None] == [[[0], [3]], [[4]]]
            densities = await context.log_density(
                PRICED, [1.0, 2.0, 3.0], groupby="store", given=True
            )
            assert densities.joint.tolist() == [-1 - 3 - 2 * 700, -2 - 600]
            await context.validate_sample(PRICED, groupby="store", given=True)
            with pytest.raises(Invalid, match=r"strings\.values\[2\]: is bad"):
                await context.sample(PRICED, groupby="store", given=True)

    asyncio.run(main())
    requests = [call.request for call in fake.calls if call.method != "GetContext"]
    assert [list(request.group_sizes) for request in requests] == [[3, 2]] * 6


# ---- Servers that are too old --------------------------------------------------------------


def test_servers_that_ignore_groups(fake: FakeChorale, context: chorale_client.Context) -> None:
    """They answer as if all rows belonged together."""
    fake.answers["Predict"].append(predicted)
    fake.answers["LogDensity"].extend([weighed] * 3)
    fake.answers["Sample"].extend([sampled(), sampled(), sampled(), sampled()])
    calls: list[Any] = [
        lambda: context.predict(PRICED, groupby="store", given=True),
        lambda: context.log_density(ROWS, np.ones(5), groupby="store"),
        lambda: context.log_density(ROWS, np.ones((2, 5)), groupby="store"),
        lambda: context.log_density(PRICED, np.ones(3), groupby="store", given=True),
        lambda: context.sample(ROWS, groupby="store", paths=2),
        lambda: context.sample(PRICED, groupby="store", paths=2, given=True),
        lambda: list(context.stream(ROWS, groupby="store", paths=2)),
        lambda: list(context.stream(PRICED, groupby="store", paths=2, given=True)),
    ]
    for call in calls:
        with pytest.raises(
            chorale_client.UnimplementedError, match="groupby: the server does not support groups"
        ):
            call()
    assert not fake.answers["Sample"]
