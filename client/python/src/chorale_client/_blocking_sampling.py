"""The calls that draw joint samples of query rows of a registered table."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from chorale_client._blocking_connection import BlockingConnection
from chorale_client._data_warnings import tell
from chorale_client._models_and_contexts import Description, Estimate
from chorale_client._options import Order, SampleOptions, Sampling, Total
from chorale_client._progress import Option
from chorale_client._samples import Samples
from chorale_client._sampling import Assembly, Block, SampleCall
from chorale_client._tables import Data
from chorale_client._wire import SampleMessage

ClientT = TypeVar("ClientT", bound=BlockingConnection)


class BlockingSampling(Description[ClientT]):
    """The methods of `Context` that draw values of query rows."""

    def sample(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        total: Total = None,
        paths: int = 1000,
        seed: int | None = None,
        first_path: int = 0,
        order: Order = "given",
        sampling: Sampling = "independent",
        log_densities: bool = False,
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        dtype: npt.DTypeLike = np.float64,
        progress: Option = None,
        timeout: float | None = None,
    ) -> Samples:
        """Draws joint samples.

        On each path, the value of each row is drawn conditional on the values already drawn.

        If the call ends early, the exception has the paths that are complete, as `samples`: after
        Ctrl-C (`KeyboardInterrupt`; in an interactive session `sys.last_value.samples`), if a task
        is cancelled, and with `DeadlineError`, `UnavailableError` and other errors of this package.
        Not with `total`, because the weights of the paths come at the end.

        Args:
            rows: A table with the context's feature columns, in any order. Other columns are not
                sent.
            given: Known values of the target in some rows, on which the values of the other rows
                are conditional. As for `predict`; or [paths, rows]: the values of each path, with
                NaN in the same rows of each path. A DataFrame, such as `to_frame()` of earlier
                samples, is aligned by its column names and may lack rows.
            groupby: The groups of the rows, as for `predict`. Each group has a joint distribution
                of its own: its values are conditional on values of the same group, and independent
                of other groups.
            total: The known sum of the values of all rows, known values included: a number, or a
                pair of a lower and an upper end, of which None is no end. With `groupby`, that of
                each group, or a mapping of labels, such as a Series, to the totals of groups. The
                paths get weights (`Samples.log_weights`), with which they have the distribution
                given the total: `Samples.resample` returns paths without weights.
            paths: The number of joint samples, of each group.
            seed: The same seed returns the same samples. None: a random seed, which is
                `Samples.seed` of the result. Two calls with the same seed for different rows of a
                context are not independent.
            first_path: The index of the first path, which requires a seed unless it is 0. The call
                draws the paths from `first_path` to `first_path + paths - 1` of the seed, with the
                values that they have in a call for all paths. `Samples.concat` joins the results
                of several calls. Known values of each path are those of these paths.
            order: The order in which a path draws its rows, after the known values: "given", or
                "random" for each path.
            sampling: "independent", or "sobol": the random numbers of the paths are spread evenly
                (randomized quasi-Monte Carlo), so that means over paths, also of sums, vary less.
                The standard deviation over paths then says nothing about the error of a mean.
            log_densities: Whether to return the log-density of each value.
            wrap: Whether to allow more rows, in a group, than the model was trained for
                (`Model.buffer_size`).
            snap: Whether to snap values to the possible values of the target, if the context
                repeats target values: counts become integers, and small amounts of a target that
                is mostly zero become zero. Log-densities are those of the values before snapping.
            local_rows: The number of rows of the context that the call uses: those nearest to
                `rows`. They are encoded for this call. None: all rows.
            dtype: The type of the values and log-densities, "float64" or "float32". With float32,
                which is accurate to 7 digits, the server sends half the bytes.
            progress: True: show a progress bar; False: do not; a function: call it with (done,
                total); None: show a bar if the call takes longer than a second and standard error
                is a terminal or the code runs in a notebook.
            timeout: Seconds; None: the client's timeout.

        Returns:
            Samples: `values` [paths, rows], in the target's unit, with the known values.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded;
                `field` and `limit` name them; or the target column of `rows` has values in some
                rows, and `given` is None.
            NotFoundError: The context was deleted.
            SourceChangedError: The context's content has changed. Call `refresh`.
            ExhaustedError: The server was too busy for every attempt, or the request needs more
                memory than it has.
            UnimplementedError: The server is too old for known values, groups, totals or
                `first_path`.
            DeadlineError: The call took longer than `timeout`; `samples` has the complete paths.
            UnavailableError: The connection was lost; `samples` has the complete paths.

        Examples:
            >>> samples = context.sample(rows, paths=1000, seed=1)
            >>> (samples.sum() > 105_000).mean()  # the probability that the sum exceeds 105,000
            >>> samples = context.sample(rows, groupby="store")
            >>> samples.sum(rows["store"] == "Kiel")  # [paths]: draws of the sum of a group
            >>> samples = context.sample(rows, total=(100_000, 110_000), paths=4000)
            >>> samples.resample(1000).interval(0.9)  # given that the sum is in this interval
        """
        options = SampleOptions(
            paths,
            seed,
            order,
            log_densities,
            wrap,
            snap,
            local_rows,
            first_path,
            dtype,
            sampling,
            total,
        )
        call = SampleCall.about(self, rows, given, groupby, options)
        messages = self._client._messages(call, timeout)
        with call.progress(progress) as done, contextlib.closing(messages):
            assembly = Assembly(call, done)
            with assembly.keeping():
                for message in messages:
                    assembly.add(message)
        return assembly.finish()

    def stream(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        paths: int = 1000,
        seed: int | None = None,
        first_path: int = 0,
        order: Order = "given",
        sampling: Sampling = "independent",
        log_densities: bool = False,
        wrap: bool = False,
        snap: bool = True,
        local_rows: int | None = None,
        dtype: npt.DTypeLike = np.float64,
        timeout: float | None = None,
    ) -> Generator[Block, None, None]:
        """Draws joint samples as `sample` does, and yields blocks as they are drawn.

        The order of the paths is undefined. To cancel the call, close the generator or drop it.

        Args:
            rows: A table, as for `sample`.
            given: Known values, as for `sample`. The blocks have the other rows only, and the
                log-density of the known values is not returned.
            groupby: The groups of the rows, as for `sample`. A path of a block has rows of one
                group (`Block.paths`).
            paths: The number of joint samples, of each group.
            seed: As for `sample`. None: a random seed, which is not returned.
            first_path: As for `sample`. It is the first index in the blocks.
            order: "given" or "random", as for `sample`.
            sampling: "independent" or "sobol", as for `sample`.
            log_densities: Whether to return the log-density of each value.
            wrap: Whether to allow more rows than the model was trained for.
            snap: Whether to snap values to the possible values of the target.
            local_rows: As for `sample`.
            dtype: "float64" or "float32", as for `sample`.
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
        options = SampleOptions(
            paths, seed, order, log_densities, wrap, snap, local_rows, first_path, dtype, sampling
        )
        call = SampleCall.about(self, rows, given, groupby, options)
        tell(call.rows.warnings)
        return _blocks(call, self._client._messages(call, timeout))

    def validate_sample(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
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
            given: Known values, as for `sample`.
            groupby: The groups of the rows, as for `sample`.
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
        call = SampleCall.about(self, rows, given, groupby, options, validate_only=True)
        with contextlib.closing(self._client._messages(call, timeout)) as messages:
            return call.estimate(list(messages))


def _blocks(
    call: SampleCall, messages: Generator[SampleMessage, None, None]
) -> Generator[Block, None, None]:
    with contextlib.closing(messages):
        for message in messages:
            yield from call.blocks(message)
