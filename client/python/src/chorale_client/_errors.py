"""The exceptions of this package.

All derive from `ChoraleError`. If Python has a built-in exception of the same meaning, such as
`ValueError` or `ConnectionError`, the exception also derives from that class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

# The domain of the server's reasons. A proxy may add reasons of its own.
_DOMAIN = "chorale"

# Longer delays are reduced to an hour, because a server may send any value.
_MAX_RETRY_SECONDS = 3600.0


class ChoraleError(Exception):
    """An error of the server, or of a request that cannot be sent.

    Attributes:
        code: The status code, such as "INVALID_ARGUMENT".
        message: The error and the remedy, as human-readable text.
        field: The invalid field of the request, such as `path_count`; None if there is none.
        fields: All invalid fields.
        limit: The exceeded limit, if the server returned it; otherwise None.
        reason: The machine-readable reason of the server, such as "CONTEXT_NOT_FOUND"; the header
            of `chorale.proto` lists the reasons. None for errors of the client and of the
            connection.
        retry_delay: Seconds after which to retry the call; None if a retry does not help.
        samples: The complete first paths of a call of `Context.sample` that has ended early, as
            `Samples`; None if there are none.
        predictions: The predictions of a call of `Context.predict` that has ended early, as
            `Predictions` of the rows that are predicted; None if there are none.

    Examples:
        >>> try:
        ...     samples = context.sample(rows, paths=10**9)
        ... except chorale_client.InvalidArgumentError as error:
        ...     print(error.field, error.limit)
    """

    code = "UNKNOWN"
    samples: Any = None
    predictions: Any = None

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
    """The context or model does not exist, or belongs to another tenant."""

    code = "NOT_FOUND"


class AlreadyExistsError(ChoraleError):
    """A context with this name and different content exists."""

    code = "ALREADY_EXISTS"


class EtagMismatchError(ChoraleError):
    """The context does not have the etag of the request. See `Context.refresh`."""

    code = "ABORTED"


class RowCountMismatchError(ChoraleError):
    """The context has another number of rows than the append expects. See `Context.refresh`."""

    code = "ABORTED"


class FailedPreconditionError(ChoraleError):
    """The state of the server or the client does not allow the call.

    For example, the context's model is not served.
    """

    code = "FAILED_PRECONDITION"


class SourceChangedError(FailedPreconditionError):
    """The content of the context, or its model, is another one. See `Context.refresh`.

    The content was replaced, or another client has appended rows, or the server has encoded the
    context anew in the background after appends.
    """


class ExhaustedError(ChoraleError):
    """Memory, a queue, the disk or a quota is used up; see `retry_delay` and `reason`."""

    code = "RESOURCE_EXHAUSTED"


class UnauthenticatedError(ChoraleError, PermissionError):
    """The server cannot identify the caller, or the client does not trust the server."""

    code = "UNAUTHENTICATED"


class PermissionDeniedError(ChoraleError, PermissionError):
    """The caller's role does not allow the call."""

    code = "PERMISSION_DENIED"


class UnavailableError(ChoraleError, ConnectionError):
    """No server answers, or the server is starting or draining, or its device or store failed."""

    code = "UNAVAILABLE"


class DeadlineError(ChoraleError, TimeoutError):
    """The call took longer than its timeout. The server stops its work.

    Rows of an append may have been stored, and `warm(encode_anew=True)` continues.
    """

    code = "DEADLINE_EXCEEDED"


class DataLossError(ChoraleError):
    """The server's response is incomplete, or the context's dataset is damaged on the server."""

    code = "DATA_LOSS"


class UnimplementedError(ChoraleError, NotImplementedError):
    """The server does not support the call: it is older than this package, or another program."""

    code = "UNIMPLEMENTED"


class InternalError(ChoraleError, RuntimeError):
    """A defect of the server or of a proxy."""

    code = "INTERNAL"


_BY_CODE: dict[str, type[ChoraleError]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        NotFoundError,
        AlreadyExistsError,
        EtagMismatchError,
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
    """Returns the number after "limit is", "at most", "up to" or "below" in a message."""
    found = re.search(
        r"\b(?:limit is(?: \d+ to)?|at most|up to|no more than|below)\s+(-?[\d.e+]*\d)", text
    )
    return float(found.group(1)) if found else None


def _way_out(text: str) -> str:
    """Returns the remedy for a table that the server rejects; empty for other messages."""
    if re.search(r"\d (or more )?categories( over all messages)?; the limit is \d", text):
        return (
            ": drop the column if it contains IDs or free text; convert it if it contains numbers "
            "or dates"
        )
    features = re.search(r"\d feature columns; the (limit is|model takes) \d", text)
    if features and "least informative" not in text:
        return ": drop the least informative columns"
    return ""


def count_rows_by(error: ChoraleError, numbers: Sequence[int]) -> None:
    """Changes the row numbers of an error about a part of a table to those of the table.

    Args:
        error: The error.
        numbers: [rows of the part]: the numbers of its rows in the table.
    """

    def number(row: re.Match[str]) -> str:
        return str(numbers[int(row[0])]) if int(row[0]) < len(numbers) else row[0]

    def counted(text: str) -> str:
        return re.sub(r'(?<="\]\.strings\.values\[)\d+', number, text)

    error.message = counted(error.message)
    error.args = (error.message,)
    error.fields = tuple(map(counted, error.fields))


def from_rpc(
    code: grpc.StatusCode, message: str | None, details: bytes | None, timeout: float
) -> ChoraleError:
    """Returns the exception for a call that has ended with `code`.

    Args:
        code: gRPC's status code; not OK.
        message: gRPC's message.
        details: The bytes of the trailing metadata "grpc-status-details-bin"; None if absent.
        timeout: The timeout of the call in seconds, for the message of `DeadlineError`.
    """
    text = message or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineError(f"no complete response within {timeout:g} s: increase timeout")
    if code is grpc.StatusCode.CANCELLED:
        # By a server that stops, or a proxy: a cancellation by the caller does not reach this code.
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
        elif detail.Unpack(info) and info.domain == _DOMAIN:
            reason = info.reason
    if retry_delay is not None:
        text += f"{'; ' if text else ''}try again in {retry_delay:g} s"
    # The server names the field of the message; users set the argument.
    text = text.replace("set beyond_buffer to BEYOND_BUFFER_WRAP", "set wrap=True")
    text = text.replace("set local_row_count", "set local_rows")
    text += _way_out(text)
    kind = _BY_CODE.get(code.name, ChoraleError)
    if reason == "SOURCE_CHANGED":
        kind = SourceChangedError
        text += ": call refresh() on the context to use its current content"
    elif reason == "ROW_COUNT_MISMATCH":
        kind = RowCountMismatchError
        text += ": call refresh() on the context to read its number of rows"
    elif reason == "ETAG_MISMATCH":
        text += ": call refresh() on the context to read its etag"
    elif kind is AlreadyExistsError:
        text += ": set replace=True, or register under another name"
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
