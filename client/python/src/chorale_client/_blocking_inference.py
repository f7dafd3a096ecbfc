"""The calls about query rows of a registered table."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import TypeVar

import numpy.typing as npt

from chorale_client import _inference
from chorale_client._blocking_connection import BlockingConnection
from chorale_client._data_warnings import tell
from chorale_client._log_densities import LogDensities
from chorale_client._models_and_contexts import Description, Estimate
from chorale_client._predictions import Predictions
from chorale_client._progress import Option
from chorale_client._requests import (
    Estimator,
    LogDensityOptions,
    Order,
    PredictOptions,
    SampleOptions,
    Sampling,
)
from chorale_client._samples import Samples
from chorale_client._sampling import Assembly, Block, SampleCall
from chorale_client._summaries import Summary
from chorale_client._summarize import QUANTILES, SummaryOptions, summarize
from chorale_client._tables import Data
from chorale_client._wire import SampleMessage
from chorale_client.functionals import Functional

ClientT = TypeVar("ClientT", bound=BlockingConnection)


class BlockingInference(Description[ClientT]):
    """The methods of `Context` that predict, draw and evaluate values of query rows."""

    def predict(
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
        """Returns marginal predictions, each row regardless of the others.

        For sums, maxima and ranks over rows, use `sample`.

        Args:
            rows: A table with the context's feature columns, in any order. Other columns are not
                sent. Cells are read by the meaning of the context's column (`Feature.meaning`).
            given: Known values of the target in some rows. The result has the other rows, each
                conditional on all known values. [rows], with NaN for values that are not known; or
                a Series, which is aligned by its labels and may lack rows; or True: the column of
                `rows` with the name of the target. None: no values are known.
            groupby: The groups of the rows: the name of a column of `rows`, or a list of names; or
                an array or a Series with a label for each row. Predictions are conditional on known
                values in the same group only. None: all rows belong to one group.
            quantiles: Probabilities between 0 and 1, at most 64.
            mixtures: Whether to return the predictive distributions.
            wrap: Whether to allow as many known values as the model has buffer positions
                (`Model.buffer_size`), or more.
            snap: Whether to snap quantiles to the possible values of the target, if the context
                repeats target values, as counts do. Means and standard deviations are not snapped.
            local_rows: The number of rows of the context that each call uses: those nearest to its
                rows, at most `local_rows` / 32 of `rows` per call. They are encoded for each call.
                Must be more than the number of known values. None: all rows.
            timeout: Seconds for all calls together; None: the client's timeout.

        Returns:
            Predictions: `means` [rows], `stds` [rows] and `quantiles` [rows, probabilities], in
            the target's unit.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded;
                or the target column of `rows` has values in some rows, and `given` is None.
            NotFoundError: The context was deleted.
            SourceChangedError: The context's content has changed. Call `refresh`.
            UnimplementedError: The server is too old for known values or groups.
            DeadlineError: The calls took longer than `timeout`.

        Examples:
            >>> predictions = context.predict(rows, quantiles=[0.05, 0.95])
            >>> predictions.to_frame()  # columns "mean", "std", "q05", "q95"
        """
        options = PredictOptions(quantiles, mixtures, wrap, snap, local_rows)
        job = _inference.predict(self, rows, given, groupby, options)
        return self._client._run(job, timeout)

    def sample(
        self,
        rows: Data,
        *,
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        paths: int = 1000,
        seed: int | None = None,
        order: Order = "given",
        sampling: Sampling = "independent",
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
            given: Known values of the target in some rows, on which the values of the other rows
                are conditional. As for `predict`; or [paths, rows]: the values of each path, with
                NaN in the same rows of each path. A DataFrame, such as `to_frame()` of earlier
                samples, is aligned by its column names and may lack rows.
            groupby: The groups of the rows, as for `predict`. Each group has a joint distribution
                of its own: its values are conditional on values of the same group, and independent
                of other groups.
            paths: The number of joint samples, of each group.
            seed: The same seed returns the same samples. None: the server chooses a seed, which is
                `Samples.seed` of the result. Two calls with the same seed for different rows of a
                context are not independent.
            order: The order in which a path draws its rows, after the known values: "given", or
                "random" for each path.
            sampling: "independent", or "sobol": the random numbers of the paths are spread evenly
                (randomized quasi-Monte Carlo), so that means over paths vary less.
            log_densities: Whether to return the log-density of each value.
            wrap: Whether to allow more rows, in a group, than the model was trained for
                (`Model.buffer_size`).
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
            Samples: `values` [paths, rows], in the target's unit, with the known values.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded;
                `field` and `limit` name them; or the target column of `rows` has values in some
                rows, and `given` is None.
            NotFoundError: The context was deleted.
            SourceChangedError: The context's content has changed. Call `refresh`.
            ExhaustedError: The server was too busy for every attempt, or the request needs more
                memory than it has.
            UnimplementedError: The server is too old for known values or groups.
            DeadlineError: The call took longer than `timeout`.

        Examples:
            >>> samples = context.sample(rows, paths=1000, seed=1)
            >>> (samples.sum() > 105_000).mean()  # the probability that the sum exceeds 105,000
            >>> samples = context.sample(rows, groupby="store")
            >>> samples.sum(rows["store"] == "Kiel")  # [paths]: draws of the sum of a group
        """
        options = SampleOptions(paths, seed, order, log_densities, wrap, snap, local_rows, sampling)
        call = SampleCall.about(self, rows, given, groupby, options)
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
        given: npt.ArrayLike | None = None,
        groupby: npt.ArrayLike | None = None,
        paths: int = 1000,
        seed: int | None = None,
        order: Order = "given",
        sampling: Sampling = "independent",
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
            given: Known values, as for `sample`. The blocks have the other rows only, and the
                log-density of the known values is not returned.
            groupby: The groups of the rows, as for `sample` (`Block.paths`).
            paths: The number of joint samples, of each group.
            seed: As for `sample`. None: the server chooses a seed, and does not return it.
            order: "given" or "random", as for `sample`.
            sampling: "independent" or "sobol", as for `sample`.
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
        options = SampleOptions(paths, seed, order, log_densities, wrap, snap, local_rows, sampling)
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

    def summarize(
        self,
        rows: Data,
        *,
        functionals: Mapping[str, Functional | str] | Sequence[str] = (),
        quantiles: npt.ArrayLike = QUANTILES,
        covariance: bool = False,
        return_paths: int = 0,
        estimator: Estimator = "conditional",
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
        """Draws joint samples as `sample` does, and returns statistics that the server computes.

        With the same seed, the paths are those of `sample`. Their values are not sent.

        Args:
            rows: A table, as for `sample`.
            functionals: Functions of the values of a path, by name: `chorale_client.functionals`,
                or names such as "sum". Or a list of such names.
            quantiles: Probabilities between 0 and 1, at most 64, for rows and functionals.
            covariance: Whether to return the covariances between rows.
            return_paths: The number of paths whose values are returned: the first ones.
            estimator: "conditional": statistics of rows, and means of sums, are estimated from the
                distributions of unsnapped values, with small errors. "values": from the values.
            given: Known values, as for `sample`.
            groupby: The groups of the rows, as for `sample`; each has all functionals.
            paths: The number of joint samples, of each group; at least 2.
            seed: As for `sample`. None: the server chooses `Summary.seed`.
            order: "given" or "random", as for `sample`.
            sampling: "independent", or "sobol" with at least 16 paths, as for `sample`.
            wrap: Whether to allow more rows than the model was trained for.
            snap: Whether to snap values to the possible values of the target.
            local_rows: As for `sample`.
            timeout: Seconds; None: the client's timeout.

        Returns:
            Summary: statistics of each row whose value is not known, and of the functionals, with
            their standard errors.

        Raises:
            ChoraleError: An error of `sample`.
            UnimplementedError: The server is too old for this method.

        Examples:
            >>> summary = context.summarize(rows, paths=10_000, functionals=["sum", "argmax"])
            >>> summary.functionals["sum"].quantiles
        """
        options = SampleOptions(paths, seed, order, False, wrap, snap, local_rows, sampling)
        asked = SummaryOptions(quantiles, functionals, covariance, return_paths, estimator)
        job = summarize(self, rows, given, groupby, options, asked)
        return self._client._run(job, timeout)

    def log_density(
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
        """Returns the joint log-density of values of the rows.

        Args:
            rows: A table with the context's feature columns.
            values: [rows] or [vectors, rows], in the target's unit. None: the column of `rows` with
                the name of the target. A pandas Series is aligned by its labels, and a DataFrame by
                its column names, which must be the labels of the rows. With known values, the rows
                are those whose value is not known; or all rows, and the values of known rows are
                ignored.
            given: Known values of the target in some rows, on which the densities are conditional.
                As for `predict`; or [vectors, rows]: those of each vector, with NaN in the same
                rows of each vector.
            groupby: The groups of the rows, as for `sample`. The result has the density of each
                group.
            orders: The number of random orders of the rows over which the density is averaged; 0:
                the given order. Known values come first.
            seed: The seed of the random orders; None: the server chooses a seed.
            terms: Whether to return the term of each row; not with random orders.
            cdfs: Whether to return the cumulative probability of each value; not with random
                orders.
            wrap: Whether to allow more rows than the model was trained for.
            local_rows: As for `sample`.
            timeout: Seconds for all calls together; None: the client's timeout.

        Returns:
            LogDensities: `joint` [vectors], natural logarithms of densities per unit of the
            target. `float()` converts a result with a single vector. With groups, `joint` is
            [groups] for values [rows], and [vectors, groups] for values [vectors, rows].

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded.
            NotFoundError: The context was deleted.
            SourceChangedError: The context's content has changed. Call `refresh`.
            UnimplementedError: The server is too old for known values or groups.
            DeadlineError: The calls took longer than `timeout`.

        Examples:
            >>> actual = [3700.0, 4100.0, 5250.0]  # a value for each row
            >>> float(context.log_density(rows, actual))
        """
        options = LogDensityOptions(orders, seed, terms, cdfs, wrap, local_rows)
        job = _inference.log_density(self, rows, values, given, groupby, options)
        return self._client._run(job, timeout)


def _blocks(
    call: SampleCall, messages: Generator[SampleMessage, None, None]
) -> Generator[Block, None, None]:
    with contextlib.closing(messages):
        for message in messages:
            yield from call.blocks(message)
