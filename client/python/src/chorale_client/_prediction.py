"""Calls of Predict, in requests of limited size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chorale_client._calls import Call, Job, Results
from chorale_client._columns import Integers
from chorale_client._data_warnings import DataWarning, merge_warnings, read_warnings, tell
from chorale_client._early_end import keeping
from chorale_client._errors import InvalidArgumentError
from chorale_client._groups import Groups
from chorale_client._inputs import known_values, query_groups, query_rows
from chorale_client._known_values import KnownLogDensity, KnownValues
from chorale_client._models_and_contexts import Description, Source
from chorale_client._options import PredictOptions
from chorale_client._predict_pieces import Piece, predict_pieces
from chorale_client._predictions import Mixtures, Predictions
from chorale_client._requests import (
    beyond_buffer,
    check_rows,
    check_size,
    cut_texts,
    encode_table,
    local_row_count,
    probabilities,
    snapping,
)
from chorale_client._response_values import check_count, joined
from chorale_client._tables import Data, Table
from chorale_client._v1 import chorale_pb2 as pb


def predict(
    context: Description[Any], rows: Data, given: Any, groupby: Any, options: PredictOptions
) -> Job[Predictions]:
    """Predicts rows, in calls of limited size; later calls expect the source of the first."""
    call = PredictCall.about(context, rows, given, groupby, options)
    parts: list[Part] = []
    with keeping("predictions", lambda: call.predictions(parts) if parts else None):
        for piece in call.pieces():
            parts.append((yield from call.part(piece, parts[-1].source if parts else call.source)))
    predictions = call.predictions(parts)
    tell(predictions.warnings)
    return predictions


class Part(NamedTuple):
    """The response to a request.

    Attributes:
        rows: The positions in the table of the rows that it predicts.
        first_group: The group of the first row.
        known_log_densities: Those of the known values of each of its groups; 0 for a group without
            known values.
        answer: The message.
    """

    rows: Integers
    first_group: int
    known_log_densities: list[float]
    answer: pb.PredictResponse

    @property
    def source(self) -> Source:
        """The digests of the context and the model."""
        return Source.of(self.answer.source)


@dataclass(frozen=True)
class PredictCall:
    """A call about query rows.

    Attributes:
        context: The name of the context.
        target: The name of the target column.
        source: The source of which the predictions must be.
        table: The query rows.
        labelled: The groups of the rows, in the order of the table.
        groups: The groups that have an effect: a single one without known values, which are
            predicted regardless of each other.
        known: The known values, of rows in the order of the groups.
        quantiles: The probabilities of the quantiles.
        options: The other options.
    """

    context: str
    target: str
    source: Source
    table: Table
    labelled: Groups
    groups: Groups
    known: KnownValues
    quantiles: list[float]
    options: PredictOptions

    @classmethod
    def about(
        cls,
        context: Description[Any],
        rows: Data,
        given: Any,
        groupby: Any,
        options: PredictOptions,
    ) -> PredictCall:
        """Returns a call; raises InvalidArgumentError for invalid arguments."""
        table = query_rows(context, rows)
        known = known_values(context, rows, table, given)
        if known.separate:
            raise InvalidArgumentError(
                f"given: the shape is {np.shape(given)}, must be ({table.row_count},)",
                fields=["given"],
            )
        check_rows(table)
        labelled = query_groups(context, rows, table, groupby)
        groups = labelled if len(known) else Groups.none(table.row_count)
        return cls(
            context.name,
            context.target,
            context.source,
            table,
            labelled,
            groups,
            known.grouped(groups),
            probabilities(options.quantiles),
            options,
        )

    @property
    def _local_rows(self) -> int:
        return local_row_count(self.options.local_rows, self.groups)

    def pieces(self) -> Iterable[tuple[Table, Piece]]:
        """Yields the rows of each request, and their piece of the rows of all groups."""
        arranged = self.groups.arranged(cut_texts(self.table))
        for piece in predict_pieces(arranged, self.known, self.groups, self._local_rows):
            yield arranged.take(piece.rows), piece

    def part(self, sent: tuple[Table, Piece], source: Source) -> Job[Part]:
        """Makes the call for a piece, which expects a source."""
        rows, piece = sent
        known = self.known.within(piece.rows)
        grouped = self.groups.labels is not None and len(known) > 0
        request = pb.PredictRequest(
            context=f"contexts/{self.context}",
            rows=encode_table(rows),
            quantiles=self.quantiles,
            include_mixtures=self.options.mixtures,
            snapping=snapping(self.options.snap),
            local_row_count=self._local_rows,
            expected_source=source.message(),
            known=known.message(),
            beyond_buffer=beyond_buffer(self.options.wrap),
            group_sizes=piece.sizes if grouped else [],
        )
        check_size(request.ByteSize())
        in_table = self.groups.order[piece.rows]
        answer: pb.PredictResponse = yield Call(
            "Predict",
            self.context,
            request,
            rows=in_table.tolist(),
            known=known.renumbered(in_table),
        )
        known.check_response(answer.known_log_densities, 1, len(piece.sizes))
        count = len(known.others)
        check_count("means", answer.means, count)
        check_count("standard deviations", answer.stds, count)
        check_count("quantiles", answer.quantiles, count * len(self.quantiles))
        densities = list(answer.known_log_densities) if len(known) else [0.0] * len(piece.sizes)
        return Part(in_table[known.others], piece.first_group, densities, answer)

    def stream(self) -> Results[Predictions]:
        """Yields the predictions of each piece, and issues each warning once."""
        told: set[tuple[str, str]] = set()

        def tell_new(warnings: Iterable[DataWarning]) -> None:
            new = [one for one in warnings if (one.reason, one.column) not in told]
            told.update((one.reason, one.column) for one in new)
            tell(new)

        source = self.source
        for number, piece in enumerate(self.pieces()):
            part = yield from self.part(piece, source)
            source = part.source
            predictions = self.predictions([part], first=number == 0)
            tell_new(predictions.warnings)
            yield predictions

    def predictions(self, parts: Sequence[Part], *, first: bool = True) -> Predictions:
        """Returns the predictions of some parts, in the order of the table.

        Args:
            parts: The parts, at least one.
            first: Whether the result has the warnings about the table as a whole.
        """
        answers = [part.answer for part in parts]
        rows = np.concatenate([part.rows for part in parts])
        at = np.argsort(rows)
        width = len(self.quantiles)
        labels, group_labels = self.table.labels, None
        if len(rows) < self.table.row_count:
            labels = labels.take(rows[at])
        groups = self._groups_of(rows)
        if self.labelled.labels is not None:
            group_labels = tuple(self.labelled.labels[group] for group in groups)
        return Predictions(
            means=joined(answer.means for answer in answers)[at],
            stds=joined(answer.stds for answer in answers)[at],
            quantiles=joined(answer.quantiles for answer in answers).reshape(len(at), width)[at],
            probabilities=np.array(self.quantiles),
            mixtures=(
                _mixtures([answer.mixtures for answer in answers], at)
                if self.options.mixtures
                else None
            ),
            labels=labels,
            target=self.target,
            source=parts[-1].source,
            warnings=(
                *(self.table.warnings if first else ()),
                *merge_warnings(read_warnings(answer.warnings) for answer in answers),
            ),
            known_log_density=self._known_log_density(parts, groups),
            groups=group_labels,
        )

    def _groups_of(self, rows: Integers) -> list[int]:
        """Returns the groups of rows of the table, in ascending order."""
        ends = self.labelled.sizes.cumsum()
        places = self.labelled.places[rows]
        found: list[int] = np.unique(np.searchsorted(ends, places, side="right")).tolist()
        return found

    def _known_log_density(self, parts: Sequence[Part], groups: Sequence[int]) -> KnownLogDensity:
        """Returns the log-densities of the known values of groups, by the first part of each."""
        if not len(self.known):
            return None
        densities: dict[int, float] = {}
        for part in parts:
            for group, density in enumerate(part.known_log_densities, start=part.first_group):
                densities.setdefault(group, density)
        if self.groups.labels is None:
            return densities[0]
        return np.array([densities[group] for group in groups])


def _mixtures(messages: Sequence[pb.Mixtures], rows: Integers) -> Mixtures:
    shape = (-1, messages[0].component_count)
    return Mixtures(
        joined(message.means for message in messages).reshape(shape)[rows],
        joined(message.stds for message in messages).reshape(shape)[rows],
        joined(message.weights for message in messages).reshape(shape)[rows],
    )
