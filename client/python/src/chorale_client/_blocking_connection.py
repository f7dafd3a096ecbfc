"""Calls that block the calling thread."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Coroutine, Generator
from typing import Any, ClassVar

import grpc

from chorale_client._calls import Call, Job, Result, Results
from chorale_client._channel import Endpoint, Settings
from chorale_client._connection import Connection
from chorale_client._errors import FailedPreconditionError, count_rows_by
from chorale_client._interrupts import Uninterrupted
from chorale_client._sampling import SampleCall
from chorale_client._wire import SampleMessage


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

    async def _make(self, method: Any, message: Any, **options: Any) -> Any:
        future: Any = None
        try:
            future = self._begin(method.future, message, **options)
            return future.result()
        except BaseException:  # such as Ctrl-C: the server should stop its work
            if future is not None:
                future.cancel()
            raise

    def _begin(self, method: Any, message: Any, **options: Any) -> Any:
        with Uninterrupted():
            try:
                return method(message, **options)
            except ValueError:  # gRPC's error if another thread has just closed the channel
                self._check_usable()
                raise

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _wait_until_ready(self) -> None:
        _finish(self._await_server())

    def _run(self, job: Job[Result], timeout: float | None) -> Result:
        return _finish(self._make_all(job, timeout))

    def _results(
        self, job: Results[Result], timeout: float | None
    ) -> Generator[Result, None, None]:
        """Makes the calls of a job with several results; `timeout` is for all of them together."""
        attempts = self._attempts(timeout)
        answer: Any = None
        with contextlib.closing(job):
            while True:
                try:
                    step = job.send(answer)
                except StopIteration:
                    return
                answer = None
                if isinstance(step, Call | SampleCall):
                    answer = _finish(self._answer(step, attempts))
                else:
                    yield step

    def _messages(
        self, call: SampleCall, timeout: float | None
    ) -> Generator[SampleMessage, None, None]:
        """Yields the messages of a stream. Closing the generator cancels the call."""
        attempts = self._attempts(timeout)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            self._check_usable()
            stream: Any = None
            begun = False
            try:
                stream = self._begin(
                    self._sample, call.request, timeout=attempts.remaining(), metadata=metadata
                )
                for message in stream:
                    begun = True
                    yield message
                return
            except grpc.RpcError as error:
                failure = self._failure(error, attempts, call.sent_known())
                call.locate_totals(failure)
                count_rows_by(failure, call.groups.order.tolist())
            finally:
                if stream is not None:
                    stream.cancel()
            time.sleep(attempts.delay_or_raise(failure, repeatable=not begun))

    async def _collect(self, call: SampleCall, timeout: float | None) -> list[SampleMessage]:
        with contextlib.closing(self._messages(call, timeout)) as messages:
            return list(messages)


def _finish(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine that is never suspended."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise AssertionError("the coroutine was suspended")
