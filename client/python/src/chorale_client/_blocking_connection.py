"""Calls that block the calling thread."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator
from typing import Any, ClassVar, TypeVar

import grpc

from chorale_client._calls import Call, Job
from chorale_client._channel import Endpoint, Settings, read_error
from chorale_client._connection import Connection
from chorale_client._errors import FailedPreconditionError
from chorale_client._interrupts import Uninterrupted
from chorale_client._retry import Attempts
from chorale_client._sampling import SampleCall
from chorale_client._wire import SampleMessage

Result = TypeVar("Result")


class BlockingConnection(Connection):
    """A connection whose calls block the calling thread."""

    _grpc: ClassVar[Any] = grpc

    def __init__(self, settings: Settings, endpoint: Endpoint | None = None) -> None:
        super().__init__(settings, endpoint)
        self._process = os.getpid()

    def _check_usable(self) -> None:
        super()._check_usable()
        if self._process != os.getpid():
            raise FailedPreconditionError(
                "this client was created before the process forked, and gRPC does not support "
                "forks: call chorale_client.connect() in the child process, or use the start "
                "method 'spawn' or 'forkserver'"
            )

    def _wait_until_ready(self) -> None:
        """Waits until the server answers, for at most connect_timeout."""
        attempts = Attempts(self._settings.retry, self._settings.connect_timeout)
        while True:
            try:
                self._check_health(
                    b"", timeout=attempts.remaining(), metadata=self._endpoint.metadata
                )
                return
            except grpc.RpcError as error:
                failure = self._endpoint.failure(error)
            delay = self._connect_delay(failure, attempts)
            if delay is None:
                return
            time.sleep(delay)

    def _run(self, job: Job[Result], timeout: float | None) -> Result:
        """Makes the calls of a job, with retries; `timeout` is for all of them together."""
        attempts: Attempts | None = None
        answer: Any = None
        with contextlib.closing(job):
            while True:
                try:
                    call = job.send(answer)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                attempts = attempts or self._attempts(timeout)
                answer = self._answer(call, attempts)

    def _answer(self, call: Call, attempts: Attempts) -> Any:
        method = getattr(self._stub, call.method)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            future: Any = None
            try:
                with Uninterrupted():
                    future = method.future(
                        call.message(), timeout=attempts.remaining(), metadata=metadata
                    )
                return future.result()
            except grpc.RpcError as error:
                failure = read_error(error, attempts.timeout)
            except BaseException:  # such as Ctrl-C: the server should stop its work
                if future is not None:
                    future.cancel()
                raise
            time.sleep(attempts.delay_or_raise(failure, repeatable=call.idempotent))

    def _messages(
        self, call: SampleCall, timeout: float | None
    ) -> Generator[SampleMessage, None, None]:
        """Yields the messages of a stream. Closing the generator cancels the call."""
        attempts = self._attempts(timeout)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            stream: Any = None
            begun = False
            try:
                with Uninterrupted():
                    stream = self._sample(
                        call.request, timeout=attempts.remaining(), metadata=metadata
                    )
                for message in stream:
                    begun = True
                    yield message
                return
            except grpc.RpcError as error:
                failure = read_error(error, attempts.timeout)
            finally:
                if stream is not None:
                    stream.cancel()
            time.sleep(attempts.delay_or_raise(failure, repeatable=not begun))
