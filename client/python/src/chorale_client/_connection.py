"""The state of a connection to a server, which the blocking and the asyncio client share."""

from __future__ import annotations

from typing import Any, ClassVar

from chorale_client._channel import (
    CLOSED,
    HEALTH_METHOD,
    RETRY_CONNECT_SECONDS,
    Endpoint,
    Settings,
)
from chorale_client._errors import ChoraleError, FailedPreconditionError
from chorale_client._retry import Attempts
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._v1 import chorale_pb2_grpc as rpc
from chorale_client._wire import read_sample_response


class Connection:
    """Channels to a server, and the rules for attempts; subclasses make the calls and wait."""

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
        return Attempts(self._settings.retry, timeout or self._settings.timeout)

    def _connect_delay(self, failure: ChoraleError | None, attempts: Attempts) -> float | None:
        """Returns the seconds until the next attempt to connect; None if the server answered.

        Raises `failure` if there is no next attempt.
        """
        if failure is None:
            return None
        if failure.code != "UNAVAILABLE" or attempts.remaining() <= RETRY_CONNECT_SECONDS:
            raise failure
        return RETRY_CONNECT_SECONDS
