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
import datetime
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from chorale_client import _appends, _calls, _client, _inference, _prediction
from chorale_client._appends import Appended, AppendOptions
from chorale_client._asyncio_connection import AsyncioConnection
from chorale_client._asyncio_sampling import AsyncioSampling
from chorale_client._channel import Endpoint, Settings, Tls
from chorale_client._docstrings import like
from chorale_client._imputation import Imputation, ImputeOptions, impute
from chorale_client._log_densities import LogDensities
from chorale_client._model import Model
from chorale_client._models_and_contexts import MemoryPolicy
from chorale_client._options import (
    Estimator,
    LogDensityOptions,
    Order,
    PredictOptions,
    SampleOptions,
    Sampling,
)
from chorale_client._prediction import PredictCall
from chorale_client._predictions import Predictions
from chorale_client._progress import Option
from chorale_client._requests import MissingTargets, RegisterOptions
from chorale_client._retry import Retry
from chorale_client._server_info import ServerInfo
from chorale_client._summaries import Summary
from chorale_client._summarize import QUANTILES, SummaryOptions, summarize
from chorale_client._tables import Data, Types
from chorale_client.functionals import Functional


@like(_client.connect)
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

    async def __aexit__(self, *_: object) -> None:
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


class Client(AsyncioConnection):
    """A connection to a server, for a single event loop; created by `connect`."""

    @like(_client.Client.register)
    async def register(
        self,
        data: Data,
        *,
        target: Any,
        name: str | None = None,
        model: str | None = None,
        types: Types | None = None,
        seasons: bool = True,
        memory_rows: int | None = None,
        memory_policy: MemoryPolicy = "merge",
        missing_targets: MissingTargets = "reject",
        validate_only: bool = False,
        description: str = "",
        labels: Mapping[str, str] | None = None,
        expires: datetime.datetime | datetime.timedelta | None = None,
        replace: bool = False,
        etag: str | None = None,
        progress: Option = None,
        timeout: float | None = None,
    ) -> Context:
        """Registers a table; see `chorale_client.Client.register`."""
        details = (description, labels, expires, replace, etag, memory_rows, memory_policy)
        options = RegisterOptions(seasons, missing_targets, validate_only, *details)
        job = _calls.register(data, target, name, model, types, progress, options)
        return Context(self, *await self._run(job, timeout))

    @like(_client.Client.impute)
    async def impute(
        self,
        data: Data,
        *,
        columns: Sequence[str] | None = None,
        paths: int = 100,
        seed: int | None = None,
        model: str | None = None,
        types: Types | None = None,
        progress: Option = None,
        timeout: float | None = None,
    ) -> Imputation:
        """Draws the missing cells of a table; see `chorale_client.Client.impute`."""
        options = ImputeOptions(columns, paths, seed, model, types)
        return await self._run(impute(data, progress, options), timeout)

    @like(_client.Client.context)
    async def context(self, name: str, *, timeout: float | None = None) -> Context:
        """Returns the context with this name; see `chorale_client.Client.context`."""
        return Context(self, await self._run(_calls.get(name), timeout))

    @like(_client.Client.contexts)
    async def contexts(
        self,
        *,
        filter: str = "",  # noqa: A002 - the name of the field
        order_by: str = "name",
        timeout: float | None = None,
    ) -> list[Context]:
        """Returns contexts; see `chorale_client.Client.contexts`."""
        messages = await self._run(_calls.list_contexts(filter, order_by), timeout)
        return [Context(self, message) for message in messages]

    async def models(self, *, timeout: float | None = None) -> list[Model]:
        """Returns the models that the server has loaded, sorted by name."""
        return [Model.of(message) for message in await self._run(_calls.list_models(), timeout)]

    @like(_client.Client.server_info)
    async def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Returns the version, the device, the limits and the features of the server."""
        return ServerInfo.of(await self._run(_calls.server_info(), timeout))

    @like(_client.Client.delete)
    async def delete(
        self,
        name: str,
        *,
        etag: str | None = None,
        allow_missing: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Deletes a context. Calls that already use it finish normally."""
        await self._run(_calls.delete(name, etag, allow_missing=allow_missing), timeout)

    async def close(self) -> None:
        """Closes the connection and cancels the calls in flight.

        These calls raise `FailedPreconditionError`.
        """
        self._closed = True
        for channel in self._channels:
            await channel.close(grace=None)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<asyncio Client of {self.address}>"


