"""What the calls about a context send and make of the answers, by a fake server."""

from __future__ import annotations

import re
from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale, block, blocks, summary
from google.protobuf.empty_pb2 import Empty

ROWS = {"town": ["Kiel", "Bonn"], "area": [50, 60], "other": [object(), 1]}


@pytest.fixture
def context(fake: FakeChorale, client: chorale_client.Client) -> chorale_client.Context:
    fake.context(
        state=pb.Context.STATE_RESIDENT, resident_bytes=9, dataset_bytes=8, clipped_target_count=1
    )
    return client.context("houses")


def test_descriptions(context: chorale_client.Context) -> None:
    assert (context.name, context.digest, context.model) == ("houses", "d1", "default")
    assert (context.target, context.row_count, context.state) == (
        "price",
        3,
        "resident",
    )
    assert (context.resident_bytes, context.dataset_bytes) == (9, 8)
    assert context.clipped_target_count == 1
    assert context.warnings == ()
    assert context.created.year == 1970
    assert [(f.name, f.kind, f.categories) for f in context.features] == [
        ("area", "numeric", 0),
        ("town", "categorical", 2),
    ]
    assert repr(context) == (
        "<Context 'houses': 3 rows, 2 features, target 'price', model 'default', resident>"
    )


def test_warm_refresh_and_delete(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["WarmContext"].append(pb.Context(name="contexts/houses", digest="d2"))
    fake.answers["GetContext"].append(pb.Context(name="contexts/houses", digest="d3"))
    fake.answers["DeleteContext"].append(Empty())
    context.warm()
    assert context.digest == "d2"
    context.refresh()
    assert context.digest == "d3"
    context.delete()
    assert [request.name for request in fake.requests("DeleteContext")] == ["contexts/houses"]
    assert all(call.metadata["chorale-context"] == "houses" for call in fake.calls)


def predictions(rows: int, first: float, **more: Any) -> pb.PredictResponse:
    values = first + np.arange(rows)
    return pb.PredictResponse(
        means=values,
        stds=values / 100,
        quantiles=np.stack([values - 1, values + 1], axis=1).ravel(),
        source=pb.Source(context_digest="d1", model_digest="m1"),
        **more,
    )


def test_predict_asks_about_many_rows_in_several_calls_of_one_source(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    warning = pb.Warning(
        reason=pb.Warning.REASON_OUTLIERS,
        column="area",
        cell_count=2,
        message="2 cells are far out",
    )
    fake.answers["Predict"].extend(
        [
            predictions(1024, 0, warnings=[warning]),
            predictions(1024, 1024),
            predictions(2, 2048, warnings=[warning]),
        ]
    )
    frame = pd.DataFrame({"area": np.arange(2050.0), "town": "Kiel"}).iloc[::-1]
    with pytest.warns(chorale_client.DataWarning, match="4 cells in all rows together"):
        result = context.predict(frame, quantiles=[0.1, 0.9])
    requests = fake.requests("Predict")
    assert [len(r.rows.columns[0].numeric.values) for r in requests] == [
        1024,
        1024,
        2,
    ]
    assert [column.name for column in requests[0].rows.columns] == ["area", "town"]
    assert [r.expected_source.model_digest for r in requests] == ["", "m1", "m1"]
    assert {r.expected_source.context_digest for r in requests} == {"d1"}
    assert np.array_equal(result.means, np.arange(2050.0))
    assert np.array_equal(result.quantiles[:, 1], np.arange(2050.0) + 1)
    assert result.source == chorale_client.Source("d1", "m1")
    assert result.index.tolist() == list(range(2049, -1, -1))
    assert [w.cell_count for w in result.warnings] == [4]


def test_values_are_snapped_unless_the_caller_says_no(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    snapped = pb.Warning(
        reason=pb.Warning.REASON_SNAPPED,
        column="price",
        message="whole numbers",
        severity=pb.Warning.SEVERITY_INFO,
    )
    wrong = pb.Warning(
        reason=pb.Warning.REASON_CLIPPED_TARGET, column="price", cell_count=2, message="2 far"
    )
    fake.answers["Predict"].extend(
        predictions(rows, first, warnings=[snapped, wrong])
        for rows, first in [(1024, 0), (2, 1024)]
    )
    frame = pd.DataFrame({"area": np.arange(1026.0), "town": "Kiel"})
    with pytest.warns(chorale_client.DataWarning, match=r"^2 far \[CLIPPED_TARGET\]$"):
        result = context.predict(frame, quantiles=[0.1, 0.9])
    # These are of the context, whatever was asked.
    assert [(w.reason, w.cell_count, w.severity) for w in result.warnings] == [
        ("SNAPPED", 0, "info"),
        ("CLIPPED_TARGET", 2, "warning"),
    ]
    fake.answers["Predict"].append(predictions(2, 0))
    context.predict(ROWS, quantiles=[0.1, 0.9], snap=False)
    assert [request.snapping for request in fake.requests("Predict")] == [
        pb.SNAPPING_UNSPECIFIED,
        pb.SNAPPING_UNSPECIFIED,
        pb.SNAPPING_OFF,
    ]


def test_local_rows_belong_to_calls_of_few_rows(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"].extend(
        predictions(rows, first) for rows, first in [(2, 0), (2, 2), (1, 4)]
    )
    frame = pd.DataFrame({"area": np.arange(5.0), "town": "Kiel"})
    result = context.predict(frame, quantiles=[0.1, 0.9], local_rows=80)
    assert result.means.tolist() == [0, 1, 2, 3, 4]
    assert [request.local_row_count for request in fake.requests("Predict")] == [80, 80, 80]
    fake.answers["LogDensity"].append(pb.LogDensityResponse(log_densities=[1]))
    context.log_density(ROWS, [1, 2], local_rows=7)
    assert fake.requests("LogDensity")[0].local_row_count == 7
    with pytest.raises(chorale_client.InvalidArgumentError, match="local_rows: 0, must be"):
        context.predict(ROWS, local_rows=0)


def test_mixtures(fake: FakeChorale, context: chorale_client.Context) -> None:
    mixtures = pb.Mixtures(
        component_count=2,
        means=[1, 2, 3, 4],
        stds=[1, 1, 1, 1],
        weights=[0.5, 0.5, 0.25, 0.75],
    )
    fake.answers["Predict"].append(pb.PredictResponse(means=[1, 2], stds=[1, 2], mixtures=mixtures))
    result = context.predict(ROWS, mixtures=True)
    assert fake.requests("Predict")[0].include_mixtures
    assert result.mixtures is not None
    assert result.mixtures.weights.tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert result.quantiles.shape == (2, 0)


def test_answers_that_are_not_whole(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Predict"].append(pb.PredictResponse(means=[1]))
    with pytest.raises(chorale_client.DataLossError, match="sent 1 means instead of 2"):
        context.predict(ROWS)
    fake.answers["LogDensity"].append(pb.LogDensityResponse())
    with pytest.raises(chorale_client.DataLossError, match="0 log-densities instead of 1"):
        context.log_density(ROWS, [1, 2])


def test_rows_without_rows_or_columns(context: chorale_client.Context) -> None:
    with pytest.raises(chorale_client.InvalidArgumentError, match="rows: there are none"):
        context.predict({"area": [], "town": []})
    with pytest.raises(
        chorale_client.InvalidArgumentError, match="column 'town' is missing"
    ) as caught:
        context.sample({"area": [1]})
    assert caught.value.field == "town"


def test_an_array_has_the_features_in_their_order(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"].append(pb.PredictResponse(means=[1], stds=[1]))
    context.predict(np.array([[50.0, "Kiel"]], dtype=object))
    area, town = fake.requests("Predict")[0].rows.columns
    assert list(area.numeric.values) == [50.0]
    assert list(town.categorical.categories) == ["Kiel"]


# ---- Samples -------------------------------------------------------------------------------


def test_samples_are_put_together_from_blocks_in_any_order(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    values = np.arange(10.0).reshape(5, 2)
    fake.answers["Sample"].append(
        [
            blocks(block(2, 0, values[2:, :1], log_densities=-values[2:, 0])),
            blocks(
                block(0, 0, values[:2], log_densities=-values[:2].ravel()),
                block(2, 1, values[2:, 1:], log_densities=-values[2:, 1]),
            ),
            summary(2**63),
        ]
    )
    done: list[tuple[int, int]] = []
    samples = context.sample(
        ROWS,
        paths=5,
        seed=3,
        log_densities=True,
        wrap=True,
        progress=lambda now, total: done.append((now, total)),
    )
    [request] = fake.requests("Sample")
    assert (request.path_count, request.seed, request.beyond_buffer) == (
        5,
        3,
        pb.BEYOND_BUFFER_WRAP,
    )
    assert request.include_log_densities
    assert np.array_equal(samples.values, values)
    assert samples.log_densities is not None
    assert np.array_equal(samples.log_densities, -values)
    assert np.array_equal(samples.select([1]).log_densities, -values[:, 1:])  # type: ignore[arg-type]
    assert samples.seed == 2**63
    assert samples.source == chorale_client.Source("d1", "m1")
    assert done == [(3, 10), (10, 10)]


def test_random_orders_come_back_in_the_order_of_the_rows(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append(
        [
            blocks(block(0, 0, [[2.0, 1.0], [3.0, 4.0]], rows=[1, 0, 0, 1])),
            summary(),
        ]
    )
    samples = context.sample(ROWS, paths=2, order="random")
    assert samples.values.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("messages", "order", "message"),
    [
        ([summary()], "given", "0 of 2 values"),
        ([blocks(block(0, 0, [[1.0, 2.0]]))], "given", "summary is missing"),
        ([blocks(block(0, 0, [[1.0]])), summary()], "given", "1 of 2 values"),
        ([blocks(*[block(0, 0, [[1.0]])] * 2), summary()], "given", "but some arrived twice"),
        ([blocks(*[block(0, 0, [[1.0]])] * 3)], "given", "values arrived twice"),
        ([blocks(block(1, 0, [[1.0]]))], "given", "a block of paths 1 "),
        ([blocks(block(0, 1, [[1.0, 2.0]]))], "given", "steps 1 "),
        ([blocks(block(0, 0, [[1.0]], rows=[0]))], "given", "row indices"),
        ([blocks(block(0, 0, [[1.0]]))], "random", "row indices"),
        ([blocks(block(0, 0, [[1.0]], rows=[2]))], "random", "not in the request"),
        (
            [blocks(block(0, 0, [[1.0, 2.0]], rows=[1, 1])), summary()],
            "random",
            "but some arrived twice",
        ),
        (
            [blocks(block(0, 0, [[1.0]], log_densities=[1.0]))],
            "given",
            "has log-densities",
        ),
    ],
)
def test_samples_that_are_not_whole(
    fake: FakeChorale, context: chorale_client.Context, messages: Any, order: Any, message: str
) -> None:
    fake.answers["Sample"].append(messages)
    with pytest.raises(chorale_client.DataLossError, match=re.escape(message)):
        context.sample(ROWS, paths=1, order=order)


def test_streams(fake: FakeChorale, context: chorale_client.Context) -> None:
    warning = pb.Warning(
        reason=pb.Warning.REASON_UNKNOWN_CATEGORY,
        column="town",
        cell_count=1,
        message="unknown town",
    )
    fake.answers["Sample"].append(
        [
            blocks(
                block(1, 0, [[1.0, 2.0]], rows=[1, 0]),
                block(0, 0, [[3.0]], rows=[0]),
            ),
            summary(warnings=[warning]),
        ]
    )
    with pytest.warns(chorale_client.DataWarning, match="unknown town") as told:
        first, second = context.stream(ROWS, paths=2, order="random")
    assert told[0].filename == __file__
    assert (first.first_path, first.first_step) == (1, 0)
    assert first.rows is not None
    assert first.rows.tolist() == [[1, 0]]
    assert first.log_densities is None
    assert second.values.tolist() == [[3.0]]


def test_a_block_of_densities_and_random_orders(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append(
        [
            blocks(block(0, 0, [[2.0, 1.0]], rows=[1, 0], log_densities=[-2.0, -1.0])),
            summary(),
        ]
    )
    samples = context.sample(ROWS, paths=1, order="random", log_densities=True)
    assert samples.log_densities is not None
    assert samples.log_densities.tolist() == [[-1, -2]]
