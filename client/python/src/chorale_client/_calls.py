"""The requests of each method and the conversion of the responses, without I/O.

A job is a generator: it yields calls, receives the response to each, and returns the result.
`Client` runs it in the caller's thread, and `aio.Client` in an event loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from chorale_client._columns import Floats
from chorale_client._data_warnings import DataWarning, merge_warnings, read_warnings, tell
from chorale_client._encodable import check_encodable
from chorale_client._errors import DataLossError, InternalError, InvalidArgumentError
from chorale_client._inputs import query_rows, query_values, table_to_register
from chorale_client._log_densities import LogDensities
from chorale_client._models_and_contexts import Description, Estimate, Source
from chorale_client._predictions import Mixtures, Predictions
from chorale_client._progress import Option, Progress
from chorale_client._requests import (
    MAX_CHUNK_BYTES,
    MAX_CHUNK_ROWS,
    MAX_PREDICT_BYTES,
    LogDensityOptions,
    RegisterOptions,
    beyond_buffer,
    check_rows,
    check_size,
    cut_texts,
    encode_table,
    local_row_count,
    max_predict_rows,
    probabilities,
    restore_meanings,
    seed_number,
    snapping,
    split_rows,
    whole_number,
)
from chorale_client._tables import Data, Table, Types
from chorale_client._v1 import chorale_pb2 as pb

Result = TypeVar("Result")
Done = Callable[[int], None]  # called with the number of rows sent

PAGE_SIZE = 1000
_MAX_DENSITY_BYTES = 2 << 20  # the values of a call, and its terms and cdfs


@dataclass(frozen=True)
class Call:
    """A call of the API with a single response.

    Attributes:
        method: The name of the method.
        context: The name of the context, by which proxies route; empty if there is none.
        request: The message; for RegisterContext, a function that yields the messages.
        idempotent: Whether the call may be retried.
        first_row: The row of the user's table with which the request begins.
    """

    method: str
    context: str
    request: Message | Callable[[], Iterator[Message]]
    idempotent: bool = True
    first_row: int = 0

    def message(self) -> Message | Iterator[Message]:
        """Returns the message, or the messages, for an attempt."""
        return self.request() if callable(self.request) else self.request


Job = Generator[Call, Any, Result]


class Registered(NamedTuple):
    """The outcome of a registration; `estimate` only if the server only validated it."""

    context: pb.Context
    warnings: tuple[DataWarning, ...]
    estimate: Estimate | None


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
    table, target_name, name = table_to_register(data, target, name, model, types, options)
    with Progress(progress, table.row_count, "rows") as done:
        registered = yield from register_table(name, table, target_name, model, done, options)
    tell(registered.warnings)
    return registered


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


def predict(
    context: Description[Any],
    rows: Data,
    quantiles: object,
    *,
    mixtures: bool,
    snap: bool,
    local_rows: int | None,
) -> Job[Predictions]:
    """Predicts rows, in calls of limited size; later calls expect the source of the first."""
    table = query_rows(context, rows)
    check_rows(table)
    source, target = context.source, context.target
    wanted = probabilities(quantiles)
    cut = cut_texts(table)
    local = local_row_count(local_rows)
    answers: list[pb.PredictResponse] = []
    for start, end in split_rows(cut, MAX_PREDICT_BYTES, max_predict_rows(local)):
        request = pb.PredictRequest(
            context=f"contexts/{context.name}",
            rows=encode_table(cut, start, end),
            quantiles=wanted,
            include_mixtures=mixtures,
            snapping=snapping(snap),
            local_row_count=local,
            expected_source=source.message(),
        )
        answer: pb.PredictResponse = yield Call("Predict", context.name, request, first_row=start)
        source = Source.of(answer.source)
        _check_count("means", answer.means, end - start)
        _check_count("standard deviations", answer.stds, end - start)
        _check_count("quantiles", answer.quantiles, (end - start) * len(wanted))
        answers.append(answer)
    predictions = Predictions(
        means=_joined(answer.means for answer in answers),
        stds=_joined(answer.stds for answer in answers),
        quantiles=_joined(answer.quantiles for answer in answers).reshape(
            table.row_count, len(wanted)
        ),
        probabilities=np.array(wanted),
        mixtures=_mixtures([answer.mixtures for answer in answers]) if mixtures else None,
        labels=table.labels,
        target=target,
        source=source,
        warnings=(
            *table.warnings,
            *merge_warnings(read_warnings(answer.warnings) for answer in answers),
        ),
    )
    tell(predictions.warnings)
    return predictions


def log_density(
    context: Description[Any],
    rows: Data,
    values: npt.ArrayLike | None,
    options: LogDensityOptions,
) -> Job[LogDensities]:
    """Returns log-densities of vectors of values, in calls of limited size."""
    orders, seed, terms, cdfs, wrap, local_rows = options
    table = query_rows(context, rows)
    given = query_values(context, rows, table, values)
    check_rows(table)
    source, target = context.source, context.target
    vectors = _vectors(given, table.row_count)
    orders = whole_number("orders", orders, 0)
    for name, wanted in (("terms", terms), ("cdfs", cdfs)):
        if wanted and orders:
            raise InvalidArgumentError(
                f"{name}: not available with random orders: omit {name} or orders", fields=[name]
            )
    encoded = encode_table(cut_texts(table))
    numbers_per_value = max(1, terms + cdfs)
    at_once = max(1, _MAX_DENSITY_BYTES // (8 * table.row_count * numbers_per_value))
    number = seed_number(seed)
    answers: list[pb.LogDensityResponse] = []
    for start in range(0, len(vectors), at_once):
        piece = vectors[start : start + at_once]
        request = pb.LogDensityRequest(
            context=f"contexts/{context.name}",
            rows=encoded,
            values=piece.ravel(),
            random_order_count=orders,
            seed=number,
            include_terms=terms,
            include_cdfs=cdfs,
            beyond_buffer=beyond_buffer(wrap),
            local_row_count=local_row_count(local_rows),
            expected_source=source.message(),
        )
        check_size(request.ByteSize())
        answer: pb.LogDensityResponse = yield Call("LogDensity", context.name, request)
        source = Source.of(answer.source)
        number = answer.seed
        _check_count("log-densities", answer.log_densities, len(piece))
        errors = len(piece) if orders > 1 else 0
        _check_count("standard errors", answer.standard_errors, errors)
        _check_count("terms", answer.terms, piece.size if terms else 0)
        _check_count("cumulative probabilities", answer.cdfs, piece.size if cdfs else 0)
        answers.append(answer)
    densities = LogDensities(
        joint=_joined(answer.log_densities for answer in answers),
        standard_errors=(
            _joined(answer.standard_errors for answer in answers) if orders > 1 else None
        ),
        terms=_joined(a.terms for a in answers).reshape(vectors.shape) if terms else None,
        cdfs=_joined(a.cdfs for a in answers).reshape(vectors.shape) if cdfs else None,
        seed=number if orders else None,
        labels=table.labels,
        target=target,
        source=source,
        warnings=(*table.warnings, *read_warnings(answers[0].warnings)),
    )
    tell(densities.warnings)
    return densities


def _vectors(values: npt.ArrayLike, row_count: int) -> Floats:
    """Returns the values as [vectors, rows]."""
    try:
        vectors = np.atleast_2d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"values: {error}", fields=["values"]) from None
    if vectors.ndim != 2 or vectors.shape[1] != row_count or not len(vectors):
        raise InvalidArgumentError(
            f"values: the shape is {np.shape(values)}, must be ({row_count},) or "
            f"(vectors, {row_count}): a value for each row",
            fields=["values"],
        )
    bad = ~np.isfinite(vectors)
    if bad.any():
        vector, row = np.argwhere(bad)[0].tolist()
        raise InvalidArgumentError(
            f"values: {vectors[vector, row]} in vector {vector} at row {row}, all must be finite",
            fields=["values"],
        )
    return vectors


def _mixtures(messages: Sequence[pb.Mixtures]) -> Mixtures:
    shape = (-1, messages[0].component_count)
    return Mixtures(
        _joined(message.means for message in messages).reshape(shape),
        _joined(message.stds for message in messages).reshape(shape),
        _joined(message.weights for message in messages).reshape(shape),
    )


def _joined(parts: Iterable[Sequence[float]]) -> Floats:
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


def _check_count(what: str, numbers: Sequence[float], expected: int) -> None:
    if len(numbers) != expected:
        raise DataLossError(f"the server sent {len(numbers)} {what} instead of {expected}")
