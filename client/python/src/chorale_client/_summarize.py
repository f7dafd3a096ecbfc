"""Calls of Summarize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chorale_client._calls import Call, Job
from chorale_client._choices import check_choice
from chorale_client._columns import Floats, Integers
from chorale_client._data_warnings import read_warnings, tell
from chorale_client._errors import (
    ChoraleError,
    DataLossError,
    InvalidArgumentError,
    UnimplementedError,
)
from chorale_client._functional_requests import FunctionalOfRows, functionals_of_rows, locate
from chorale_client._groups import Groups
from chorale_client._inputs import known_values, query_groups, query_rows
from chorale_client._known_values import KnownLogDensity, KnownValues
from chorale_client._models_and_contexts import Description, Source, Timings
from chorale_client._number_arguments import target_error
from chorale_client._options import Estimator, SampleOptions
from chorale_client._requests import check_size, probabilities, whole_number
from chorale_client._sample_requests import path_fields
from chorale_client._samples import Samples
from chorale_client._summaries import FunctionalSummary, Summary
from chorale_client._tables import Data, Table
from chorale_client._v1 import chorale_pb2 as pb

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # unless others are requested


class SummaryOptions(NamedTuple):
    """The arguments of `summarize` that `sample` does not have, in their order."""

    quantiles: npt.ArrayLike
    functionals: Any
    covariance: bool
    return_paths: int
    estimator: Estimator
    target_mean_error: float | None
    target_quantile_error: float | None


@dataclass(frozen=True)
class SummarizeCall:
    """A call of Summarize.

    Attributes:
        context: The context.
        rows: The query rows.
        known: The known values of query rows, in the order of the table.
        groups: The groups of the query rows.
        functionals: The functionals by name.
        request: The message.
    """

    context: Description[Any]
    rows: Table
    known: KnownValues
    groups: Groups
    functionals: dict[str, FunctionalOfRows]
    request: pb.SummarizeRequest

    @classmethod
    def about(
        cls,
        context: Description[Any],
        data: Data,
        given: Any,
        groupby: Any,
        options: SampleOptions,
        summary_options: SummaryOptions,
    ) -> SummarizeCall:
        """Returns a call about query rows."""
        rows = query_rows(context, data)
        known = known_values(context, data, rows, given)
        groups = query_groups(context, data, rows, groupby)
        paths = whole_number("paths", options.paths, 2)
        returned = whole_number("return_paths", summary_options.return_paths, 0)
        if returned > paths:
            raise InvalidArgumentError(
                f"return_paths: {returned}, must be at most the number of paths, {paths}",
                fields=["return_paths"],
            )
        check_choice("estimator", summary_options.estimator, ("conditional", "values"))
        if not isinstance(summary_options.covariance, bool):
            raise InvalidArgumentError(
                f"covariance: {summary_options.covariance!r}, must be True or False",
                fields=["covariance"],
            )
        fields = path_fields(context.name, rows, known, groups, options, context.source)
        functionals = functionals_of_rows(summary_options.functionals, rows.labels, groups)
        request = pb.SummarizeRequest(
            **fields,
            quantiles=probabilities(summary_options.quantiles),
            functionals=[functional.message(groups) for functional in functionals.values()],
            estimator=pb.SummarizeRequest.ESTIMATOR_VALUES
            if summary_options.estimator == "values"
            else pb.SummarizeRequest.ESTIMATOR_UNSPECIFIED,
            include_covariances=summary_options.covariance,
            returned_path_count=returned,
            target_mean_error=target_error("target_mean_error", summary_options.target_mean_error),
            target_quantile_error=target_error(
                "target_quantile_error", summary_options.target_quantile_error
            ),
        )
        check_size(request.ByteSize())
        return cls(context, rows, known, groups, functionals, request)

    def convert(self, error: ChoraleError) -> ChoraleError:
        """Returns an error about the arguments for an error of the server."""
        if isinstance(error, UnimplementedError):
            return UnimplementedError(
                "summarize: the server does not support this method, because it is older than this "
                "package: upgrade the server, or compute statistics of the values of sample()"
            )
        locate(error, list(self.functionals))
        return error

    def summary(self, answer: pb.SummarizeResponse) -> Summary:
        """Returns the summary in a response, and issues the warnings."""
        paths = answer.path_count or self.request.path_count  # older servers draw all
        if paths > self.request.path_count:
            raise _loss("paths", paths, self.request.path_count)
        sent = self.known.grouped(self.groups)
        sent.check_response(answer.known_log_densities, paths, len(self.groups))
        at = np.argsort(self.groups.order[sent.others])  # the rows of the table in the response
        count, quantile_count = len(at), len(self.request.quantiles)
        errors = _array("errors of quantiles", answer.quantile_errors, count, quantile_count)
        covariance: Floats | tuple[Floats, ...] | None = None
        if self.request.include_covariances:
            matrices = _covariances(answer.covariances, sent.others, self.groups)
            covariance = matrices[0] if self.groups.labels is None else matrices
        origin: dict[str, Any] = {
            "target": self.context.target,
            "seed": answer.seed,
            "source": Source.of(answer.source),
            "timings": Timings.of(answer.timings),
            "warnings": (*self.rows.warnings, *read_warnings(answer.warnings)),
            "groups": self.groups.labels,
        }
        known_log_density = sent.log_density([answer.known_log_densities], self.groups)
        labels = self.rows.labels
        summary = Summary(
            means=_array("means", answer.means, count)[at],
            mean_errors=_array("errors of means", answer.mean_errors, count)[at],
            stds=_array("standard deviations", answer.stds, count)[at],
            quantiles=_array("quantiles", answer.quantiles, count, quantile_count)[at],
            quantile_errors=errors[at],
            probabilities=np.array(self.request.quantiles, dtype=np.float64),
            conditional=answer.conditional,
            functionals=self._functional_summaries(answer),
            covariance=covariance,
            samples=self._samples(answer, paths, at, known_log_density, origin),
            paths=paths,
            labels=labels.take(self.known.others) if len(self.known) else labels,
            known_log_density=known_log_density,
            **origin,
        )
        tell(summary.warnings)
        return summary

    def _functional_summaries(self, answer: pb.SummarizeResponse) -> dict[str, FunctionalSummary]:
        if len(answer.functionals) != len(self.functionals):
            raise _loss("functionals", len(answer.functionals), len(self.functionals))
        return {
            name: self._functional_summary(functional, message)
            for (name, functional), message in zip(
                self.functionals.items(), answer.functionals, strict=True
            )
        }

    def _functional_summary(
        self, functional: FunctionalOfRows, answer: pb.FunctionalSummary
    ) -> FunctionalSummary:
        if functional.functional.of_each_row:
            count = len(functional.rows)
            return FunctionalSummary(
                mean=_array("means", answer.means, count),
                mean_error=_array("errors of means", answer.mean_errors, count),
                std=_array("standard deviations", answer.stds, count),
                quantiles=None,
                quantile_errors=None,
                conditional=answer.conditional,
                labels=self.rows.labels.take(functional.rows),
            )
        groups = () if self.groups.labels is None else (len(self.groups),)
        quantile_count = len(self.request.quantiles)

        def numbers(what: str, field: Sequence[float]) -> float | Floats:
            array = _array(what, field, *groups)
            return array if groups else float(array)

        return FunctionalSummary(
            mean=numbers("means", answer.means),
            mean_error=numbers("errors of means", answer.mean_errors),
            std=numbers("standard deviations", answer.stds),
            quantiles=_array("quantiles", answer.quantiles, *groups, quantile_count),
            quantile_errors=_array(
                "errors of quantiles", answer.quantile_errors, *groups, quantile_count
            ),
            conditional=answer.conditional,
        )

    def _samples(
        self,
        answer: pb.SummarizeResponse,
        paths: int,
        at: Integers,
        known_log_density: KnownLogDensity,
        origin: dict[str, Any],
    ) -> Samples | None:
        """Returns the paths in a response, with the known values; None if there are none."""
        returned = min(self.request.returned_path_count, paths)
        if not returned:
            return None
        drawn = _array("values of paths", answer.paths, returned, len(at))
        known = self.known.values
        if self.known.separate:
            known = known[:returned]
            assert isinstance(known_log_density, np.ndarray)
            known_log_density = known_log_density[:returned]
        values = np.empty((returned, self.rows.row_count))
        values[:, self.known.rows] = known
        values[:, self.known.others] = drawn[:, at]
        return Samples(
            values=values,
            labels=self.rows.labels,
            log_densities=None,
            known_log_density=known_log_density,
            **origin,
        )


def summarize(
    context: Description[Any],
    rows: Data,
    given: Any,
    groupby: Any,
    options: SampleOptions,
    summary_options: SummaryOptions,
) -> Job[Summary]:
    """Returns statistics of joint sample paths."""
    call = SummarizeCall.about(context, rows, given, groupby, options, summary_options)
    order = call.groups.order
    answer: pb.SummarizeResponse = yield Call(
        "Summarize",
        context.name,
        call.request,
        rows=order.tolist(),
        known=call.known.grouped(call.groups).renumbered(order),
        convert=call.convert,
    )
    return call.summary(answer)


def _covariances(numbers: Sequence[float], rows: Integers, groups: Groups) -> tuple[Floats, ...]:
    """Returns the matrix of each group, whose rows have the same order in the table.

    Args:
        numbers: The matrices, one after the other.
        rows: The positions in the request of the rows that are not known.
        groups: The groups.
    """
    of_row = np.searchsorted(groups.sizes.cumsum(), rows, side="right")
    counts = np.bincount(of_row, minlength=len(groups))
    array = _array("covariances", numbers, int((counts**2).sum()))
    matrices = []
    for count in counts.tolist():
        block, array = np.split(array, [count * count])
        matrices.append(block.reshape(count, count))
    return tuple(matrices)


def _array(what: str, numbers: Sequence[float], *shape: int) -> Floats:
    """Returns numbers of a response as an array; DataLossError if the number is another one."""
    if len(numbers) != math.prod(shape):
        raise _loss(what, len(numbers), math.prod(shape))
    return np.array(numbers, dtype=np.float64).reshape(shape)


def _loss(what: str, count: int, expected: int) -> DataLossError:
    return DataLossError(f"the server sent {count} {what} instead of {expected}")
