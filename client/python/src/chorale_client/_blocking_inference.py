"""The calls about query rows of a registered table."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TypeVar

import numpy.typing as npt

from chorale_client import _inference, _prediction
from chorale_client._blocking_connection import BlockingConnection
from chorale_client._blocking_sampling import BlockingSampling
from chorale_client._log_densities import LogDensities
from chorale_client._options import (
    Estimator,
    LogDensityOptions,
    Order,
    PredictOptions,
    SampleOptions,
    Sampling,
)
from chorale_client._prediction import PredictCall
from chorale_client._predictions import Predictions
from chorale_client._summaries import Summary
from chorale_client._summarize import QUANTILES, SummaryOptions, summarize
from chorale_client._tables import Data
from chorale_client.functionals import Functional

ClientT = TypeVar("ClientT", bound=BlockingConnection)


class BlockingInference(BlockingSampling[ClientT]):
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

        For sums, maxima and ranks over rows, use `sample`. A call of many rows consists of several
        requests, of at most 1024 rows; `stream_predictions` yields the result of each.

        If the call ends early, the exception has the predictions so far, as `predictions`: after
        Ctrl-C (`KeyboardInterrupt`; in an interactive session `sys.last_value.predictions`), if a
        task is cancelled, and with `DeadlineError`, `UnavailableError` and other errors of this
        package. They are those of the first rows; with known values and groups, those of the rows
        in `predictions.index`. `Predictions.concat` joins them with those of the other rows.

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
            DeadlineError: The calls took longer than `timeout`; `predictions` has those so far.
            UnavailableError: The connection was lost; `predictions` has those so far.

        Examples:
            >>> predictions = context.predict(rows, quantiles=[0.05, 0.95])
            >>> predictions.to_frame()  # columns "mean", "std", "q05", "q95"
        """
        options = PredictOptions(quantiles, mixtures, wrap, snap, local_rows)
        job = _prediction.predict(self, rows, given, groupby, options)
        return self._client._run(job, timeout)

    def stream_predictions(
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
    ) -> Generator[Predictions, None, None]:
        """Predicts as `predict` does, and yields the predictions as they arrive.

        Each item has the predictions of the next rows, at most 1024, so that memory does not grow
        with the number of rows. To end the call, close the generator or drop it.

        Args:
            rows: A table, as for `predict`.
            given: Known values, as for `predict`.
            groupby: The groups of the rows, as for `predict`. With known values, an item has rows
                of one or several groups, in the order of their first rows: see
                `Predictions.index`.
            quantiles: Probabilities between 0 and 1, at most 64.
            mixtures: Whether to return the predictive distributions.
            wrap: As for `predict`.
            snap: As for `predict`.
            local_rows: As for `predict`.
            timeout: Seconds for the whole stream; None: the client's timeout.

        Yields:
            Predictions: those of some rows. Their log-density of known values is that of the groups
            of these rows.

        Raises:
            InvalidArgumentError: A column is missing, a value is invalid, or a limit is exceeded.
            ChoraleError: Another error of `predict`. It may occur after some predictions.

        Examples:
            >>> for predictions in context.stream_predictions(rows, quantiles=[0.05, 0.95]):
            ...     predictions.to_frame().to_csv(file, header=False)
        """
        options = PredictOptions(quantiles, mixtures, wrap, snap, local_rows)
        call = PredictCall.about(self, rows, given, groupby, options)
        return self._client._results(call.stream(), timeout)

    def summarize(
        self,
        rows: Data,
        *,
        functionals: Mapping[str, Functional | str] | Sequence[str] = (),
        quantiles: npt.ArrayLike = QUANTILES,
        covariance: bool = False,
        return_paths: int = 0,
        estimator: Estimator = "conditional",
        target_mean_error: float | None = None,
        target_quantile_error: float | None = None,
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
            estimator: "conditional": statistics of rows, and means of sums over rows, are estimated
                from the distributions of which the values are drawn, with much smaller errors; not
                for snapped values. "values": all statistics are those of the values of `sample`.
            target_mean_error: Draw only as many paths as necessary: stop at the first of 256, 384,
                512, 768, 1,024, ... paths, at most `paths`, at which the standard error of the mean
                of each row is at most this, in the target's unit. The result is that of a call with
                `Summary.paths` paths. For functionals, see `Functional.with_target_errors`.
            target_quantile_error: The same for the standard errors of the quantiles of rows.
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
            >>> total = functionals.sum().with_target_errors(mean=5.0)
            >>> context.summarize(rows, paths=10_000, functionals={"total": total}).paths
        """
        options = SampleOptions(
            paths, seed, order, False, wrap, snap, local_rows, sampling=sampling
        )
        asked = SummaryOptions(
            quantiles,
            functionals,
            covariance,
            return_paths,
            estimator,
            target_mean_error,
            target_quantile_error,
        )
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
                the given order. Known values come first. The orders come in pairs, an order and
                its reverse; with at least four, the result has standard errors.
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
