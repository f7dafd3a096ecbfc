"""Connections to a server: their state and their retries, which both clients share."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import grpc

from chorale_client._calls import Call, Job, Result
from chorale_client._channel import (
    CLOSED,
    HEALTH_METHOD,
    RETRY_CONNECT_SECONDS,
    Endpoint,
    Settings,
    read_error,
)
from chorale_client._errors import ChoraleError, FailedPreconditionError, count_rows_by
from chorale_client._known_values import KnownValues
from chorale_client._retry import Attempts, check_timeout
from chorale_client._sampling import SampleCall
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._v1 import chorale_pb2_grpc as rpc
from chorale_client._wire import SampleMessage, read_sample_response


class Connection:
    """Channels to a server, and the rules for attempts; subclasses make the calls and wait.

    The rules are coroutines. In the asyncio client, the event loop runs them. In the blocking
    client, `_make` and `_sleep` block, so that these coroutines end without being suspended.
    """

    _grpc: ClassVar[Any]  # grpc or grpc.aio

    def __init__(self, settings: Settings, endpoint: Endpoint | None = None) -> None:
        self._settings = settings
        self._endpoint = endpoint or Endpoint.of(settings)
        self._closed = False
        # Streams use a separate connection: on a shared connection, a slow reader of a stream
        # would block the other calls.
        calls, streams = self._open(), self._open()
        self._channels = [calls, streams]
        self._check_health = calls.unary_unary(HEALTH_METHOD)
        self._stub: Any = rpc.ChoraleStub(calls)  # type: ignore[no-untyped-call]
        self._sample = streams.unary_stream(
            "/chorale.v1.Chorale/Sample",
            request_serializer=pb.SampleRequest.SerializeToString,
            response_deserializer=read_sample_response,
        )

    def _open(self) -> Any:
        target, options = self._endpoint.target, self._endpoint.options()
        credentials = self._endpoint.credentials()
        if credentials is None:
            return self._grpc.insecure_channel(target, options)
        return self._grpc.secure_channel(target, credentials, options)

    @property
    def address(self) -> str:
        """The address of the server."""
        return self._endpoint.target

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._settings,)

    def _check_usable(self) -> None:
        if self._closed:
            raise FailedPreconditionError(CLOSED)

    def _attempts(self, timeout: float | None) -> Attempts:
        """Returns the attempts of a call that begins now."""
        self._check_usable()
        if timeout is None:
            timeout = self._settings.timeout
        check_timeout(timeout)
        return Attempts(self._settings.retry, timeout)

    def _failure(
        self, error: grpc.RpcError, attempts: Attempts, known: KnownValues | None
    ) -> ChoraleError:
        """Returns the exception for a failed attempt of a call with known values."""
        if self._closed:  # gRPC reports a cancellation
            return FailedPreconditionError(CLOSED)
        failure = read_error(error, attempts.timeout)
        if known is not None:
            known.locate(failure)
        return failure

    async def _make(self, method: Any, message: Any, **options: Any) -> Any:
        """Makes a call with a single response, which it returns; raises grpc.RpcError."""
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _await_server(self) -> None:
        """Waits until the server answers, for at most connect_timeout."""
        attempts = Attempts(self._settings.retry, self._settings.connect_timeout)
        metadata = self._endpoint.metadata
        while True:
            try:
                await self._make(
                    self._check_health, b"", timeout=attempts.remaining(), metadata=metadata
                )
                return
            except grpc.RpcError as error:
                failure = self._endpoint.failure(error)
            if failure is None:  # the server answered
                return
            if failure.code != "UNAVAILABLE" or attempts.remaining() <= RETRY_CONNECT_SECONDS:
                raise failure
            await self._sleep(RETRY_CONNECT_SECONDS)

    async def _make_all(self, job: Job[Result], timeout: float | None) -> Result:
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
                try:
                    answer = await self._answer(call, attempts)
                except BaseException as error:
                    job.throw(error)
                    raise

    async def _collect(self, call: SampleCall, timeout: float | None) -> list[SampleMessage]:
        """Makes a call of Sample, with retries, and returns its messages."""
        raise NotImplementedError

    async def _answer(self, call: Call | SampleCall, attempts: Attempts) -> Any:
        """Makes a call, with retries; returns the response, or the messages of Sample."""
        if isinstance(call, SampleCall):
            return await self._collect(call, max(attempts.remaining(), 1e-3))
        method = getattr(self._stub, call.method)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            self._check_usable()
            try:
                return await self._make(
                    method, call.message(), timeout=attempts.remaining(), metadata=metadata
                )
            except grpc.RpcError as error:
                failure = self._failure(error, attempts, call.known)
                if call.rows is not None:
                    count_rows_by(failure, call.rows)
                if call.convert is not None:
                    failure = call.convert(failure)
            await self._sleep(attempts.delay_or_raise(failure, repeatable=call.idempotent))
