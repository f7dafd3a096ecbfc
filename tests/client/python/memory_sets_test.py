"""Registrations of contexts with memory sets, by a fake server."""

from __future__ import annotations

from typing import Any

import chorale_client
import numpy as np
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client.sklearn import ChoraleRegressor
from fake_chorale import FakeChorale

TABLE = {"x": [1.0, 2.0], "y": [3.0, 4.0]}


def specs(fake: FakeChorale) -> list[pb.ContextSpec]:
    return [messages[0].spec for messages in fake.requests("RegisterContext")]


def test_memory_sets_are_sent(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.answers["RegisterContext"].extend([pb.RegisterContextResponse()] * 4)
    client.register(TABLE, target="y")
    client.register(TABLE, target="y", memory_policy="merge")
    client.register(TABLE, target="y", memory_rows=2048)
    client.register(TABLE, target="y", memory_rows=64, memory_policy="sample")
    sent = [(spec.memory_row_count, spec.memory_policy) for spec in specs(fake)]
    assert sent == [
        (0, pb.MEMORY_POLICY_UNSPECIFIED),
        (0, pb.MEMORY_POLICY_UNSPECIFIED),
        (2048, pb.MEMORY_POLICY_UNSPECIFIED),
        (64, pb.MEMORY_POLICY_SAMPLE),
    ]


def test_the_names_of_contexts_depend_on_the_memory_set(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"memory_rows": 64},
        {"memory_rows": 65},
        {"memory_rows": 64, "memory_policy": "sample"},
    ]
    fake.answers["RegisterContext"].extend([pb.RegisterContextResponse()] * (len(options) + 2))
    for more in options:
        client.register(TABLE, target="y", **more)
    client.register(TABLE, target="y", memory_rows=np.int64(64))
    client.register(TABLE, target="y", memory_rows=64, memory_policy="merge")
    *distinct, same, default = [spec.context_id for spec in specs(fake)]
    assert len(set(distinct)) == len(options)
    assert same == default == distinct[1]


@pytest.mark.parametrize("wrong", [0, -64, 64.5, True, "many", float("nan"), 2**63])
def test_the_size_must_be_a_positive_integer(client: chorale_client.Client, wrong: Any) -> None:
    with pytest.raises(chorale_client.InvalidArgumentError, match="^memory_rows: ") as caught:
        client.register(TABLE, target="y", memory_rows=wrong)
    assert caught.value.field == "memory_rows"


def test_the_policy_must_be_known(client: chorale_client.Client) -> None:
    message = "memory_policy: 'best', must be one of merge, heavy, sample"
    unknown: Any = "best"
    with pytest.raises(chorale_client.InvalidArgumentError, match=message) as caught:
        client.register(TABLE, target="y", memory_rows=64, memory_policy=unknown)
    assert caught.value.field == "memory_policy"


@pytest.mark.parametrize("policy", ["heavy", "sample"])
def test_a_policy_requires_a_size(
    fake: FakeChorale, client: chorale_client.Client, policy: Any
) -> None:
    message = "^memory_policy: requires memory_rows$"
    with pytest.raises(chorale_client.InvalidArgumentError, match=message) as caught:
        client.register(TABLE, target="y", memory_policy=policy)
    assert caught.value.field == "memory_policy"
    assert not specs(fake)


def test_contexts_describe_their_memory_set(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    fake.context(memory_row_count=2048, memory_policy=pb.MEMORY_POLICY_SAMPLE)
    fake.context()
    fake.context(memory_row_count=64, memory_policy=77)  # of a newer server
    sampled, whole, newer = (client.context("houses") for _ in range(3))
    assert (sampled.memory_rows, sampled.memory_policy) == (2048, "sample")
    assert (whole.memory_rows, whole.memory_policy) == (None, None)
    assert (newer.memory_rows, newer.memory_policy) == (64, None)


def test_estimators_have_memory_sets(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.answers["ListContexts"].append(pb.ListContextsResponse())
    fake.answers["RegisterContext"].extend([pb.RegisterContextResponse()] * 3)
    columns, y = np.arange(6.0).reshape(3, 2), [1.0, 2.0, 4.0]
    model = ChoraleRegressor(client, memory_rows=128).fit(columns, y)
    assert model.get_params()["memory_rows"] == 128
    ChoraleRegressor(client).fit(columns, y)
    reduced, whole = specs(fake)
    assert (reduced.memory_row_count, whole.memory_row_count) == (128, 0)
    assert reduced.context_id != whole.context_id
