"""A gRPC server in this process that answers what a test tells it to, and remembers the calls."""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import grpc
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._v1 import chorale_pb2_grpc as rpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

UNARY = [
    "Summarize",
    "AppendRows",
    "GetContext",
    "ListContexts",
    "DeleteContext",
    "WarmContext",
    "Predict",
    "LogDensity",
    "GetModel",
    "ListModels",
    "GetServerInfo",
]


@dataclass
class Failure:
    """An error with its details."""

    code: grpc.StatusCode
    message: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    retry_delay: float | None = None
    reason: str | None = None
    domain: str = "chorale"

    def end(self, context: grpc.ServicerContext) -> None:
        details: list[Any] = []
        if self.fields:
            bad = error_details_pb2.BadRequest()
            for field, description in self.fields:
                bad.field_violations.add(field=field, description=description)
            details.append(bad)
        if self.retry_delay is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromNanoseconds(int(self.retry_delay * 1e9))
            details.append(retry)
        if self.reason:
            details.append(error_details_pb2.ErrorInfo(reason=self.reason, domain=self.domain))
        if details:
            status = status_pb2.Status(code=self.code.value[0], message=self.message)
            for detail in details:
                packed = any_pb2.Any()
                packed.Pack(detail)
                status.details.append(packed)
            context.set_trailing_metadata(
                (("grpc-status-details-bin", status.SerializeToString()),)
            )
        context.abort(self.code, self.message)


@dataclass
class Received:
    """A call that came."""

    method: str
    request: Any  # of RegisterContext a list of messages
    metadata: dict[str, Any]


class Hang:
    """Never answers; says when the call has come, and when it was cancelled."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.cancelled = threading.Event()

    def watch(self, context: grpc.ServicerContext) -> None:
        """When the call begins: gRPC takes none further that is cancelled on its way here."""
        if not context.add_callback(self.cancelled.set):
            self.cancelled.set()

    def wait(self) -> None:
        self.begun.set()
        self.cancelled.wait()


class FakeChorale(rpc.ChoraleServicer):
    """`answers[method]` is a queue: messages, `Failure`s, `Hang`s or functions of the request.

    Of Sample an answer is a list of these.
    """

    def __init__(self) -> None:
        self.answers: dict[str, collections.deque[Any]] = collections.defaultdict(collections.deque)
        self.calls: list[Received] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(16))
        for method in UNARY:
            setattr(self, method, self._unary(method))
        rpc.add_ChoraleServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> FakeChorale:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def requests(self, method: str) -> list[Any]:
        return [call.request for call in self.calls if call.method == method]

    def context(self, **fields: Any) -> pb.Context:
        """What GetContext answers next: a context with two features."""
        message = pb.Context(
            name="contexts/houses",
            digest="d1",
            model="models/default",
            target_column="price",
            row_count=3,
            **fields,
        )
        message.features.add(name="area", type=pb.ColumnSummary.TYPE_NUMERIC)
        message.features.add(name="town", type=pb.ColumnSummary.TYPE_CATEGORICAL, category_count=2)
        self.answers["GetContext"].append(message)
        return message

    def _next(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        self.calls.append(Received(method, request, dict(context.invocation_metadata())))
        if not self.answers[method]:
            context.abort(grpc.StatusCode.INTERNAL, f"no answer is left for {method}")
        answer = self.answers[method].popleft()
        for part in answer if isinstance(answer, list) else [answer]:
            if isinstance(part, Hang):
                part.watch(context)
        return answer

    def _give(self, answer: Any, request: Any, context: grpc.ServicerContext) -> Any:
        if isinstance(answer, Failure):
            answer.end(context)
        if isinstance(answer, Hang):
            answer.wait()
            return None
        return answer(request) if callable(answer) else answer

    def _unary(self, method: str) -> Any:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            return self._give(self._next(method, request, context), request, context)

        return answer

    def RegisterContext(self, messages: Iterator[Any], context: grpc.ServicerContext) -> Any:
        request = list(messages)
        return self._give(self._next("RegisterContext", request, context), request, context)

    def Sample(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        for answer in self._next("Sample", request, context):
            given = self._give(answer, request, context)
            if given is not None:
                yield given


def block(first_path: int, first_step: int, values: Any, **more: Any) -> pb.SampleBlock:
    """A block of values [paths, steps]."""
    return pb.SampleBlock(
        first_path=first_path,
        path_count=len(values),
        first_step=first_step,
        step_count=len(values[0]),
        values=[value for path in values for value in path],
        **more,
    )


def blocks(*some: pb.SampleBlock) -> pb.SampleResponse:
    return pb.SampleResponse(blocks=pb.SampleBlocks(blocks=some))


def in_precision(request: pb.SampleRequest, message: pb.SampleResponse) -> pb.SampleResponse:
    """The message, with float32 values if the request asks for them."""
    if request.float32_values:
        for one in message.blocks.blocks:
            one.float_values[:], one.float_log_densities[:] = one.values, one.log_densities
            del one.values[:], one.log_densities[:]
    return message


def summary(seed: int = 7, **more: Any) -> pb.SampleResponse:
    message = pb.SampleSummary(seed=seed, **more)
    message.source.context_digest, message.source.model_digest = "d1", "m1"
    return pb.SampleResponse(summary=message)
