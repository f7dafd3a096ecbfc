"""The server's errors as exceptions."""

from __future__ import annotations

import pickle

import chorale_client
import grpc
import pytest
from chorale_client._errors import count_rows_by, from_rpc
from fake_chorale import Failure, FakeChorale

Code = grpc.StatusCode


def raised(
    fake: FakeChorale, client: chorale_client.Client, failure: Failure
) -> chorale_client.ChoraleError:
    fake.answers["DeleteContext"].append(failure)
    with pytest.raises(chorale_client.ChoraleError) as caught:
        client.delete("a")
    return caught.value


def test_field_limit_and_message(fake: FakeChorale, client: chorale_client.Client) -> None:
    fields = (("path_count", "is 20000; the limit is 1 to 16384"), ("seed", "is odd"))
    error = raised(fake, client, Failure(Code.INVALID_ARGUMENT, "path_count: too many", fields))
    assert isinstance(error, chorale_client.InvalidArgumentError)
    assert isinstance(error, ValueError)
    assert error.field == "path_count"
    assert error.fields == ("path_count", "seed")
    assert error.limit == 16384
    assert str(error) == (
        "path_count: too many; path_count: is 20000; the limit is 1 to 16384; seed: is odd"
    )
    assert error.code == "INVALID_ARGUMENT"


