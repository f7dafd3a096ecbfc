"""Descriptions, labels, expiry and etags of contexts."""

from __future__ import annotations

import datetime

import chorale_client
import grpc
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale
from google.protobuf.empty_pb2 import Empty

TABLE = {"x": [1, 2], "y": [3, 4]}
NOON = datetime.datetime(2030, 1, 2, 12, tzinfo=datetime.timezone.utc)


def test_details_are_sent(fake: FakeChorale, client: chorale_client.Client) -> None:
    answer = pb.RegisterContextResponse(context=pb.Context(name="contexts/a"))
    fake.answers["RegisterContext"].extend([answer] * 3)
    client.register(
        TABLE,
        target="y",
        description="Prices",
        labels={"team": "a"},
        expires=datetime.timedelta(days=2),
    )
    client.register(TABLE, target="y", expires=NOON)
    client.register(TABLE, target="y")
    first, second, third = (messages[0].spec for messages in fake.requests("RegisterContext"))
    assert (first.description, dict(first.labels)) == ("Prices", {"team": "a"})
    assert first.ttl.seconds == 2 * 86400
    assert second.expire_time.ToDatetime(datetime.timezone.utc) == NOON
    assert third.WhichOneof("expiration") is None
    with pytest.raises(chorale_client.InvalidArgumentError, match="time zone"):
        client.register(TABLE, target="y", expires=NOON.replace(tzinfo=None))


def test_replacements_and_deletions_send_etags(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    answer = pb.RegisterContextResponse(context=pb.Context(name="contexts/a"), replaced=True)
    mismatch = Failure(grpc.StatusCode.ABORTED, "another etag", reason="ETAG_MISMATCH")
    fake.answers["RegisterContext"].extend([answer, mismatch])
    client.register(TABLE, target="y", name="a", replace=True, etag="e1")
    [spec] = [messages[0].spec for messages in fake.requests("RegisterContext")]
    assert (spec.replace, spec.etag) == (True, "e1")
    with pytest.raises(chorale_client.EtagMismatchError):
        client.register(TABLE, target="y", name="a", replace=True, etag="e1")
    fake.answers["DeleteContext"].extend([Empty(), Empty()])
    client.delete("a", etag="e2", allow_missing=True)
    client.delete("a")
    sent = [(request.etag, request.allow_missing) for request in fake.requests("DeleteContext")]
    assert sent == [("e2", True), ("", False)]


def test_details_are_properties(fake: FakeChorale, client: chorale_client.Client) -> None:
    message = fake.context(description="Prices", labels={"team": "a"}, etag="e1")
    message.update_time.FromDatetime(NOON)
    message.expire_time.FromDatetime(NOON + datetime.timedelta(days=1))
    message.last_use_time.FromDatetime(NOON)
    fake.context()
    context = client.context("houses")
    assert (context.description, context.labels, context.etag) == (
        "Prices",
        {"team": "a"},
        "e1",
    )
    assert context.updated == context.last_used == NOON
    assert context.expires == NOON + datetime.timedelta(days=1)
    other = client.context("houses")
    assert (other.description, other.labels) == ("", {})
    assert other.expires is other.last_used is None


def test_lists_have_a_filter_and_an_order(fake: FakeChorale, client: chorale_client.Client) -> None:
    for token in ("t", ""):
        fake.answers["ListContexts"].append(pb.ListContextsResponse(next_page_token=token))
    assert client.contexts(filter="row_count > 1", order_by="name desc") == []
    for request in fake.requests("ListContexts"):
        assert (request.filter, request.order_by) == ("row_count > 1", "name desc")
    with pytest.raises(chorale_client.InvalidArgumentError, match="not valid Unicode"):
        client.contexts(filter="\ud800")
