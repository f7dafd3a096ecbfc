"""The exceptions of this package, and how the server's errors become them.

Each is a `ChoraleError` and, where Python has one of the same meaning, that one too: code that
handles `ValueError` or `ConnectionError` handles these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

# A server may send anything: longer delays are cut to an hour.
_MAX_RETRY_SECONDS = 3600.0


class ChoraleError(Exception):
    """An error of the server, or of a request that cannot be sent.

    Attributes:
        code: The status, such as "INVALID_ARGUMENT".
        message: A sentence that says what is wrong and what to do.
        field: The field of the request that was refused, such as `path_count`; else None.
        fields: All fields that were refused.
        limit: The limit that was exceeded, where there is one and the server said it; else None.
        reason: A word for programs, such as "DISK_FULL"; else None.
        retry_delay: Seconds after which the server asks to try again; None if that does not help.
    """

    code = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        fields: Sequence[str] = (),
        limit: float | None = None,
        reason: str | None = None,
        retry_delay: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fields = tuple(fields)
        self.limit = limit
        self.reason = reason
        self.retry_delay = retry_delay

    @property
    def field(self) -> str | None:
        """The first of `fields`."""
        return self.fields[0] if self.fields else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.message, self.__dict__)


class InvalidArgumentError(ChoraleError, ValueError):
    """A value is malformed, has the wrong shape or type, or exceeds a limit."""

    code = "INVALID_ARGUMENT"


class NotFoundError(ChoraleError, LookupError):
    """There is no such context or model."""

    code = "NOT_FOUND"


class AlreadyExistsError(ChoraleError):
    """A context with this name and other content exists."""

    code = "ALREADY_EXISTS"


class FailedPreconditionError(ChoraleError):
    """What the call needs is not so: the context's model is not served, for example."""

    code = "FAILED_PRECONDITION"


class SourceChangedError(FailedPreconditionError):
    """The context, or its model, is not any more what the call means."""


class ExhaustedError(ChoraleError):
    """Memory, a queue, the disk or a quota is used up; see `retry_delay` and `reason`."""

    code = "RESOURCE_EXHAUSTED"


class UnauthenticatedError(ChoraleError, PermissionError):
    """The server does not know the caller, or the caller does not trust the server."""

    code = "UNAUTHENTICATED"


class PermissionDeniedError(ChoraleError, PermissionError):
    """The caller's role does not allow the call."""

    code = "PERMISSION_DENIED"


class UnavailableError(ChoraleError, ConnectionError):
    """No server answers, or it is starting, ending, or has lost its device or its store."""

    code = "UNAVAILABLE"


class DeadlineError(ChoraleError, TimeoutError):
    """The call took longer than its timeout; the server has stopped the work."""

    code = "DEADLINE_EXCEEDED"


class DataLossError(ChoraleError):
    """The server's answer is not whole."""

    code = "DATA_LOSS"


class UnimplementedError(ChoraleError, NotImplementedError):
    """The server does not have this call: it is older than this package, or another program."""

    code = "UNIMPLEMENTED"


class InternalError(ChoraleError, RuntimeError):
    """A defect of the server, or of what lies between."""

    code = "INTERNAL"


_BY_CODE: dict[str, type[ChoraleError]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        NotFoundError,
        AlreadyExistsError,
        FailedPreconditionError,
        ExhaustedError,
        UnauthenticatedError,
        PermissionDeniedError,
        UnavailableError,
        DeadlineError,
        DataLossError,
        UnimplementedError,
        InternalError,
    )
}


def _restore(kind: type[ChoraleError], message: str, state: dict[str, Any]) -> ChoraleError:
    error = kind(message)
    error.__dict__.update(state)
    return error


def _limit_in(text: str) -> float | None:
    """The number after "limit is", "at most", "up to" or "below" in a sentence of the server."""
    found = re.search(
        r"\b(?:limit is(?: \d+ to)?|at most|up to|no more than|below)\s+(-?[\d.e+]*\d)", text
    )
    return float(found.group(1)) if found else None


def _way_out(text: str) -> str:
    """What to do about a table that the server refuses; empty if its message is about another."""
    if re.search(r"\d categories; the limit is \d", text):
        return (
            ": leave the column out, if it has ids or free texts; if its texts are numbers or "
            "dates, convert them"
        )
    if re.search(r"\d feature columns; the (limit is|model takes) \d", text):
        return ": leave out those that tell least"
    return ""


def from_rpc(
    code: grpc.StatusCode, message: str | None, details: bytes | None, timeout: float
) -> ChoraleError:
    """The exception for a call that has ended with `code`.

    Args:
        code: gRPC's status; not OK.
        message: gRPC's message.
        details: The bytes of the trailing metadata "grpc-status-details-bin"; None if absent.
        timeout: Of the call, in seconds: for the message of `DeadlineError`.
    """
    text = message or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineError(f"no complete answer within {timeout:g} s: allow more by timeout=")
    if code is grpc.StatusCode.CANCELLED:
        # The caller's own cancellation never comes here: it is a server that ends, or a proxy.
        return UnavailableError(f"the server cancelled the call: {text}")
    fields: list[str] = []
    descriptions: list[str] = []
    reason: str | None = None
    retry_delay: float | None = None
    status = status_pb2.Status()
    if details:
        status.ParseFromString(details)
    for detail in status.details:
        bad_request = error_details_pb2.BadRequest()
        retry = error_details_pb2.RetryInfo()
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(bad_request):
            for violation in bad_request.field_violations:
                fields.append(violation.field)
                descriptions.append(violation.description)
                if violation.field not in text or violation.description not in text:
                    text += f"{'; ' if text else ''}{violation.field}: {violation.description}"
        elif detail.Unpack(retry):
            seconds = retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9
            retry_delay = min(max(seconds, 0.0), _MAX_RETRY_SECONDS)
        elif detail.Unpack(info):
            reason = info.reason
    if retry_delay is not None:
        text += f"{'; ' if text else ''}try again in {retry_delay:g} s"
    # The server names the field of its message, people write arguments.
    text = text.replace("set beyond_buffer to WRAP", "set wrap=True")
    text += _way_out(text)
    kind = _BY_CODE.get(code.name, ChoraleError)
    if reason == "SOURCE_CHANGED":
        kind = SourceChangedError
        text += ": call refresh() on the context to use what it is now"
    elif kind is AlreadyExistsError:
        text += ": register under another name, or delete the context first"
    error = kind(
        text or code.name,
        fields=fields,
        limit=_limit_in(" ".join(descriptions)),
        reason=reason,
        retry_delay=retry_delay,
    )
    if kind is ChoraleError:
        error.code = code.name
    return error
