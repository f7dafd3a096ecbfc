"""The calls about a registered table."""

from __future__ import annotations

from typing import Any

from chorale_client import _appends, _calls
from chorale_client._appends import Appended, AppendOptions
from chorale_client._blocking_inference import BlockingInference, ClientT
from chorale_client._requests import MissingTargets
from chorale_client._tables import Data


class BlockingContext(BlockingInference[ClientT]):
    """The methods of `Context`, which is in the module of its client."""

    def append(
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
        """Appends rows to the context, and binds this object to the new content.

        The rows are durable when the call returns, and the next call uses them. The server encodes
        the new rows alone. Until it encodes the context anew, the rows before the first append
        determine how columns are scaled and which categories the model distinguishes. The server
        encodes the context anew in the background when many rows were appended, or with
        `warm(encode_anew=True)`. In the background, this changes the content of this object at a
        time that you cannot predict: the next call then raises `SourceChangedError`; call `refresh`
        and repeat it.

        If the call fails without a response, by its timeout, a lost connection or Ctrl-C, the rows
        may have been appended. Repeat it with the same object: it does not append rows twice.

        Args:
            rows: A table with the context's feature columns and its target, in any order, whose
                message fits into `ServerLimits.max_message_bytes`. Other columns are not sent.
                Cells are read by the meaning of the context's column, like those of `predict`.
            target: [rows]: the values of the target. A Series is aligned by its labels. None: the
                column of `rows` with the name of the target.
            first_row: The number of rows that the context has before the append; None:
                `self.row_count`. If it has exactly these rows after its first `first_row` rows
                already, the call changes nothing, so that it can be repeated.
            etag: The etag that the context must have, such as `self.etag`; None: any.
            missing_targets: "reject": raise an error if rows have no target value. "drop": drop
                these rows.
            validate_only: Whether to validate the rows without appending them.
            timeout: Seconds; None: the client's timeout.

        Returns:
            Appended: `row_count`, `already_appended`, `warnings` and, with `validate_only`,
            `estimate`.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded.
            NotFoundError: The context was deleted.
            RowCountMismatchError: The context has another number of rows than `first_row`, for
                example because another client has appended rows. Call `refresh`.
            SourceChangedError: The context's content has changed. Call `refresh`.
            EtagMismatchError: The context has another etag. Call `refresh`.
            FailedPreconditionError: The server's device cannot append rows, or the context is
                reduced to a memory set with a policy other than "merge" (`reason`
                APPEND_UNSUPPORTED).
            ExhaustedError: The disk is full, or a quota or a limit of memory is exceeded.
            UnimplementedError: The server is too old to append rows.

        Examples:
            >>> context.append(todays_rows)
            >>> context.warm(encode_anew=True)  # at night
        """
        options = AppendOptions(first_row, etag, missing_targets, validate_only)
        job = _appends.append(self, rows, target, options)
        appended, message = self._client._run(job, timeout)
        if not validate_only:
            self._message = message
        return appended

    def warm(self, *, encode_anew: bool = False, timeout: float | None = None) -> None:
        """Makes the context resident, so that the next call does not wait for encoding.

        Args:
            encode_anew: Whether to encode a context with appended rows anew as a whole, as if all
                rows had been registered together. Once begun, this continues on the server if the
                call ends early.
            timeout: Seconds; None: the client's timeout.

        Raises:
            NotFoundError: The context was deleted.
        """
        job = _calls.warm(self.name, encode_anew=encode_anew)
        self._message = self._client._run(job, timeout)

    def refresh(self, *, timeout: float | None = None) -> None:
        """Binds this object to the current content of the context.

        Args:
            timeout: Seconds; None: the client's timeout.

        Raises:
            NotFoundError: The context was deleted.
        """
        self._message = self._client._run(_calls.get(self.name), timeout)

    def delete(
        self,
        *,
        etag: str | None = None,
        allow_missing: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Deletes the context. Calls that already use it finish normally.

        Args:
            etag: The etag that the context must have, such as `self.etag`; None: any.
            allow_missing: Whether to succeed if the context was already deleted.
            timeout: Seconds; None: the client's timeout.

        Raises:
            NotFoundError: The context was already deleted.
            EtagMismatchError: The context has another etag.
        """
        self._client._run(_calls.delete(self.name, etag, allow_missing=allow_missing), timeout)
