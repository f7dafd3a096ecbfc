"""Calls that an event loop waits for."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import grpc.aio

from chorale_client._calls import Call, Result, Results
from chorale_client._connection import Connection
from chorale_client._errors import count_rows_by
from chorale_client._sampling import SampleCall
from chorale_client._wire import SampleMessage


class AsyncioConnection(Connection):
    """A connection for a single event loop; the methods are those of `BlockingConnection`."""

    _grpc: ClassVar[Any] = grpc.aio

    _wait_until_ready = Connection._await_server
    _run = Connection._make_all

    async def _make(self, method: Any, message: Any, **options: Any) -> Any:
        try:
            return await method(message, **options)
        except asyncio.CancelledError:
            self._check_not_cancelled_by_close()
            raise

    def _check_not_cancelled_by_close(self) -> None:
        """Raises FailedPreconditionError if `close`, not a caller, has cancelled a call."""
        task = asyncio.current_task()
        # Before Python 3.11, a task that was cancelled as well cannot be recognised.
        if sys.version_info < (3, 11) or task is None or not task.cancelling():
            self._check_usable()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _results(
        self, job: Results[Result], timeout: float | None
    ) -> AsyncGenerator[Result, None]:
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
                    answer = await self._answer(step, attempts)
                else:
                    yield step

    async def _messages(
        self, call: SampleCall, timeout: float | None
    ) -> AsyncGenerator[SampleMessage, None]:
        attempts = self._attempts(timeout)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            self._check_usable()
            stream = self._sample(call.request, timeout=attempts.remaining(), metadata=metadata)
            begun = False
            try:
                async for message in stream:
                    begun = True
                    yield message
                return
            except grpc.aio.AioRpcError as error:
                failure = self._failure(error, attempts, call.sent_known())
                call.locate_totals(failure)
                count_rows_by(failure, call.groups.order.tolist())
            except asyncio.CancelledError:
                self._check_not_cancelled_by_close()
                raise
            finally:
                stream.cancel()
            await asyncio.sleep(attempts.delay_or_raise(failure, repeatable=not begun))

    async def _collect(self, call: SampleCall, timeout: float | None) -> list[SampleMessage]:
        async with contextlib.aclosing(self._messages(call, timeout)) as messages:
            return [message async for message in messages]
