"""Connections to a server, for code that waits for its answers."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, TypeVar

import grpc

from chorale_client.channel import (
    CLOSED,
    HEALTH_METHOD,
    RETRY_CONNECT_SECONDS,
    Endpoint,
    Settings,
    Tls,
    read_error,
)
from chorale_client.context import Context
from chorale_client.data_warnings import tell
from chorale_client.descriptions import Model
from chorale_client.errors import FailedPreconditionError
from chorale_client.interrupts import Uninterrupted
from chorale_client.jobs import (
    Call,
    Job,
    delete_job,
    get_job,
    list_contexts_job,
    list_models_job,
    register_job,
)
from chorale_client.packed import SampleMessage, read_sample_response
from chorale_client.progress import Option, Progress
from chorale_client.questions import table_to_register
from chorale_client.retry import Attempts, Retry
from chorale_client.tables import Data, Types
from chorale_client.v1 import chorale_pb2 as pb
from chorale_client.v1 import chorale_pb2_grpc as rpc

Result = TypeVar("Result")


def connect(
    address: str | None = None,
    *,
    tls: bool | Tls | None = None,
    token: str | None = None,
    timeout: float = 300.0,
    connect_timeout: float = 5.0,
    retry: Retry | None = None,
) -> Client:
    """Connects to a server.

    Args:
        address: "host:port", "unix:path" or "https://host". None: what the environment variable
            CHORALE_SERVER says, else a server of your own, which is started if need be (this needs
            the package chorale-server).
        tls: Whether to encrypt, or `Tls` with certificates; None: as the address says.
        token: Says who calls. It is sent over TLS or to this machine only.
        timeout: Seconds for each call that does not set its own.
        connect_timeout: Seconds to wait for a server that does not answer yet.
        retry: How calls that fail for a passing reason are tried again.

    Raises:
        UnavailableError: No server answers.
        UnauthenticatedError: The server's certificate is not trusted.
        InvalidArgumentError: The address is none, or the token cannot be sent.
    """
    client = Client(Settings(address, tls, token, timeout, connect_timeout, retry or Retry()))
    try:
        client._wait_until_ready()
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A connection to a server; made by `connect`.

    Threads may share it. It can be pickled: each process connects by itself. After a fork, the
    child cannot use the parent's.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._endpoint = Endpoint.of(settings)
        self._process = os.getpid()
        self._closed = False
        # Streams have a connection of their own: on a shared one, a stream that is read slowly
        # would hold up the other calls.
        self._channels = [self._open(), self._open()]
        self._stub: Any = rpc.ChoraleStub(self._channels[0])  # type: ignore[no-untyped-call]
        self._sample = self._channels[1].unary_stream(
            "/chorale.v1.Chorale/Sample",
            request_serializer=pb.SampleRequest.SerializeToString,
            response_deserializer=read_sample_response,
        )

    def _open(self) -> grpc.Channel:
        credentials = self._endpoint.credentials()
        if credentials is None:
            return grpc.insecure_channel(self._endpoint.target, self._endpoint.options())
        return grpc.secure_channel(self._endpoint.target, credentials, self._endpoint.options())

    @property
    def address(self) -> str:
        """Of the server."""
        return self._endpoint.target

    def register(
        self,
        data: Data,
        *,
        target: Any,
        name: str | None = None,
        model: str | None = None,
        types: Types | None = None,
        seasons: bool = True,
        progress: Option = None,
        timeout: float | None = None,
    ) -> Context:
        """Registers a table. The same table again under the same name changes nothing.

        Args:
            data: A DataFrame of pandas, polars or PyArrow, a dictionary of columns, or a numpy
                array. `chorale_client.column_reading` says what becomes of booleans, dates, texts
                and categories.
            target: The name of the column to predict, or its values [rows]: numeric, none missing.
                A Series of pandas goes by its labels, which must be those of the rows.
            name: Of the context: small letters, digits, and ".", "_", "-". None: one that follows
                from the content, so that the same table is the same context.
            model: The model's name; None: the server's default.
            types: {"column": "categorical" or "numeric"} where the kind is not to follow from the
                column's type and cells.
            seasons: Whether the model is told of a season of the target, where the server finds
                one; the context's `warnings` then say so. If False, it is another content.
            progress: See `Context.sample`.
            timeout: Seconds; None: the client's.

        Raises:
            InvalidArgumentError: The table, or its target, cannot be used; `field` says which.
            AlreadyExistsError: The name has other content.
        """
        table, target_name, name = table_to_register(
            data, target, name, model, types, seasons=seasons
        )
        with Progress(progress, table.row_count, "rows") as done:
            job = register_job(name, table, target_name, model, done, seasons=seasons)
            message, warnings = self._run(job, timeout)
        tell(warnings, registered=True)
        return Context(self, message, warnings)

    def context(self, name: str, *, timeout: float | None = None) -> Context:
        """The context with this name.

        Raises:
            NotFoundError: There is none.
        """
        return Context(self, self._run(get_job(name), timeout))

    def contexts(self, *, timeout: float | None = None) -> list[Context]:
        """All contexts, sorted by name."""
        return [Context(self, message) for message in self._run(list_contexts_job(), timeout)]

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """The models that the server has loaded, sorted by name."""
        return [Model.of(message) for message in self._run(list_models_job(), timeout)]

    def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Deletes a context. Calls that already use it finish normally.

        Raises:
            NotFoundError: There is none with this name.
        """
        self._run(delete_job(name), timeout)

    def close(self) -> None:
        """Ends the connection, and the calls in flight."""
        self._closed = True
        if self._process == os.getpid():
            for channel in self._channels:
                channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Client], tuple[Settings]]:
        return _reconnect, (self._settings,)

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"

    # ---- How calls are made ----------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._closed:
            raise FailedPreconditionError(CLOSED)
        if self._process != os.getpid():
            raise FailedPreconditionError(
                "this client was made before the process forked, and gRPC does not survive a fork: "
                "call chorale_client.connect() in the child, or use the start method 'spawn' or "
                "'forkserver'"
            )

    def _wait_until_ready(self) -> None:
        """Waits until the server answers, for at most connect_timeout."""
        attempts = Attempts(self._settings.retry, self._settings.connect_timeout)
        channel: Any = self._channels[0]
        ask = channel.unary_unary(HEALTH_METHOD)
        while True:
            try:
                ask(b"", timeout=attempts.remaining(), metadata=self._endpoint.metadata)
                return
            except grpc.RpcError as error:
                failure = self._endpoint.failure(error)
            if failure is None:
                return
            if failure.code != "UNAVAILABLE" or attempts.remaining() <= RETRY_CONNECT_SECONDS:
                raise failure
            time.sleep(RETRY_CONNECT_SECONDS)

    def _run(self, job: Job[Result], timeout: float | None) -> Result:
        """Makes a job's calls, each as often as need be; `timeout` is for all of them together."""
        self._check_usable()
        attempts = Attempts(self._settings.retry, timeout or self._settings.timeout)
        answer: Any = None
        with contextlib.closing(job):
            while True:
                try:
                    call = job.send(answer)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                answer = self._answer(call, attempts)

    def _answer(self, call: Call, attempts: Attempts) -> Any:
        method = getattr(self._stub, call.method)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            request = call.request() if callable(call.request) else call.request
            future: Any = None
            try:
                with Uninterrupted():
                    future = method.future(request, timeout=attempts.remaining(), metadata=metadata)
                return future.result()
            except grpc.RpcError as error:
                failure = read_error(error, attempts.timeout)
            except BaseException:  # Ctrl-C above all: the server is not to go on
                if future is not None:
                    future.cancel()
                raise
            if not call.idempotent:
                raise failure
            time.sleep(attempts.delay_or_raise(failure))

    def _messages(
        self, request: pb.SampleRequest, context: str, timeout: float | None
    ) -> Generator[SampleMessage, None, None]:
        """The messages of a stream. Closing the generator cancels the call."""
        self._check_usable()
        attempts = Attempts(self._settings.retry, timeout or self._settings.timeout)
        metadata = self._endpoint.metadata_about(context)
        while True:
            call: Any = None
            begun = False
            try:
                with Uninterrupted():
                    call = self._sample(request, timeout=attempts.remaining(), metadata=metadata)
                for message in call:
                    begun = True
                    yield message
                return
            except grpc.RpcError as error:
                failure = read_error(error, attempts.timeout)
            finally:
                if call is not None:
                    call.cancel()
            if begun:
                raise failure
            time.sleep(attempts.delay_or_raise(failure))


def _reconnect(settings: Settings) -> Client:
    return Client(settings)