class Context(AsyncioSampling[Client]):
    """A registered table; see `chorale_client.Context`."""

    @like(_client.Context.predict)
    async def predict(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        quantiles: npt.ArrayLike = (),
        mixtures: bool = False,
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> Predictions:
        """Returns marginal predictions; see `chorale_client.Context.predict`."""
        options = PredictOptions(quantiles, mixtures, wrap, snap, local_rows)
        job = _prediction.predict(self, rows, given, groupby, options)
        return await self._client._run(job, timeout)

    @like(_client.Context.stream_predictions)
    async def stream_predictions(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        quantiles: npt.ArrayLike = (),
        mixtures: bool = False,
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Predictions, None]:
        """Yields marginal predictions; see `chorale_client.Context.stream_predictions`.

        To end the call when you leave the loop, wrap the generator in `contextlib.aclosing`.
        """
        options = PredictOptions(quantiles, mixtures, wrap, snap, local_rows)
        call = PredictCall.about(self, rows, given, groupby, options)
        async with contextlib.aclosing(self._client._results(call.stream(), timeout)) as results:
            async for predictions in results:
                yield predictions

    @like(_client.Context.summarize)
    async def summarize(
        self,
        rows: Data,
        *,
        functionals: Mapping[str, Functional | str] | Sequence[str] = (),
        quantiles: npt.ArrayLike = QUANTILES,
        covariance: bool = False,
        return_paths: int = 0,
        estimator: Estimator = "conditional",
        target_mean_error: float | None = None,
        target_quantile_error: float | None = None,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        paths: int = 1000,
        seed: int | None = None,
        order: Order = "given",
        sampling: Sampling = "independent",
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> Summary:
        """Returns statistics of joint samples; see `chorale_client.Context.summarize`."""
        options = SampleOptions(
            paths, seed, order, False, wrap, snap, local_rows, sampling=sampling
        )
        asked = SummaryOptions(
            quantiles,
            functionals,
            covariance,
            return_paths,
            estimator,
            target_mean_error,
            target_quantile_error,
        )
        job = summarize(self, rows, given, groupby, options, asked)
        return await self._client._run(job, timeout)

    @like(_client.Context.log_density)
    async def log_density(
        self,
        rows: Data,
        values: npt.ArrayLike | None = None,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        orders: int = 0,
        seed: int | None = None,
        terms: bool = False,
        cdfs: bool = False,
        wrap: bool = False,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> LogDensities:
        """Returns the joint log-density of values; see `chorale_client.Context.log_density`."""
        options = LogDensityOptions(orders, seed, terms, cdfs, wrap, local_rows)
        job = _inference.log_density(self, rows, values, given, groupby, options)
        return await self._client._run(job, timeout)

    @like(_client.Context.append)
    async def append(
        self,
        rows: Data,
        *,
        target: Any = None,
        first_row: int | None = None,
        etag: str | None = None,
        missing_targets: MissingTargets = "reject",
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Appended:
        """Appends rows to the context; see `chorale_client.Context.append`."""
        options = AppendOptions(first_row, etag, missing_targets, validate_only)
        job = _appends.append(self, rows, target, options)
        appended, message = await self._client._run(job, timeout)
        if not validate_only:
            self._message = message
        return appended

    @like(_client.Context.warm)
    async def warm(self, *, encode_anew: bool = False, timeout: float | None = None) -> None:
        """Makes the context resident, so that the next call does not wait for encoding."""
        job = _calls.warm(self.name, encode_anew=encode_anew)
        self._message = await self._client._run(job, timeout)

    @like(_client.Context.refresh)
    async def refresh(self, *, timeout: float | None = None) -> None:
        """Binds this object to the current content of the context."""
        self._message = await self._client._run(_calls.get(self.name), timeout)

    @like(_client.Context.delete)
    async def delete(
        self, *, etag: str | None = None, allow_missing: bool = False, timeout: float | None = None
    ) -> None:
        """Deletes the context. Calls that already use it finish normally."""
        job = _calls.delete(self.name, etag, allow_missing=allow_missing)
        await self._client._run(job, timeout)
