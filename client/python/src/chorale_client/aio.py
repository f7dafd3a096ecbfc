"""The client for asyncio.

Arguments, results and errors are the same as those of `chorale_client.Client` and
`chorale_client.Context`. Cancelling a task cancels its call on the server.

Examples:
    >>> async with chorale_client.aio.connect("127.0.0.1:50051") as client:
    ...     penguins = await client.register(frame, target="body_mass_g")
    ...     samples = await penguins.sample(rows)
    ...     async for block in penguins.stream(rows):
    ...         print(block.values.shape)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio
import numpy.typing as npt

from chorale_client._calls import (
    Call,
    Job,
    delete_job,
    get_job,
    list_contexts_job,
    list_models_job,
    log_density_job,
    predict_job,
    register_job,
    warm_job,
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
from chorale_client._data_warnings import DataWarning, read_warnings, tell
from chorale_client._errors import FailedPreconditionError
from chorale_client._inputs import rows_to_ask, table_to_register, values_to_weigh
from chorale_client._log_densities import LogDensities
from chorale_client._models_and_contexts import Description, Model
from chorale_client._predictions import Predictions
from chorale_client._progress import Option, Progress
from chorale_client._requests import Order, sample_request
from chorale_client._retry import Attempts, Retry
from chorale_client._samples import Samples
from chorale_client._sampling import Assembly, Block
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
) -> Connecting:
    """Connects to a server; see `chorale_client.connect`.

    Returns:
        An object to await for a `Client`, or to use in `async with`.

    Examples:
        >>> async with chorale_client.aio.connect("127.0.0.1:50051") as client:
        ...     contexts = await client.contexts()
    """
    return Connecting(Settings(address, tls, token, timeout, connect_timeout, retry or Retry()))


class Connecting:
    """The result of `connect`: await it, or use it in `async with`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> Client:
        # This may start a server, which must not block the event loop.
        endpoint = await asyncio.to_thread(Endpoint.of, self._settings)
        client = Client(self._settings, endpoint)
        try:
            await client._wait_until_ready()
        except BaseException:
            await client.close()
            raise
        return client


