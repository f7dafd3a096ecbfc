"""The requests of each method and the conversion of the responses, without I/O.

A job is a generator: it yields calls, receives the response to each, and returns the result. If a
call fails, its error is raised in the job, which may add results to it. `Client` runs a job in the
caller's thread, and `aio.Client` in an event loop. A job with several results also yields these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message

from chorale_client._data_warnings import DataWarning, read_warnings, tell
from chorale_client._encodable import check_encodable
from chorale_client._errors import ChoraleError, InternalError
from chorale_client._inputs import table_to_register
from chorale_client._known_values import KnownValues
from chorale_client._models_and_contexts import Estimate
from chorale_client._progress import Option, Progress
from chorale_client._requests import (
    MAX_CHUNK_BYTES,
    MAX_CHUNK_ROWS,
    RegisterOptions,
    encode_table,
    restore_meanings,
    split_rows,
)
from chorale_client._sampling import SampleCall
from chorale_client._tables import Data, Table, Types
from chorale_client._v1 import chorale_pb2 as pb

Result = TypeVar("Result")
Done = Callable[[int], None]  # called with the number of rows sent

PAGE_SIZE = 1000


@dataclass(frozen=True)
class Call:
    """A call of the API with a single response.

    Attributes:
        method: The name of the method.
        context: The name of the context, by which proxies route; empty if there is none.
        request: The message; for RegisterContext, a function that yields the messages.
        idempotent: Whether the call may be retried.
        rows: The numbers of the request's rows in the user's table; None: it has all rows.
        known: The known values of query rows; None: the method has none.
        convert: Returns an error about the arguments for an error of the server; None: the server's
            error is raised.
    """

    method: str
    context: str
    request: Message | Callable[[], Iterator[Message]]
    idempotent: bool = True
    rows: Sequence[int] | None = None
    known: KnownValues | None = None
    convert: Callable[[ChoraleError], ChoraleError] | None = None

    def message(self) -> Message | Iterator[Message]:
        """Returns the message, or the messages, for an attempt."""
        return self.request() if callable(self.request) else self.request


Job = Generator[Call | SampleCall, Any, Result]  # SampleCall: the answer is its messages
Results = Generator[Call | SampleCall | Result, Any, None]  # a job with several results


class Registered(NamedTuple):
    """The outcome of a registration.

    `estimate` only if the server only validated it, `query_rows` only if they were requested.
    """

    context: pb.Context
    warnings: tuple[DataWarning, ...]
    estimate: Estimate | None
    query_rows: Data = None


def register(
    data: Data,
    target: Any,
    name: str | None,
    model: str | None,
    types: Types | None,
    progress: Option,
    options: RegisterOptions,
) -> Job[Registered]:
    """Registers a user's table, and issues the warnings."""
    table, target_name, name, query_rows = table_to_register(
        data, target, name, model, types, options
    )
    with Progress(progress, table.row_count, "rows") as done:
        registered = yield from register_table(name, table, target_name, model, done, options)
    tell(registered.warnings)
    return registered._replace(query_rows=query_rows)


def register_table(
    name: str,
    table: Table,
    target: str,
    model: str | None,
    done: Done,
    options: RegisterOptions,
) -> Job[Registered]:
    """Registers a table."""
    check_encodable([name], "name:", "name")
    check_encodable([model or ""], "model:", "model")
    spec = options.spec(
        context_id=name,
        target_column=target,
        model=f"models/{model}" if model else "",
        row_count=table.row_count,
    )
    raised: list[BaseException] = []
    pieces = list(split_rows(table, MAX_CHUNK_BYTES, MAX_CHUNK_ROWS))

    def messages() -> Iterator[Message]:
        yield pb.RegisterContextRequest(spec=spec)
        for start, end in pieces:
            yield pb.RegisterContextRequest(rows=encode_table(table, start, end, meanings=True))
            try:
                done(end)
            except BaseException as error:
                raised.append(error)
                raise InternalError("progress failed") from error  # gRPC cancels the call

    try:
        answer = yield Call("RegisterContext", name, messages)
    finally:
        if raised:  # gRPC's error does not contain it
            raise raised[0] from raised[0].__cause__
    restore_meanings(answer.context, table)
    return Registered(
        answer.context,
        (*table.warnings, *read_warnings(answer.warnings)),
        Estimate.of(answer.estimate) if options.validate_only else None,
    )


def get(name: str) -> Job[pb.Context]:
    """Returns a context."""
    check_encodable([name], "name:", "name")
    context: pb.Context = yield Call(
        "GetContext", name, pb.GetContextRequest(name=f"contexts/{name}")
    )
    return context


def warm(name: str, *, encode_anew: bool) -> Job[pb.Context]:
    """Makes a context resident."""
    request = pb.WarmContextRequest(name=f"contexts/{name}", encode_anew=encode_anew)
    context: pb.Context = yield Call("WarmContext", name, request)
    return context


def delete(name: str, etag: str | None, *, allow_missing: bool) -> Job[None]:
    """Deletes a context.

    Not retried unless `allow_missing`: if the response was lost, a retry would find no context.
    """
    check_encodable([name, etag or ""], "name:", "name")
    request = pb.DeleteContextRequest(
        name=f"contexts/{name}", etag=etag or "", allow_missing=allow_missing
    )
    yield Call("DeleteContext", name, request, idempotent=allow_missing)


def list_contexts(matching: str, order_by: str) -> Job[list[pb.Context]]:
    """Returns the contexts that match a filter."""
    check_encodable([matching, order_by], "filter and order_by:", "filter")
    request = functools.partial(
        pb.ListContextsRequest,
        filter=matching,
        order_by=order_by,
        view=pb.CONTEXT_VIEW_FULL,
    )
    return _list("ListContexts", request, "contexts")


def list_models() -> Job[list[pb.Model]]:
    """Returns all models."""
    return _list("ListModels", pb.ListModelsRequest, "models")


def server_info() -> Job[pb.ServerInfo]:
    """Returns the description of the server."""
    info: pb.ServerInfo = yield Call("GetServerInfo", "", pb.GetServerInfoRequest())
    return info


def _list(method: str, request: Callable[..., Message], field: str) -> Job[list[Any]]:
    """Returns the entries of all pages."""
    found: list[Any] = []
    token = ""
    tokens = set()
    while True:
        answer = yield Call(method, "", request(page_size=PAGE_SIZE, page_token=token))
        found += getattr(answer, field)
        token = answer.next_page_token
        if not token:
            return found
        if token in tokens:
            raise InternalError(
                "the server returned the same page token twice: the list would not end"
            )
        tokens.add(token)