def test_what_the_message_says_is_not_said_twice(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    failure = Failure(Code.INVALID_ARGUMENT, "seed: is odd", (("seed", "is odd"),))
    error = raised(fake, client, failure)
    assert str(error) == "seed: is odd"
    assert error.limit is None


def test_arguments_are_named_as_people_write_them(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    description = (
        "has 70 rows; the limit is 64 rows (set beyond_buffer to BEYOND_BUFFER_WRAP to exceed it)"
    )
    failure = Failure(Code.INVALID_ARGUMENT, "", (("rows", description),))
    error = raised(fake, client, failure)
    assert str(error) == "rows: has 70 rows; the limit is 64 rows (set wrap=True to exceed it)"
    description = "has a memory set; set local_row_count, or use a server on a CPU"
    failure = Failure(Code.FAILED_PRECONDITION, "", (("context", description),))
    error = raised(fake, client, failure)
    assert "set local_rows, or use a server on a CPU" in str(error)


@pytest.mark.parametrize(
    ("code", "kind", "builtin"),
    [
        (Code.NOT_FOUND, chorale_client.NotFoundError, LookupError),
        (Code.ALREADY_EXISTS, chorale_client.AlreadyExistsError, Exception),
        (Code.FAILED_PRECONDITION, chorale_client.FailedPreconditionError, Exception),
        (Code.RESOURCE_EXHAUSTED, chorale_client.ExhaustedError, Exception),
        (Code.UNAUTHENTICATED, chorale_client.UnauthenticatedError, PermissionError),
        (Code.PERMISSION_DENIED, chorale_client.PermissionDeniedError, PermissionError),
        (Code.UNAVAILABLE, chorale_client.UnavailableError, ConnectionError),
        (Code.CANCELLED, chorale_client.UnavailableError, ConnectionError),
        (Code.DEADLINE_EXCEEDED, chorale_client.DeadlineError, TimeoutError),
        (Code.DATA_LOSS, chorale_client.DataLossError, Exception),
        (Code.UNIMPLEMENTED, chorale_client.UnimplementedError, NotImplementedError),
        (Code.INTERNAL, chorale_client.InternalError, RuntimeError),
        (Code.OUT_OF_RANGE, chorale_client.ChoraleError, Exception),
    ],
)
def test_kinds(
    fake: FakeChorale,
    client: chorale_client.Client,
    code: grpc.StatusCode,
    kind: type[chorale_client.ChoraleError],
    builtin: type[Exception],
) -> None:
    error = raised(fake, client, Failure(code, "because"))
    assert type(error) is kind
    assert isinstance(error, builtin)
    if code is not Code.CANCELLED:
        assert error.code == code.name
    if code is not Code.DEADLINE_EXCEEDED:
        assert "because" in str(error)


def test_reasons_and_delays(fake: FakeChorale, client: chorale_client.Client) -> None:
    full = Failure(Code.RESOURCE_EXHAUSTED, "no room", retry_delay=1.5, reason="DISK_FULL")
    error = raised(fake, client, full)
    assert (error.reason, error.retry_delay) == ("DISK_FULL", 1.5)
    assert str(error) == "no room; try again in 1.5 s"
    changed = raised(fake, client, Failure(Code.FAILED_PRECONDITION, "no", reason="SOURCE_CHANGED"))
    assert type(changed) is chorale_client.SourceChangedError
    assert "refresh()" in str(changed)
    etag = raised(fake, client, Failure(Code.ABORTED, "another", reason="ETAG_MISMATCH"))
    assert type(etag) is chorale_client.EtagMismatchError
    assert str(etag) == "another: call refresh() on the context to read its etag"
    assert raised(fake, client, Failure(Code.UNAVAILABLE, "x", retry_delay=1e6)).retry_delay == 3600
    missing = raised(fake, client, Failure(Code.NOT_FOUND, "no", reason="CONTEXT_NOT_FOUND"))
    assert missing.reason == "CONTEXT_NOT_FOUND"
    proxy = Failure(Code.NOT_FOUND, "no", reason="NO_ROUTE", domain="proxy.example")
    assert raised(fake, client, proxy).reason is None


def test_messages_that_are_too_large_are_sent_once(fake: FakeChorale) -> None:
    retrying = chorale_client.connect(fake.address, retry=chorale_client.Retry(first_delay=0.001))
    large = Failure(Code.RESOURCE_EXHAUSTED, "too large", reason="MESSAGE_TOO_LARGE")
    fake.answers["ListModels"].append(large)
    with retrying, pytest.raises(chorale_client.ExhaustedError) as caught:
        retrying.models()
    assert (caught.value.reason, caught.value.retry_delay) == ("MESSAGE_TOO_LARGE", None)
    assert len(fake.requests("ListModels")) == 1


@pytest.mark.parametrize(
    ("refusal", "way_out"),
    [
        ('has 6000 categories; the limit is 4096 (column "id")', "drop the column if it contains"),
        ("has 4099 or more categories over all messages; the limit is 4096", "drop the column if"),
        ("has 150 feature columns; the model takes 100", "drop the least informative"),
        ("has 1025 feature columns; the limit is 1024", "drop the least informative"),
    ],
)
def test_refused_tables_have_a_way_out(
    fake: FakeChorale, client: chorale_client.Client, refusal: str, way_out: str
) -> None:
    fields = (("rows.columns", refusal),)
    error = raised(fake, client, Failure(Code.INVALID_ARGUMENT, "no", fields))
    assert f"{refusal}: {way_out}" in str(error)
    assert error.limit == 4096 or "categories" not in refusal
    other = raised(fake, client, Failure(Code.INVALID_ARGUMENT, "no", (("rows", "is empty"),)))
    assert str(other) == "no; rows: is empty"


def test_an_error_without_a_message_has_its_code() -> None:
    assert str(from_rpc(Code.INTERNAL, None, None, 1.0)) == "INTERNAL"


def test_errors_travel_between_processes() -> None:
    error = chorale_client.UnavailableError("gone", fields=["a"], reason="r", retry_delay=2.0)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is chorale_client.UnavailableError
    assert (str(copy), copy.field, copy.reason, copy.retry_delay) == (
        "gone",
        "a",
        "r",
        2.0,
    )
    warning = chorale_client.DataWarning("m", "DROPPED_COLUMN", "x", 3)
    assert pickle.loads(pickle.dumps(warning)).__dict__ == warning.__dict__


def test_rows_of_an_error_about_a_part_are_those_of_the_table() -> None:
    field = 'rows.columns["x.values[1]"].strings.values[3]'
    error = chorale_client.InvalidArgumentError(f"{field}: is bad", fields=[field])
    count_rows_by(error, range(1024, 2048))
    assert "strings.values[1027]: is bad" in str(error)
    assert error.field == 'rows.columns["x.values[1]"].strings.values[1027]'
