"""How calls of the blocking client end before they are complete, by a fake server."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import chorale_client
import grpc
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale, Hang, block, blocks

ROWS = {"town": ["Kiel", "Bonn"], "area": [50, 60]}


@pytest.mark.parametrize("error", [LookupError, SystemExit])
def test_a_registration_ends_with_the_error_of_its_progress_function(
    fake: FakeChorale, client: chorale_client.Client, error: type[BaseException]
) -> None:
    fake.answers["RegisterContext"].append(pb.RegisterContextResponse())

    def fail(done: int, total: int) -> None:
        raise error(f"{done} of {total}")

    with pytest.raises(error, match="2 of 2"):
        client.register({"y": [1, 2]}, target="y", progress=fail)


def test_timeouts_are_checked(fake: FakeChorale, client: chorale_client.Client) -> None:
    wrong: list[Any] = [0, -1.0, float("inf"), float("nan"), 1e10, "5", True]
    for timeout in wrong:
        with pytest.raises(chorale_client.InvalidArgumentError, match="^timeout: ") as caught:
            client.models(timeout=timeout)
        assert caught.value.field == "timeout"
        with pytest.raises(chorale_client.InvalidArgumentError, match="^timeout: "):
            chorale_client.connect(fake.address, timeout=timeout)
    fake.answers["ListModels"].append(pb.ListModelsResponse())
    assert client.models(timeout=10**9) == []
    assert len(fake.calls) == 1


def test_closing_a_stream_cancels_the_call(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    fake.context()
    context = client.context("houses")
    hang = Hang()
    fake.answers["Sample"].append([blocks(block(0, 0, [[1.0, 2.0]])), hang])
    stream = context.stream(ROWS, paths=2)
    assert next(stream).values.tolist() == [[1.0, 2.0]]
    hang.begun.wait()
    assert not hang.cancelled.is_set()
    stream.close()
    hang.cancelled.wait()


def test_a_call_that_takes_too_long_ends(fake: FakeChorale, client: chorale_client.Client) -> None:
    fake.answers["GetContext"].append(Hang())
    with pytest.raises(TimeoutError, match="no complete response within 0.2 s"):
        client.context("houses", timeout=0.2)


@pytest.mark.parametrize("method", ["WarmContext", "Sample"])
def test_ctrl_c_cancels_the_call(
    fake: FakeChorale, client: chorale_client.Client, method: str
) -> None:
    fake.context()
    context = client.context("houses")
    hang = Hang()
    fake.answers[method].append([hang] if method == "Sample" else hang)

    def interrupt() -> None:
        hang.begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        context.warm() if method == "WarmContext" else context.sample(ROWS)
    thread.join()
    hang.cancelled.wait()


@pytest.mark.parametrize("method", ["WarmContext", "Sample"])
def test_closing_the_client_ends_its_calls(
    fake: FakeChorale, client: chorale_client.Client, method: str
) -> None:
    fake.context()
    context = client.context("houses")
    hang = Hang()
    fake.answers[method].append([hang] if method == "Sample" else hang)

    def close() -> None:
        hang.begun.wait()
        client.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(chorale_client.FailedPreconditionError, match="this client was closed"):
        context.warm() if method == "WarmContext" else context.sample(ROWS)
    thread.join()
    assert len(fake.requests(method)) == 1


@pytest.mark.parametrize("method", ["WarmContext", "Sample"])
def test_a_client_that_is_closed_between_two_attempts_sends_no_further(
    fake: FakeChorale, method: str
) -> None:
    fake.context()
    unavailable = Failure(grpc.StatusCode.UNAVAILABLE, "starting")
    fake.answers[method].append([unavailable] if method == "Sample" else unavailable)
    retry = chorale_client.Retry(first_delay=0.001, on_retry=lambda *_: client.close())
    client = chorale_client.connect(fake.address, retry=retry, connect_timeout=60)
    context = client.context("houses")
    with pytest.raises(chorale_client.FailedPreconditionError, match="this client was closed"):
        context.warm() if method == "WarmContext" else context.sample(ROWS)
    assert len(fake.requests(method)) == 1


def test_a_closed_client_says_so(fake: FakeChorale) -> None:
    fake.context()
    with chorale_client.connect(fake.address) as client:
        context = client.context("houses")
    for call in (client.models, lambda: context.sample(ROWS, paths=1)):
        with pytest.raises(chorale_client.FailedPreconditionError, match="this client was closed"):
            call()