class Client:
    """A connection to a server, for a single event loop; created by `connect`."""

    def __init__(self, settings: Settings, endpoint: Endpoint) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._closed = False
        self._channels = [self._open(), self._open()]  # calls; streams
        self._stub: Any = rpc.ChoraleStub(self._channels[0])  # type: ignore[no-untyped-call]
        self._sample: Any = self._channels[1].unary_stream(
            "/chorale.v1.Chorale/Sample",
            request_serializer=pb.SampleRequest.SerializeToString,
            response_deserializer=read_sample_response,
        )

    def _open(self) -> grpc.aio.Channel:
        credentials = self._endpoint.credentials()
        if credentials is None:
            return grpc.aio.insecure_channel(self._endpoint.target, self._endpoint.options())
        return grpc.aio.secure_channel(self._endpoint.target, credentials, self._endpoint.options())

    @property
    def address(self) -> str:
        """The address of the server."""
        return self._endpoint.target

    async def register(
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
        """Registers a table; see `chorale_client.Client.register`."""
        table, target_name, name = table_to_register(
            data, target, name, model, types, seasons=seasons
        )
        with Progress(progress, table.row_count, "rows") as done:
            job = register_job(name, table, target_name, model, done, seasons=seasons)
            message, warnings = await self._run(job, timeout)
        tell(warnings, registered=True)
        return Context(self, message, warnings)

    async def context(self, name: str, *, timeout: float | None = None) -> Context:
        """Returns the context with this name; see `chorale_client.Client.context`."""
        return Context(self, await self._run(get_job(name), timeout))

    async def contexts(self, *, timeout: float | None = None) -> list[Context]:
        """Returns all contexts, sorted by name."""
        messages = await self._run(list_contexts_job(), timeout)
        return [Context(self, message) for message in messages]

    async def models(self, *, timeout: float | None = None) -> list[Model]:
        """Returns the models that the server has loaded, sorted by name."""
        return [Model.of(message) for message in await self._run(list_models_job(), timeout)]

    async def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Deletes a context."""
        await self._run(delete_job(name), timeout)

    async def close(self) -> None:
        """Closes the connection and cancels the calls in flight."""
        self._closed = True
        for channel in self._channels:
            await channel.close(grace=None)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __reduce__(self) -> tuple[Callable[..., Client], tuple[Settings]]:
        return _reconnect, (self._settings,)

    def __repr__(self) -> str:
        return f"<asyncio Client of {self.address}>"

    # ---- Calls -----------------------------------------------------------------------------

    async def _wait_until_ready(self) -> None:
        attempts = Attempts(self._settings.retry, self._settings.connect_timeout)
        channel: Any = self._channels[0]
        ask = channel.unary_unary(HEALTH_METHOD)
        while True:
            try:
                await ask(b"", timeout=attempts.remaining(), metadata=self._endpoint.metadata)
                return
            except grpc.aio.AioRpcError as error:
                failure = self._endpoint.failure(error)
            if failure is None:
                return
            if failure.code != "UNAVAILABLE" or attempts.remaining() <= RETRY_CONNECT_SECONDS:
                raise failure
            await asyncio.sleep(RETRY_CONNECT_SECONDS)

    def _check_usable(self) -> None:
        if self._closed:
            raise FailedPreconditionError(CLOSED)

    async def _run(self, job: Job[Result], timeout: float | None) -> Result:
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
                answer = await self._answer(call, attempts)

    async def _answer(self, call: Call, attempts: Attempts) -> Any:
        method = getattr(self._stub, call.method)
        metadata = self._endpoint.metadata_about(call.context)
        while True:
            request = call.request() if callable(call.request) else call.request
            try:
                return await method(request, timeout=attempts.remaining(), metadata=metadata)
            except grpc.aio.AioRpcError as error:
                failure = read_error(error, attempts.timeout)
            if not call.idempotent:
                raise failure
            await asyncio.sleep(attempts.delay_or_raise(failure))

    async def _messages(
        self, request: pb.SampleRequest, context: str, timeout: float | None
    ) -> AsyncGenerator[SampleMessage, None]:
        self._check_usable()
        attempts = Attempts(self._settings.retry, timeout or self._settings.timeout)
        metadata = self._endpoint.metadata_about(context)
        while True:
            call = self._sample(request, timeout=attempts.remaining(), metadata=metadata)
            begun = False
            try:
                async for message in call:
                    begun = True
                    yield message
                return
            except grpc.aio.AioRpcError as error:
                failure = read_error(error, attempts.timeout)
            finally:
                call.cancel()
            if begun:
                raise failure
            await asyncio.sleep(attempts.delay_or_raise(failure))


class Context(Description[Client]):
    """A registered table; see `chorale_client.Context`."""

    async def predict(
        self,
        rows: Data,
        *,
        quantiles: npt.ArrayLike = (),
        mixtures: bool = False,
        snap: bool = True,
        timeout: float | None = None,
    ) -> Predictions:
        """Returns marginal predictions; see `chorale_client.Context.predict`."""
        table = rows_to_ask(self, rows)
        job = predict_job(
            self.name, table, self.target, self.source, quantiles, mixtures=mixtures, snap=snap
        )
        result = await self._client._run(job, timeout)
        tell(result.warnings)
        return result

    async def sample(
        self,
        rows: Data,
        *,
        paths: int = 1000,
        seed: int | None = None,
        order: Order = "given",
        log_densities: bool = False,
        wrap: bool = False,
        snap: bool = True,
        progress: Option = None,
        timeout: float | None = None,
    ) -> Samples:
        """Draws joint samples; see `chorale_client.Context.sample`."""
        table = rows_to_ask(self, rows)
        request = sample_request(
            self.name,
            table,
            paths=paths,
            seed=seed,
            order=order,
            log_densities=log_densities,
            wrap=wrap,
            snap=snap,
            source=self.source,
        )
        messages = self._client._messages(request, self.name, timeout)
        with Progress(progress, paths * table.row_count, "values") as done:
            async with contextlib.aclosing(messages):
                assembly = Assembly(request, table, self.target, done)
                async for message in messages:
                    assembly.add(message)
        samples = assembly.finish()
        tell(samples.warnings)
        return samples

    async def stream(
        self,
        rows: Data,
        *,
        paths: int = 1000,
        seed: int | None = None,
        order: Order = "given",
        log_densities: bool = False,
        wrap: bool = False,
        snap: bool = True,
        timeout: float | None = None,
    ) -> AsyncGenerator[Block, None]:
        """Draws joint samples and yields blocks; see `chorale_client.Context.stream`.

        To cancel the call when you leave the loop, wrap the generator in `contextlib.aclosing`.
        """
        table = rows_to_ask(self, rows)
        request = sample_request(
            self.name,
            table,
            paths=paths,
            seed=seed,
            order=order,
            log_densities=log_densities,
            wrap=wrap,
            snap=snap,
            source=self.source,
        )
        tell(table.notes)
        async with contextlib.aclosing(
            self._client._messages(request, self.name, timeout)
        ) as messages:
            async for message in messages:
                for block in message.blocks:
                    yield Block.of(block)
                if message.summary is not None:
                    tell(read_warnings(message.summary.warnings))

    async def log_density(
        self,
        rows: Data,
        values: npt.ArrayLike | None = None,
        *,
        orders: int = 0,
        seed: int | None = None,
        terms: bool = False,
        wrap: bool = False,
        timeout: float | None = None,
    ) -> LogDensities:
        """Returns the joint log-density of values; see `chorale_client.Context.log_density`."""
        table = rows_to_ask(self, rows)
        job = log_density_job(
            self.name,
            table,
            self.target,
            self.source,
            values_to_weigh(self, rows, table, values),
            orders=orders,
            seed=seed,
            terms=terms,
            wrap=wrap,
        )
        result = await self._client._run(job, timeout)
        tell(result.warnings)
        return result

    async def warm(self, *, timeout: float | None = None) -> None:
        """Makes the context resident, so that the next call does not wait for encoding."""
        self._message = await self._client._run(warm_job(self.name), timeout)

    async def refresh(self, *, timeout: float | None = None) -> None:
        """Binds this object to the current content of the context."""
        self._message = await self._client._run(get_job(self.name), timeout)

    async def delete(self, *, timeout: float | None = None) -> None:
        """Deletes the context."""
        await self._client._run(delete_job(self.name), timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._client, self._message.SerializeToString(), self._warnings)


def _reconnect(settings: Settings) -> Client:
    return Client(settings, Endpoint.of(settings))


def _restore(client: Client, message: bytes, warnings: tuple[DataWarning, ...]) -> Context:
    return Context(client, pb.Context.FromString(message), warnings)
