"""Calls that an event loop waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import grpc.aio

from chorale_client._channel import read_error
from chorale_client._connection import Connection
from chorale_client._sampling import SampleCall
from chorale_client._wire import SampleMessage


class AsyncioConnection(Connection):
    """A connection for a single event loop; the methods are those of `BlockingConnection`."""

    _grpc: ClassVar[Any] = grpc.aio

    _wait_until_ready = Connection._await_server
    _run = Connection._make_all

    async def _make(self, method: Any, message: Any, **options: Any) -> Any:
        return await method(message, **options)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

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
