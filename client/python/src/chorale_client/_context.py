"""The calls about a registered table."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any, TypeVar

import numpy.typing as npt

from chorale_client import _appends, _calls
from chorale_client._appends import Appended, AppendOptions
from chorale_client._blocking_connection import BlockingConnection
from chorale_client._data_warnings import tell
from chorale_client._log_densities import LogDensities
from chorale_client._models_and_contexts import Description, Estimate
from chorale_client._predictions import Predictions
from chorale_client._progress import Option
from chorale_client._requests import LogDensityOptions, MissingTargets, Order, SampleOptions
from chorale_client._samples import Samples
from chorale_client._sampling import Assembly, Block, SampleCall, read_blocks
from chorale_client._tables import Data
from chorale_client._wire import SampleMessage

ClientT = TypeVar("ClientT", bound=BlockingConnection)


class BlockingContext(Description[ClientT]):
    """The methods of `Context`, which is in the module of its client."""

    def predict(
        self,
        rows: Data,
        *,
        quantiles: npt.ArrayLike = (),
        mixtures: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> Predictions:
        """Returns marginal predictions, each row regardless of the others.

        For sums, maxima and ranks over rows, use `sample`.

        Args:
            rows: A table with the context's feature columns, in any order. Other columns are not
                sent. Cells are read by the meaning of the context's column (`Feature.meaning`).
            quantiles: Probabilities between 0 and 1, at most 64.
            mixtures: Whether to return the predictive distributions.
            snap: Whether to snap quantiles to the possible values of the target, if the context
                repeats target values, as counts do. Means and standard deviations are not snapped.
            local_rows: The number of rows of the context that each call uses: those nearest to its
                rows, at most `local_rows` / 32 of `rows` per call. They are encoded for each call.
                None: all rows.
            timeout: Seconds for all calls together; None: the client's timeout.

        Returns:
            Predictions: `means` [rows], `stds` [rows] and `quantiles` [rows, probabilities], in
            the target's unit.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded.
            NotFoundError: The context was deleted.
            SourceChangedError: The context's content has changed. Call `refresh`.
            DeadlineError: The calls took longer than `timeout`.

        Examples:
            >>> predictions = context.predict(rows, quantiles=[0.05, 0.95])
            >>> predictions.to_frame()  # columns "mean", "std", "q05", "q95"
        """
        job = _calls.predict(
            self, rows, quantiles, mixtures=mixtures, snap=snap, local_rows=local_rows
        )
        return self._client._run(job, timeout)

    def sample(
        self,
        rows: Data,
        *,
        paths: int = 1000,
        seed: int | None = None,
        order: Order = "given",
        log_densities: bool = False,
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        progress: Option = None,
        timeout: float | None = None,
    ) -> Samples:
        """Draws joint samples.

        On each path, the value of each row is drawn conditional on the values already drawn.

        Args:
            rows: A table with the context's feature columns, in any order. Other columns are not
                sent.
            paths: The number of joint samples.
            seed: The same seed returns the same samples. None: the server chooses a seed, which is
                `Samples.seed` of the result. Two calls with the same seed for different rows of a
                context are not independent.
            order: The order in which a path draws its rows: "given", or "random" for each path.
            log_densities: Whether to return the log-density of each value.
            wrap: Whether to allow more rows than the model was trained for (`Model.buffer_size`).
            snap: Whether to snap values to the possible values of the target, if the context
                repeats target values: counts become integers, and small amounts of a target that
                is mostly zero become zero. Log-densities are those of the values before snapping.
            local_rows: The number of rows of the context that the call uses: those nearest to
                `rows`. They are encoded for this call. None: all rows.
            progress: True: show a progress bar; False: do not; a function: call it with (done,
                total); None: show a bar if the call takes longer than a second and standard error
                is a terminal or the code runs in a notebook.
            timeout: Seconds; None: the client's timeout.

        Returns:
            Samples: `values` [paths, rows], in the target's unit.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded;
                `field` and `limit` name them.
            NotFoundError: The context was deleted.
            SourceChangedError: The context's content has changed. Call `refresh`.
            ExhaustedError: The server was too busy for every attempt, or the request needs more
                memory than it has.
            DeadlineError: The call took longer than `timeout`.

        Examples:
            >>> samples = context.sample(rows, paths=1000, seed=1)
            >>> (samples.sum() > 105_000).mean()  # the probability that the sum exceeds 105,000
        """
        options = SampleOptions(paths, seed, order, log_densities, wrap, snap, local_rows)
        call = SampleCall.about(self, rows, options)
        messages = self._client._messages(call, timeout)
        with call.progress(progress) as done, contextlib.closing(messages):
            assembly = Assembly(call, done)
            for message in messages:
                assembly.add(message)
        return assembly.finish()

    def stream(
        self,
        rows: Data,
        *,
        paths: int = 1000,
        seed: int | None = None,
        order: Order = "given",
        log_densities: bool = False,
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> Generator[Block, None, None]:
        """Draws joint samples as `sample` does, and yields blocks as they are drawn.

        The order of the paths is undefined. To cancel the call, close the generator or drop it.

        Args:
            rows: A table, as for `sample`.
            paths: The number of joint samples.
            seed: As for `sample`. None: the server chooses a seed, and does not return it.
            order: "given" or "random", as for `sample`.
            log_densities: Whether to return the log-density of each value.
            wrap: Whether to allow more rows than the model was trained for.
            snap: Whether to snap values to the possible values of the target.
            local_rows: As for `sample`.
            timeout: Seconds for the whole stream; None: the client's timeout.

        Yields:
            Block: `values` [paths, steps], in the target's unit.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded.
            ChoraleError: Another error of `sample`. It may occur after some blocks.

        Examples:
            >>> for block in context.stream(rows, paths=1000):
            ...     print(block.first_path, block.values.shape)
        """
        options = SampleOptions(paths, seed, order, log_densities, wrap, snap, local_rows)
        call = SampleCall.about(self, rows, options)
        tell(call.rows.warnings)
        return _blocks(self._client._messages(call, timeout))

    def validate_sample(
        self,
        rows: Data,
        *,
        paths: int = 1000,
        order: Order = "given",
        log_densities: bool = False,
        wrap: bool = False,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> Estimate:
        """Validates a call of `sample` without drawing samples.

        Args:
            rows: A table, as for `sample`.
            paths: The number of joint samples.
            order: "given" or "random", as for `sample`.
            log_densities: Whether to return the log-density of each value.
            wrap: Whether to allow more rows than the model was trained for.
            local_rows: As for `sample`.
            timeout: Seconds; None: the client's timeout.

        Returns:
            Estimate: the device memory and the time that the call needs, once the context is
            resident.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded;
                `field` and `limit` name them.
            NotFoundError: The context was deleted.
            UnimplementedError: The server is too old to validate calls.

        Examples:
            >>> context.validate_sample(rows, paths=10_000).seconds
        """
        options = SampleOptions(paths, None, order, log_densities, wrap, True, local_rows)
        call = SampleCall.about(self, rows, options, validate_only=True)
        with contextlib.closing(self._client._messages(call, timeout)) as messages:
            return call.estimate(list(messages))

    def log_density(
        self,
        rows: Data,
        values: npt.ArrayLike | None = None,
        *,
        orders: int = 0,
        seed: int | None = None,
        terms: bool = False,
        cdfs: bool = False,
        wrap: bool = False,
        local_rows: int | None = None,
        timeout: float | None = None,
    ) -> LogDensities:
        """Returns the joint log-density of values of the rows.

        Args:
            rows: A table with the context's feature columns.
            values: [rows] or [vectors, rows], in the target's unit. None: the column of `rows` with
                the name of the target. A pandas Series is aligned by its labels, and a DataFrame by
                its column names, which must be the labels of the rows.
            orders: The number of random orders of the rows over which the density is averaged; 0:
                the given order.
            seed: The seed of the random orders; None: the server chooses a seed.
            terms: Whether to return the term of each row; not with random orders.
            cdfs: Whether to return the cumulative probability of each value; not with random
                orders.
            wrap: Whether to allow more rows than the model was trained for.
            local_rows: As for `sample`.
            timeout: Seconds for all calls together; None: the client's timeout.

        Returns:
            LogDensities: `joint` [vectors], natural logarithms of densities per unit of the
            target. `float()` converts a result with a single vector.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded.
            NotFoundError: The context was deleted.
            SourceChangedError: The context's content has changed. Call `refresh`.
            DeadlineError: The calls took longer than `timeout`.

        Examples:
            >>> actual = [3700.0, 4100.0, 5250.0]  # a value for each row
            >>> float(context.log_density(rows, actual))
        """
        options = LogDensityOptions(orders, seed, terms, cdfs, wrap, local_rows)
        job = _calls.log_density(self, rows, values, options)
        return self._client._run(job, timeout)

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


def _blocks(messages: Generator[SampleMessage, None, None]) -> Generator[Block, None, None]:
    with contextlib.closing(messages):
        for message in messages:
            yield from read_blocks(message)
