"""A registered table, and the calls about it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from chorale_client.assembly import Assembly, Block
from chorale_client.data_warnings import DataWarning, read_warnings, tell
from chorale_client.descriptions import Description
from chorale_client.jobs import delete_job, get_job, log_density_job, predict_job, warm_job
from chorale_client.log_densities import LogDensities
from chorale_client.predictions import Predictions
from chorale_client.progress import Option, Progress
from chorale_client.questions import rows_to_ask, values_to_weigh
from chorale_client.requests import Order, sample_request
from chorale_client.samples import Samples
from chorale_client.tables import Data
from chorale_client.v1 import chorale_pb2 as pb

if TYPE_CHECKING:
    from chorale_client.connection import Client


class Context(Description["Client"]):
    """A registered table; made by `Client.register` or `Client.context`.

    Calls hold to the content that the context had when this object was made: if somebody gives the
    name to another table, they raise `SourceChangedError`.
    """

    def predict(
        self,
        rows: Data,
        *,
        quantiles: npt.ArrayLike = (),
        mixtures: bool = False,
        snap: bool = True,
        timeout: float | None = None,
    ) -> Predictions:
        """Predicts each row by itself. For sums, maxima and ranks over rows, take `sample`.

        Args:
            rows: A table with the context's feature columns, in any order; others are not sent.
                Cells are read as what they are in the context (`Feature.meaning`).
            quantiles: Probabilities between 0 and 1, at most 64.
            mixtures: Whether to return the predictive distributions.
            snap: Whether quantiles are snapped to the values that the target can take, where the
                context repeats values of it, as counts do. Means and standard deviations never are.
            timeout: Seconds for all calls together; None: the client's.

        Raises:
            InvalidArgumentError: A column is absent, or a value cannot be used.
            SourceChangedError: The context is not any more what it was.
        """
        table = rows_to_ask(self, rows)
        job = predict_job(
            self.name, table, self.target, self.source, quantiles, mixtures=mixtures, snap=snap
        )
        result = self._client._run(job, timeout)
        tell(result.warnings)
        return result

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
        progress: Option = None,
        timeout: float | None = None,
    ) -> Samples:
        """Draws joint samples: on each path, each row given the values drawn before it.

        Args:
            rows: A table with the context's feature columns, in any order; others are not sent.
            paths: How many joint samples.
            seed: The same seed gives the same samples; None: the server chooses one, which the
                result tells. Two calls with one seed for different rows are not independent.
            order: In which a path draws its rows: "given", or "random" for each path.
            log_densities: Whether to return the log-density of each value.
            wrap: Whether more rows are allowed than the model was trained for.
            snap: Whether values are snapped to those that the target can take, where the context
                repeats values of it: counts become whole numbers, and amounts that are mostly zero
                become zero. Log-densities are those of the values before.
            progress: True: a bar; False: none; a function is called with (done, total); None: a
                bar if the call takes longer than a second and somebody watches.
            timeout: Seconds; None: the client's.

        Raises:
            InvalidArgumentError: A column is absent, a value cannot be used, or a limit is
                exceeded: `field` and `limit` say which.
            SourceChangedError: The context is not any more what it was.
        """
        table = rows_to_ask(self, rows)
        request = sample_request(
            self.name,
            table,
            paths=paths,
            seed=seed,
            order=order,
            log_densities=log_densities,
            wrap=wrap,
            snap=snap,
            source=self.source,
        )
        messages = self._client._messages(request, self.name, timeout)
        with (
            Progress(progress, paths * table.row_count, "values") as done,
            contextlib.closing(messages),
        ):
            assembly = Assembly(request, table, self.target, done)
            for message in messages:
                assembly.add(message)
        samples = assembly.finish()
        tell(samples.warnings)
        return samples

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
        timeout: float | None = None,
    ) -> Generator[Block, None, None]:
        """Draws as `sample` does, and gives blocks as they come, in no defined order of paths.

        Closing the iterator, or leaving the loop and dropping it, cancels the call.

        Args:
            rows: As for `sample`, and so are the others.
            paths: How many joint samples.
            seed: None: the server chooses one.
            order: "given" or "random".
            log_densities: Whether blocks have the log-density of each value.
            wrap: Whether more rows are allowed than the model was trained for.
            snap: Whether values are snapped to those that the target can take.
            timeout: Seconds for the whole stream.
        """
        table = rows_to_ask(self, rows)
        request = sample_request(
            self.name,
            table,
            paths=paths,
            seed=seed,
            order=order,
            log_densities=log_densities,
            wrap=wrap,
            snap=snap,
            source=self.source,
        )
        tell(table.notes)
        return _blocks(self._client._messages(request, self.name, timeout))

    def log_density(
        self,
        rows: Data,
        values: npt.ArrayLike | None = None,
        *,
        orders: int = 0,
        seed: int | None = None,
        terms: bool = False,
        wrap: bool = False,
        timeout: float | None = None,
    ) -> LogDensities:
        """The joint log-density of values of the rows.

        Args:
            rows: A table with the context's feature columns.
            values: [rows], or [vectors, rows], in the target's unit; None: the column of `rows`
                that is named like the target. A Series of pandas goes by its labels, a DataFrame by
                its columns, which must be those of the rows.
            orders: Over how many random orders of the rows the density is averaged; 0: the order
                given.
            seed: Of the random orders; None: the server chooses one.
            terms: Whether to return the term of each row.
            wrap: Whether more rows are allowed than the model was trained for.
            timeout: Seconds for all calls together; None: the client's.

        Raises:
            InvalidArgumentError: A column is absent, or a value cannot be used.
            SourceChangedError: The context is not any more what it was.
        """
        table = rows_to_ask(self, rows)
        job = log_density_job(
            self.name,
            table,
            self.target,
            self.source,
            values_to_weigh(self, rows, table, values),
            orders=orders,
            seed=seed,
            terms=terms,
            wrap=wrap,
        )
        result = self._client._run(job, timeout)
        tell(result.warnings)
        return result

    def warm(self, *, timeout: float | None = None) -> None:
        """Makes the context resident, so that the next call does not wait for that."""
        self._message = self._client._run(warm_job(self.name), timeout)

    def refresh(self, *, timeout: float | None = None) -> None:
        """Reads anew what the context is: calls then hold to that."""
        self._message = self._client._run(get_job(self.name), timeout)

    def delete(self, *, timeout: float | None = None) -> None:
        """Deletes the context."""
        self._client._run(delete_job(self.name), timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._client, self._message.SerializeToString(), self._warnings)


def _restore(client: Client, message: bytes, warnings: tuple[DataWarning, ...]) -> Context:
    return Context(client, pb.Context.FromString(message), warnings)


def _blocks(messages: Generator[Any, None, None]) -> Generator[Block, None, None]:
    with contextlib.closing(messages):
        for message in messages:
            for block in message.blocks:
                yield Block.of(block)
            if message.summary is not None:
                tell(read_warnings(message.summary.warnings))
