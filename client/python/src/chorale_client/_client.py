"""Blocking clients."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

from chorale_client import _calls
from chorale_client._blocking_connection import BlockingConnection
from chorale_client._channel import Settings, Tls
from chorale_client._context import BlockingContext
from chorale_client._imputation import Imputation, ImputeOptions, impute
from chorale_client._model import Model
from chorale_client._models_and_contexts import MemoryPolicy
from chorale_client._progress import Option
from chorale_client._requests import MissingTargets, RegisterOptions
from chorale_client._retry import Retry
from chorale_client._server_info import ServerInfo
from chorale_client._tables import Data, Types


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
        timeout: Seconds for each call that does not set a timeout; above 0, at most 1e9.
        connect_timeout: Seconds to wait for a server that does not accept connections yet.
        retry: How to retry calls that fail with a transient error; None: the defaults of `Retry`.

    Returns:
        A connected client. Use it as a context manager, or call `close`.

    Raises:
        UnavailableError: No server answers.
        UnauthenticatedError: The server's certificate is not trusted.
        InvalidArgumentError: The address, the token or the timeout is invalid.

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


class Client(BlockingConnection):
    """A connection to a server; created by `connect`.

    Threads may share a client. A client can be pickled: each process opens its own connections. A
    forked process cannot use the client of its parent.
    """

    def register(
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
        """Registers a table as a context.

        Registration is idempotent: registering the same table again under the same name has no
        effect.

        Args:
            data: A pandas or polars DataFrame, a PyArrow table, a dictionary of columns, or a numpy
                array. `help(chorale_client)` describes how columns are read.
            target: The name of the column to predict, or its values [rows]. They are
                numeric. A pandas Series is aligned by its labels, which must be the labels
                of the rows.
            name: The name of the context: lower-case letters, digits, ".", "_" and "-". None: a
                name derived from the content, so that registering the same table again returns the
                same context.
            model: The name of the model; None: the server's default model.
            types: {"column": "categorical" or "numeric"} for columns whose type is not inferred.
            seasons: Whether the server searches for a season of the target. If it finds one, the
                model gets the phase as an additional feature, and `Context.warnings` has an entry.
                This choice is part of the content.
            memory_rows: The size of the context's memory set: the number of keys, at least 64, to
                which each layer and K/V head of the model reduces the rows. The time of encoding
                then grows linearly with the rows, and memory and the time of calls are those of a
                context of `memory_rows` rows; predictions of most tables are less accurate. None:
                all rows. This choice is part of the content.
            memory_policy: With `memory_rows`, how the keys are chosen: "merge", "sample" or
                "heavy". Use "merge"; "heavy" is much worse than random rows of the table, and only
                with "merge" can rows be appended.
            missing_targets: What happens with rows without a target value. "reject": raise an
                error. "drop": drop them, with a warning. "query": register the other rows, and
                return these as `Context.query_rows`.
            validate_only: Whether to validate the table without registering it. The result
                describes the context that would be registered; its `estimate` has the cost.
            description: A description for people, at most 4096 bytes. The description, the labels
                and the expiry are not part of the content. If the content is already registered,
                those that are set replace the context's, and the others stay; with `replace`, all
                are replaced.
            labels: {"key": "value"}, at most 64 labels. Keys consist of lower-case letters,
                digits, "_", "-", "." and "/"; keys and values have at most 63 bytes.
            expires: The time after which the server may delete the context, with a time zone, or
                the time from now on; None: never.
            replace: Whether to replace a context of this name that has other content, in one step.
                Calls in flight finish on the earlier content. The description, the labels and the
                expiry are replaced as well.
            etag: With `replace`, the etag that the context must have (`Context.etag`); None: any.
            progress: See `Context.sample`. The blocking client calls a function on another thread.
                If the function raises an exception, the call ends with that exception.
            timeout: Seconds; None: the client's timeout.

        Returns:
            The registered context.

        Raises:
            InvalidArgumentError: The table or its target is invalid; `field` names the column or
                argument.
            AlreadyExistsError: A context with this name and different content exists, and `replace`
                is not set.
            EtagMismatchError: The context has another etag.
            ExhaustedError: The server's disk is full, or a quota is used up; see `reason`.
            FailedPreconditionError: The server's device does not support memory sets (the reason
                MEMORY_SET_UNSUPPORTED).

        Examples:
            >>> frame = pandas.read_csv("datasets/penguins.csv")
            >>> context = client.register(frame, target="body_mass_g")
            >>> some = client.register(holes, target="price", missing_targets="query")
            >>> some.sample(some.query_rows)
        """
        options = RegisterOptions(
            seasons=seasons,
            missing_targets=missing_targets,
            validate_only=validate_only,
            description=description,
            labels=labels,
            expires=expires,
            replace=replace,
            etag=etag,
            memory_rows=memory_rows,
            memory_policy=memory_policy,
        )
        job = _calls.register(data, target, name, model, types, progress, options)
        return Context(self, *self._run(job, timeout))

    def impute(
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
        """Draws the missing cells of the numeric columns of a table jointly.

        Columns are drawn one after the other, that with the fewest missing cells first. The rows
        in which a column is known are registered as a context, which is deleted afterwards. The
        missing cells of the column are drawn jointly, conditional on the other cells of their rows
        and on the draws of earlier columns. Up to `Model.buffer_size` cells of a column have a
        joint distribution; more cells are divided into groups of that size, which are independent
        of each other.

        Missing cells of other columns than numbers (categories, strings, booleans, dates,
        durations) are unchanged, with a warning (`NOT_IMPUTED`). The model reads them as missing.

        Args:
            data: A table, as for `register`.
            columns: The names of the columns to impute, which must be numeric; None: all numeric
                columns that have missing cells.
            paths: The number of completed tables.
            seed: The same seed returns the same draws. None: the client chooses a seed, which is
                `Imputation.seed`.
            model: The name of the model; None: the server's default model.
            types: {"column": "categorical" or "numeric"} for columns whose type is not inferred.
            progress: As for `register`.
            timeout: Seconds for all calls together; None: the client's timeout.

        Returns:
            Imputation: `table()` has the means of the draws in the missing cells, `tables()` are
            the completed tables, and `imputation["column"]` the draws.

        Raises:
            InvalidArgumentError: A column is not numeric, has no values, or does not exist.
            DeadlineError: The calls took longer than `timeout`.

        Examples:
            >>> imputation = client.impute(frame)
            >>> imputation.table()  # completed by means
            >>> imputation["income"].interval(0.9)  # [missing cells, 2]
            >>> slopes = [fit(table) for table in imputation.tables()]  # multiple imputation
        """
        options = ImputeOptions(columns, paths, seed, model, types)
        return self._run(impute(data, progress, options), timeout)

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
        return Context(self, self._run(_calls.get(name), timeout))

    def contexts(
        self,
        *,
        filter: str = "",  # noqa: A002 - the name of the field
        order_by: str = "name",
        timeout: float | None = None,
    ) -> list[Context]:
        """Returns contexts.

        Args:
            filter: Conditions that the contexts meet, such as `labels.team = "sales" AND
                create_time >= "2026-01-01T00:00:00Z"`; empty: all contexts. The description of
                `ListContextsRequest.filter` in `chorale.proto` specifies it.
            order_by: "name", "create_time", "update_time", "last_use_time", "expire_time",
                "row_count", "feature_count" or "dataset_bytes", optionally followed by " desc".
            timeout: Seconds; None: the client's timeout.

        Raises:
            InvalidArgumentError: The filter or the order is invalid.

        Examples:
            >>> for context in client.contexts(filter='last_use_time < "2026-01-01T00:00:00Z"'):
            ...     context.delete()
        """
        job = _calls.list_contexts(filter, order_by)
        return [Context(self, message) for message in self._run(job, timeout)]

    def models(self, *, timeout: float | None = None) -> list[Model]:
        """Returns the models that the server has loaded, sorted by name."""
        return [Model.of(message) for message in self._run(_calls.list_models(), timeout)]

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Returns the version, the device, the limits and the features of the server.

        Args:
            timeout: Seconds; None: the client's timeout.

        Raises:
            UnimplementedError: The server is older than this call.

        Examples:
            >>> client.server_info().limits.max_paths
            16384
        """
        return ServerInfo.of(self._run(_calls.server_info(), timeout))

    def delete(
        self,
        name: str,
        *,
        etag: str | None = None,
        allow_missing: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Deletes a context. Calls that already use it finish normally.

        Args:
            name: The name of the context.
            etag: The etag that the context must have; None: any.
            allow_missing: Whether to succeed if there is no such context.
            timeout: Seconds; None: the client's timeout.

        Raises:
            NotFoundError: There is no such context.
            EtagMismatchError: The context has another etag.
        """
        self._run(_calls.delete(name, etag, allow_missing=allow_missing), timeout)

    def close(self) -> None:
        """Closes the connection and cancels the calls in flight.

        These calls raise `FailedPreconditionError`.
        """
        self._closed = True
        if self._process == os.getpid():
            for channel in self._channels:
                channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"


class Context(BlockingContext[Client]):
    """A registered table; created by `Client.register` or `Client.context`.

    The object is bound to the content that the context had when the object was created, or after
    its last `append` or `warm`. If that content changes otherwise, calls raise `SourceChangedError`
    until you call `refresh`: if another table replaces it under the same name, another client
    appends rows, or the server encodes the context anew in the background after appends.
    """
