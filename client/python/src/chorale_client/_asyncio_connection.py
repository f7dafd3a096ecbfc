"""Calls that an event loop waits for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, ClassVar, TypeVar

import grpc.aio

from chorale_client._calls import Call, Job
from chorale_client._channel import read_error
from chorale_client._connection import Connection
from chorale_client._retry import Attempts
from chorale_client._sampling import SampleCall
from chorale_client._wire import SampleMessage

Result = TypeVar("Result")


class AsyncioConnection(Connection):
    """A connection for a single event loop; the methods are those of `BlockingConnection`."""

    _grpc: ClassVar[Any] = grpc.aio

    async def _wait_until_ready(self) -> None:
        attempts = Attempts(self._settings.retry, self._settings.connect_timeout)
        while True:
            try:
                await self._check_health(
                    b"", timeout=attempts.remaining(), metadata=self._endpoint.metadata
                )
                return
            except grpc.aio.AioRpcError as error:
                failure = self._endpoint.failure(error)
            delay = self._connect_delay(failure, attempts)
            if delay is None:
                return
            await asyncio.sleep(delay)

    async def _run(self, job: Job[Result], timeout: float | None) -> Result:
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
                answer = await self._answer(call, attempts)

    async def _answer(self, call: Call, attempts: Attempts) -> Any:
        method = getattr(self._stub, call.method)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            try:
                return await method(call.message(), timeout=attempts.remaining(), metadata=metadata)
            except grpc.aio.AioRpcError as error:
                failure = read_error(error, attempts.timeout)
            await asyncio.sleep(attempts.delay_or_raise(failure, repeatable=call.idempotent))

    async def _messages(
        self, call: SampleCall, timeout: float | None
    ) -> AsyncGenerator[SampleMessage, None]:
        attempts = self._attempts(timeout)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            stream = self._sample(call.request, timeout=attempts.remaining(), metadata=metadata)
            begun = False
            try:
                async for message in stream:
                    begun = True
                    yield message
                return
            except grpc.aio.AioRpcError as error:
                failure = read_error(error, attempts.timeout)
            finally:
                stream.cancel()
            await asyncio.sleep(attempts.delay_or_raise(failure, repeatable=not begun))
