"""Calls that the server only validates."""

from __future__ import annotations

import chorale_client
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale, block, blocks, summary

ROWS = {"town": ["Kiel", "Bonn"], "area": [50, 60]}


def test_a_validated_sample_returns_an_estimate(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    measured = pb.Estimate(device_bytes=4096)
    measured.duration.FromMilliseconds(1500)
    fake.answers["Sample"] += [
        [summary(estimate=measured)],
        [summary(estimate=pb.Estimate(device_bytes=5))],
        [blocks(block(0, 0, [[1.0, 2.0]])), summary()],
        [],
    ]
    assert context.validate_sample(ROWS, paths=7) == chorale_client.Estimate(4096, 1.5)
    [request] = fake.requests("Sample")
    assert (request.validate_only, request.path_count) == (True, 7)
    assert context.validate_sample(ROWS) == chorale_client.Estimate(5, None)
    with pytest.raises(chorale_client.UnimplementedError):
        context.validate_sample(ROWS)
    with pytest.raises(chorale_client.DataLossError, match="summary is missing"):
        context.validate_sample(ROWS)


def test_a_validated_table_has_an_estimate(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    context = pb.Context(name="contexts/a", dataset_bytes=300)
    answer = pb.RegisterContextResponse(context=context, estimate=pb.Estimate(device_bytes=4096))
    fake.answers["RegisterContext"].extend([answer, pb.RegisterContextResponse(context=context)])
    table = {"x": [1, 2], "y": [3, 4]}
    validated = client.register(table, target="y", validate_only=True)
    assert validated.dataset_bytes == 300
    assert validated.estimate == chorale_client.Estimate(4096, None)
    assert client.register(table, target="y").estimate is None
    sent = [messages[0].spec.validate_only for messages in fake.requests("RegisterContext")]
    assert sent == [True, False]
