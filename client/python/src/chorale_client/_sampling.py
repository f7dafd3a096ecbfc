"""Calls of Sample: their requests, and the joint samples in the blocks of their streams."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chorale_client._columns import Floats
from chorale_client._data_warnings import read_warnings, tell
from chorale_client._early_end import keeping
from chorale_client._errors import ChoraleError, DataLossError, UnimplementedError
from chorale_client._groups import Groups
from chorale_client._groups import ignored as groups_ignored
from chorale_client._inputs import known_values, query_groups, query_rows
from chorale_client._known_totals import KnownTotals
from chorale_client._known_values import KnownValues, ignored
from chorale_client._models_and_contexts import Description, Estimate, Source, Timings
from chorale_client._options import SampleOptions
from chorale_client._progress import Option, Progress
from chorale_client._sample_requests import sample_request
from chorale_client._samples import Samples
from chorale_client._tables import Data, Table
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._wire import RawBlock, SampleMessage


@dataclass(frozen=True, eq=False)
class Block:
    """The values of some paths at some steps, as `stream` yields them.

    Attributes:
        first_path: The index of the first path among those of the seed; 0 with groups.
        first_step: The index of the first step, from 0.
        values: [paths, steps]: the values, in the target's unit.
        rows: [paths, steps]: the index of the row of each value. None if the order is "given",
            there are no groups, and no values are known, in which case step t is row t.
        log_densities: [paths, steps]: the log-density of each value, conditional on the earlier
            values of its path; None unless requested.
        paths: [paths]: the index of each path in its group, to which its rows belong; None without
            groups, in which case the paths are consecutive.
    """

    first_path: int
    first_step: int
    values: Floats
    rows: npt.NDArray[np.int32] | None
    log_densities: Floats | None
    paths: npt.NDArray[np.int32] | None = None


def _check_first_path(block: RawBlock, first_path: int, groups: Groups) -> None:
    """Raises UnimplementedError if the server ignores `first_path`."""
    least = block.first_path
    if groups.labels is not None:
        least = first_path if block.paths is None else int(block.paths.min())
    if 0 <= least < first_path:
        raise UnimplementedError(
            "first_path: the server does not support it, because it is older than this package: "
            "upgrade the server"
        )


def _rows_of(block: RawBlock, known: KnownValues, groups: Groups) -> npt.NDArray[np.int32] | None:
    """Returns the row of each value in the table [paths, steps]; None if step t is row t.

    Raises:
        UnimplementedError: The server ignores groups, or has drawn a row whose value is known.
        DataLossError: A row is not in the request.
    """
    rows = block.rows
    if groups.labels is not None:
        if block.paths is None:
            raise groups_ignored()
        if rows is None:
            raise _loss("a block lacks row indices")
        _check_within(rows, len(groups.order), "row")
        rows = groups.order[rows].astype(np.int32)
    if not len(known):
        return rows
    last_step = block.first_step + block.values.shape[1]
    if rows is None:
        rows = known.others[block.first_step : last_step].astype(np.int32)
    if last_step > len(known.others) or np.isin(rows, known.rows).any():
        raise ignored()
    return np.broadcast_to(rows, block.values.shape)


@dataclass(frozen=True)
class SampleCall:
    """A call of Sample.

    Attributes:
        context: The name of the context.
        target: The name of the target column.
        rows: The query rows.
        known: The known values of query rows.
        groups: The groups of the query rows.
        totals: The known totals of the groups; None: there are none.
        request: The message.
    """

    context: str
    target: str
    rows: Table
    known: KnownValues
    groups: Groups
    totals: KnownTotals | None
    request: pb.SampleRequest

    @classmethod
    def about(
        cls,
        context: Description[Any],
        rows: Data,
        given: Any,
        groupby: Any,
        options: SampleOptions,
        *,
        validate_only: bool = False,
    ) -> SampleCall:
        """Returns a call about query rows."""
        table = query_rows(context, rows)
        known = known_values(context, rows, table, given)
        groups = query_groups(context, rows, table, groupby)
        totals = KnownTotals.of(options.total, groups)
        source = context.source
        request = sample_request(context.name, table, known, groups, totals, options, source)
        request.validate_only = validate_only
        return cls(context.name, context.target, table, known, groups, totals, request)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return np.dtype(np.float32 if self.request.float32_values else np.float64)

    def sent_known(self) -> KnownValues:
        """Returns the known values in the order of the request, with the rows of the table."""
        return self.known.grouped(self.groups).renumbered(self.groups.order)

    def locate_totals(self, error: ChoraleError) -> None:
        """Changes an error about known totals to an error about the argument."""
        if self.totals is not None:
            self.totals.locate(error)

    def progress(self, option: Option) -> Progress:
        """Shows the progress of the call."""
        return Progress(option, self.request.path_count * len(self.known.others), "values")

    def blocks(self, message: SampleMessage) -> Iterator[Block]:
        """Yields the blocks of a message; issues the warnings in the summary."""
        for raw in message.blocks:
            _check_first_path(raw, self.request.first_path, self.groups)
            rows = _rows_of(raw, self.known, self.groups)
            values = raw.values.astype(self.dtype, copy=False)
            densities = raw.log_densities
            if densities is not None:
                densities = densities.astype(self.dtype, copy=False)
            yield Block(raw.first_path, raw.first_step, values, rows, densities, raw.paths)
        if message.summary is not None:
            log_densities = message.summary.known_log_densities
            self.known.check_response(log_densities, self.request.path_count, len(self.groups))
            tell(read_warnings(message.summary.warnings))

    def estimate(self, messages: list[SampleMessage]) -> Estimate:
        """Returns the estimate in the messages of a validated call, and issues the warnings."""
        if any(message.blocks for message in messages):
            raise UnimplementedError("the server draws samples instead of validating the call")
        if not messages or messages[-1].summary is None:
            raise _loss("the summary is missing")
        summary = messages[-1].summary
        tell((*self.rows.warnings, *read_warnings(summary.warnings)))
        return Estimate.of(summary.estimate)


def _loss(what: str) -> DataLossError:
    return DataLossError(f"the server's samples are incomplete or damaged: {what}")


def _check_within(indices: npt.NDArray[np.int32], count: int, what: str) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        raise _loss(f"a block has a value of a {what} that is not in the request")


class Assembly:
    """Collects the messages of a stream. Blocks may arrive in any order, each value only once."""

    def __init__(self, call: SampleCall, done: Callable[[int], None]) -> None:
        self._call = call
        self._first = call.request.first_path
        self._paths = call.request.path_count
        self._rows = call.rows.row_count
        self._known, self._groups = call.known, call.groups
        self._total = self._paths * len(call.known.others)
        self._random = call.request.order == pb.SampleRequest.ORDER_RANDOM_PER_PATH
        self._with_densities = call.request.include_log_densities
        self._done = done
        self._count = 0
        # Allocated with the first block, so that a rejected request needs no memory.
        self._values: Floats | None = None  # with the known values from the beginning
        self._densities: Floats | None = None
        self._summary: pb.SampleSummary | None = None

    def add(self, message: SampleMessage) -> None:
        """Adds a message; DataLossError if a block is invalid, or too many values arrive."""
        for block in message.blocks:
            self._add(block)
        if message.blocks:
            self._done(self._count)
        if message.summary is not None:
            self._summary = message.summary

    def _add(self, block: RawBlock) -> None:
        paths, steps = block.values.shape
        _check_first_path(block, self._first, self._groups)
        grouped = self._groups.labels is not None
        first_path = block.first_path if grouped else block.first_path - self._first
        last_path, last_step = first_path + paths, block.first_step + steps
        path_count = self._paths * len(self._groups)
        if not (paths and steps and last_path <= path_count and last_step <= self._rows):
            raise _loss(
                f"a block of paths {block.first_path} +{paths}, steps {block.first_step} +{steps} "
                f"in {path_count} paths of {self._rows} steps"
            )
        rows = _rows_of(block, self._known, self._groups)
        if (block.rows is not None) != (self._random or grouped):
            raise _loss("a block has row indices that were not requested, or lacks them")
        if (block.paths is not None) != grouped:
            raise _loss("a block has indices of paths that were not requested")
        if block.values.dtype == np.float32 and self._call.dtype == np.float64:
            raise _loss("a block has float32 values, which were not requested")
        if (block.log_densities is not None) != self._with_densities:
            raise _loss("a block has log-densities that were not requested, or lacks them")
        if self._values is None:
            self._values = np.full((self._paths, self._rows), np.nan, self._call.dtype)
            self._values[:, self._known.rows] = self._known.values
            if self._with_densities:
                self._densities = np.full((self._paths, self._rows), np.nan, self._call.dtype)
        place: Any = (slice(first_path, last_path), slice(block.first_step, last_step))
        if rows is not None:
            _check_within(rows, self._rows, "row")
            of_block = np.arange(first_path, last_path)
            if block.paths is not None:
                of_block = block.paths - self._first
                _check_within(of_block, self._paths, "path")
            place = (of_block[:, None], rows)
        self._values[place] = block.values
        if self._densities is not None:
            self._densities[place] = block.log_densities
        self._count += block.values.size
        if self._count > self._total:
            raise _loss("values arrived twice")

    def keeping(self) -> contextlib.AbstractContextManager[None]:
        """Adds the complete first paths to an error that ends the call early, as `samples`."""
        return keeping("samples", self._complete)

    def _complete(self) -> Samples | None:
        """Returns the first paths of which all values have arrived.

        None if there are none, or if totals are known, whose weights come at the end.
        """
        if self._values is None or self._call.totals is not None:
            return None
        missing = np.isnan(self._values).any(axis=1)  # values are finite
        count = int(missing.argmax()) if missing.any() else self._paths
        if not count:
            return None
        densities = self._densities
        return Samples(
            values=self._values[:count].copy(),
            labels=self._call.rows.labels,
            target=self._call.target,
            seed=self._call.request.seed,
            source=Source.of(self._call.request.expected_source),
            timings=Timings(),
            log_densities=None if densities is None else densities[:count].copy(),
            warnings=tuple(self._call.rows.warnings),
            groups=self._groups.labels,
            first_path=self._first,
        )

    def finish(self) -> Samples:
        """Returns the samples, and issues the warnings; DataLossError if values are missing."""
        if self._summary is None:
            raise _loss("the summary is missing")
        known_log_densities = self._summary.known_log_densities
        self._known.check_response(known_log_densities, self._paths, len(self._groups))
        # Values are finite, so NaN marks a missing value.
        if self._values is None or self._count < self._total:
            raise _loss(f"{self._count} of {self._total} values arrived")
        if np.isnan(self._values).any():
            raise _loss(f"{self._total} values arrived, but some arrived twice")
        totals, log_weights = self._call.totals, None
        warnings = (*self._call.rows.warnings, *read_warnings(self._summary.warnings))
        if totals is not None:
            log_weights = totals.log_weights(self._summary, self._paths)
            warnings += totals.warnings(log_weights)
        samples = Samples(
            values=self._values,
            labels=self._call.rows.labels,
            target=self._call.target,
            seed=self._summary.seed,
            source=Source.of(self._summary.source),
            timings=Timings.of(self._summary.timings),
            log_densities=self._densities,
            warnings=warnings,
            known_log_density=self._known.log_density([known_log_densities], self._groups),
            groups=self._groups.labels,
            first_path=self._first,
            log_weights=log_weights,
            group_of_row=None if totals is None else totals.group_of_row(),
        )
        tell(samples.warnings)
        return samples
