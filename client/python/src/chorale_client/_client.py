"""Blocking connections to a server."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, TypeVar

import grpc

from chorale_client._calls import (
    Call,
    Job,
    delete_job,
    get_job,
    list_contexts_job,
    list_models_job,
    register_job,
)
from chorale_client._channel import (
    CLOSED,
    HEALTH_METHOD,
    RETRY_CONNECT_SECONDS,
    Endpoint,
    Settings,
    Tls,
    read_error,
)
from chorale_client._context import Context
from chorale_client._data_warnings import tell
from chorale_client._errors import FailedPreconditionError
from chorale_client._inputs import table_to_register
from chorale_client._interrupts import Uninterrupted
from chorale_client._models_and_contexts import Model
from chorale_client._progress import Option, Progress
from chorale_client._retry import Attempts, Retry
from chorale_client._tables import Data, Types
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._v1 import chorale_pb2_grpc as rpc
from chorale_client._wire import SampleMessage, read_sample_response

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
        address: "host:port", "unix:path" or "https://host". None: the address in the environment
            variable CHORALE_SERVER. If the variable is not set, the client connects to a server of
            your own, which it starts if necessary; this requires the package chorale-server.
        tls: Whether to encrypt the connection, or `Tls` with certificates; None: as in the address.
        token: The token that identifies the caller. The client sends it only over TLS or to this
            machine.
        timeout: Seconds for each call that does not set a timeout.
        connect_timeout: Seconds to wait for a server that does not accept connections yet.
        retry: How to retry calls that fail with a transient error; None: the defaults of `Retry`.

    Returns:
        A connected client. Use it as a context manager, or call `close`.

    Raises:
        UnavailableError: No server answers.
        UnauthenticatedError: The server's certificate is not trusted.
        InvalidArgumentError: The address or the token is invalid.

    Examples:
        >>> with chorale_client.connect("127.0.0.1:50051") as client:
        ...     print([context.name for context in client.contexts()])
    """
    client = Client(Settings(address, tls, token, timeout, connect_timeout, retry or Retry()))
    try:
        client._wait_until_ready()
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A connection to a server; created by `connect`.

    Threads may share a client. A client can be pickled: each process opens its own connections. A
    forked process cannot use the client of its parent.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._endpoint = Endpoint.of(settings)
        self._process = os.getpid()
        self._closed = False
        # Streams use a separate connection: on a shared connection, a slow reader of a stream
        # would block the other calls.
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
        """The address of the server."""
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
        """Registers a table as a context.

        Registration is idempotent: registering the same table again under the same name has no
        effect.

        Args:
            data: A pandas or polars DataFrame, a PyArrow table, a dictionary of columns, or a numpy
                array. `help(chorale_client)` describes how columns are read.
            target: The name of the column to predict, or its values [rows]. They are numeric, and
                none is missing. A pandas Series is aligned by its labels, which must be the labels
                of the rows.
            name: The name of the context: lower-case letters, digits, ".", "_" and "-". None: a
                name derived from the content, so that registering the same table again returns the
                same context.
            model: The name of the model; None: the server's default model.
            types: {"column": "categorical" or "numeric"} for columns whose type the client should
                not infer.
            seasons: Whether the server searches for a season of the target. If it finds one, the
                model gets the phase as an additional feature, and `Context.warnings` has an entry.
                This choice is part of the content.
            progress: See `Context.sample`.
            timeout: Seconds; None: the client's timeout.

        Returns:
            The registered context.

        Raises:
            InvalidArgumentError: The table or its target is invalid; `field` names the column or
                argument.
            AlreadyExistsError: A context with this name and different content exists.
            ExhaustedError: The server's disk is full, or a quota is used up; see `reason`.

        Examples:
            >>> frame = pandas.read_csv("datasets/penguins.csv")
            >>> context = client.register(frame, target="body_mass_g")
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
        """Returns the context with this name.

        Args:
            name: The name of the context.
            timeout: Seconds; None: the client's timeout.

        Raises:
            NotFoundError: There is no such context.

        Examples:
            >>> context = client.context("penguins")
            >>> [feature.name for feature in context.features]
        """
        return Context(self, self._run(get_job(name), timeout))

    def contexts(self, *, timeout: float | None = None) -> list[Context]:
        """Returns all contexts, sorted by name."""
        return [Context(self, message) for message in self._run(list_contexts_job(), timeout)]

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """Returns the models that the server has loaded, sorted by name."""
        return [Model.of(message) for message in self._run(list_models_job(), timeout)]

    def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Deletes a context. Calls that already use it finish normally.

        Args:
            name: The name of the context.
            timeout: Seconds; None: the client's timeout.

        Raises:
            NotFoundError: There is no such context.
        """
        self._run(delete_job(name), timeout)

    def close(self) -> None:
        """Closes the connection and cancels the calls in flight."""
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

    # ---- Calls -----------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._closed:
            raise FailedPreconditionError(CLOSED)
        if self._process != os.getpid():
            raise FailedPreconditionError(
                "this client was created before the process forked, and gRPC does not support "
                "forks: call chorale_client.connect() in the child process, or use the start "
                "method 'spawn' or 'forkserver'"
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
        """Makes the calls of a job, with retries; `timeout` is for all of them together."""
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
            except BaseException:  # such as Ctrl-C: the server should stop its work
                if future is not None:
                    future.cancel()
                raise
            if not call.idempotent:
                raise failure
            time.sleep(attempts.delay_or_raise(failure))

    def _messages(
        self, request: pb.SampleRequest, context: str, timeout: float | None
    ) -> Generator[SampleMessage, None, None]:
        """Yields the messages of a stream. Closing the generator cancels the call."""
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
