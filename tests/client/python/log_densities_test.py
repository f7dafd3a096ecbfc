"""What calls of log_density send and make of the answers, by a fake server."""

from __future__ import annotations

import re
from typing import Any

import chorale_client
import numpy as np
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale

ROWS = {"town": ["Kiel", "Bonn"], "area": [50, 60], "other": [object(), 1]}


def test_log_densities_of_vectors(fake: FakeChorale, context: chorale_client.Context) -> None:
    source = pb.Source(context_digest="d1", model_digest="m1")
    fake.answers["LogDensity"].append(
        pb.LogDensityResponse(log_densities=[-3, -7], terms=[-1, -2, -3, -4], source=source)
    )
    result = context.log_density(ROWS, [[1, 2], [3, 4]], terms=True)
    [request] = fake.requests("LogDensity")
    assert list(request.values) == [1, 2, 3, 4]
    assert result.joint.tolist() == [-3, -7]
    assert result.terms is not None
    assert result.terms.tolist() == [[-1, -2], [-3, -4]]
    assert result.standard_errors is None
    assert result.seed is None
    assert len(result) == 2
    assert repr(result) == "<LogDensities of 'price': 2 vectors of 2 rows>"


def test_cumulative_probabilities_of_values(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["LogDensity"].append(
        pb.LogDensityResponse(log_densities=[-3, -7], cdfs=[0.1, 0.2, 0.3, 0.4])
    )
    result = context.log_density(ROWS, [[1, 2], [3, 4]], cdfs=True)
    [request] = fake.requests("LogDensity")
    assert (request.include_cdfs, request.include_terms) == (True, False)
    assert result.cdfs is not None
    assert result.cdfs.tolist() == [[0.1, 0.2], [0.3, 0.4]]
    assert result.terms is None
    fake.answers["LogDensity"].append(pb.LogDensityResponse(log_densities=[-3], cdfs=[0.1]))
    with pytest.raises(chorale_client.DataLossError, match="1 cumulative probabilities"):
        context.log_density(ROWS, [1, 2], cdfs=True)


def test_terms_and_cdfs_of_many_vectors_fit_into_responses(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    def answer(request: pb.LogDensityRequest) -> pb.LogDensityResponse:
        response = pb.LogDensityResponse(
            log_densities=[0.0] * (len(request.values) // 2),
            terms=request.values,
            cdfs=request.values,
            source=pb.Source(context_digest="d1", model_digest="m1"),
        )
        assert response.ByteSize() < (4 << 20) - (16 << 10)
        return response

    fake.answers["LogDensity"].extend([answer] * 3)
    values = np.arange(300_000.0).reshape(-1, 2)
    result = context.log_density(ROWS, values, terms=True, cdfs=True)
    assert len(fake.requests("LogDensity")) == 3
    assert result.cdfs is not None
    assert np.array_equal(result.cdfs, values)


def test_log_densities_over_random_orders(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["LogDensity"].append(
        pb.LogDensityResponse(log_densities=[-3], standard_errors=[0.5], seed=11)
    )
    result = context.log_density({**ROWS, "price": [1.0, 2.0]}, orders=4, seed=11)
    [request] = fake.requests("LogDensity")
    assert (request.random_order_count, request.seed) == (4, 11)
    assert list(request.values) == [1, 2]  # the target's column of the rows
    assert float(result) == -3
    assert result.standard_errors is not None
    assert result.standard_errors.tolist() == [0.5]
    assert result.seed == 11
    assert list(result.index) == [0, 1]


def test_log_densities_of_many_vectors_take_several_calls_of_one_source_and_seed(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    def answer(request: pb.LogDensityRequest) -> pb.LogDensityResponse:
        sums = np.array(request.values).reshape(-1, 2).sum(axis=1)
        return pb.LogDensityResponse(
            log_densities=sums,
            seed=5,
            source=pb.Source(context_digest="d1", model_digest="m1"),
        )

    fake.answers["LogDensity"].extend([answer] * 3)
    values = np.random.default_rng(0).normal(size=(300_000, 2))
    result = context.log_density(ROWS, values, orders=1)
    requests = fake.requests("LogDensity")
    assert len(requests) == 3
    assert all(request.ByteSize() < 4 << 20 for request in requests)
    assert [request.seed for request in requests] == [0, 5, 5]
    assert [request.expected_source.model_digest for request in requests] == [
        "",
        "m1",
        "m1",
    ]
    assert np.array_equal(result.joint, values.sum(axis=1))


@pytest.mark.parametrize(
    ("values", "more", "message"),
    [
        ([1, 2, 3], {}, "must be (2,) or (vectors, 2)"),
        ([], {}, "must be (2,)"),
        ([1, None], {}, "nan in vector 0 at row 1"),
        ([[1, 2], [float("inf"), 2]], {}, "inf in vector 1 at row 0"),
        (["a", "b"], {}, "values: could not convert"),
        ([1, 2], {"terms": True, "orders": 2}, "terms: not available with random orders"),
        ([1, 2], {"cdfs": True, "orders": 2}, "cdfs: not available with random orders"),
        ([1, 2], {"orders": -1}, "orders: -1"),
        (None, {}, "the rows have no column 'price'"),
    ],
)
def test_values_that_cannot_be_weighed(
    context: chorale_client.Context, values: Any, more: Any, message: str
) -> None:
    with pytest.raises(chorale_client.InvalidArgumentError, match=re.escape(message)):
        context.log_density(ROWS, values, **more)


def test_observed_values_must_be_numbers_without_gaps(context: chorale_client.Context) -> None:
    for column, message in (([1.0, None], "has missing cells"), (["a", "b"], "is numeric, but")):
        with pytest.raises(chorale_client.InvalidArgumentError, match=message):
            context.log_density({**ROWS, "price": column})
