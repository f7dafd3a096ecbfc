"""Imputation: joint draws of the missing cells of a table."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chorale_client import _calls
from chorale_client._calls import Job
from chorale_client._columns import Column, Floats, NumericColumn
from chorale_client._data_warnings import DataWarning, read_warnings, tell
from chorale_client._errors import InvalidArgumentError
from chorale_client._groups import Groups
from chorale_client._known_values import KnownValues
from chorale_client._models_and_contexts import Source
from chorale_client._options import SampleOptions
from chorale_client._progress import Option, Progress
from chorale_client._requests import RegisterOptions, random_seed, seed_number, whole_number
from chorale_client._sample_requests import sample_request
from chorale_client._samples import Samples
from chorale_client._sampling import Assembly, SampleCall
from chorale_client._tables import Data, Table, Types, did_you_mean, read_table, replace_columns
from chorale_client._text_normalisation import Names

_MAX_ROWS = 4096  # of a call: the server's default limit
_MAX_CELLS = 1 << 17  # of a call: a message of about a MiB
_ABANDONED = datetime.timedelta(hours=1)
_KINDS = {
    "categorical": "is categorical",
    "strings": "has strings",
    "boolean": "has booleans",
    "date": "has dates",
    "duration": "has durations",
}


@dataclass(frozen=True, eq=False)
class Imputation:
    """A table whose missing cells were drawn; the result of `Client.impute`.

    `imputation[column]` are the draws of the missing cells of a column, as `Samples` with the
    labels of their rows. Path b of each column belongs to the same completed table.

    Attributes:
        data: The table with its missing cells.
        samples: The draws by the name of the column, in the order in which they were drawn.
        paths: The number of completed tables.
        seed: The seed, which reproduces the draws.
        warnings: Warnings about the table, and about columns that were not imputed.

    Examples:
        >>> imputation["age"].std()  # [missing cells of the column]
        >>> np.quantile(imputation["price"].sum(), [0.05, 0.95])  # of their total
    """

    data: Data
    samples: dict[str, Samples]
    paths: int
    seed: int
    warnings: tuple[DataWarning, ...]
    _columns: dict[str, NumericColumn]  # with the missing cells

    def __getitem__(self, column: str) -> Samples:
        return self.samples[column]

    def table(self, path: int | None = None) -> Any:
        """Returns a completed table, of the same kind as the table that was passed.

        Imputed columns have floating-point numbers.

        Args:
            path: The number of a path, whose draws fill the missing cells; None: their means over
                all paths.

        Raises:
            IndexError: There is no such path.
        """
        draws = {
            name: samples.mean() if path is None else samples.values[path]
            for name, samples in self.samples.items()
        }
        return replace_columns(
            self.data,
            {name: _completed(self._columns[name], row[None, :])[0] for name, row in draws.items()},
        )

    def tables(self) -> Iterator[Any]:
        """Yields the completed table of each path, for multiple imputation."""
        return map(self.table, range(self.paths))

    def __repr__(self) -> str:
        holes = ", ".join(f"{len(samples)} of {name!r}" for name, samples in self.samples.items())
        return f"<Imputation of {holes or 'no'} missing cells: {self.paths} paths>"


class ImputeOptions(NamedTuple):
    """The arguments of `Client.impute` after the table, in their order."""

    columns: Sequence[str] | None
    paths: int
    seed: int | None
    model: str | None
    types: Types | None


def impute(data: Data, progress: Option, options: ImputeOptions) -> Job[Imputation]:
    """Draws the missing cells of a table, one column after the other.

    The rows in which a column is known are a context, with the missing cells of their features. The
    query rows are those in which it is missing. On each path, they have the values that the path
    has drawn for earlier columns, so that all columns together are a joint draw.
    """
    paths = whole_number("paths", options.paths, 1)
    seed = seed_number(options.seed)
    if seed is None:
        seed = random_seed()
    options = options._replace(paths=paths)
    table = read_table(data, types=options.types)
    columns = _columns_to_impute(table, options.columns)
    buffer_size = (yield from _buffer_size(options.model)) if columns else 0
    drawn: dict[str, Samples] = {}
    counts = {name: int(column.missing().sum()) for name, column in columns.items()}
    with Progress(progress, paths * sum(counts.values()), "values") as done:
        for name in sorted(columns, key=lambda name: counts[name]):
            drawn[name] = yield from _draw(table, columns, name, drawn, buffer_size, seed, options)
            done(sum(samples.values.size for samples in drawn.values()))
    found = _first_of_each([*table.warnings, *(w for s in drawn.values() for w in s.warnings)])
    result = Imputation(data, drawn, paths, seed, found, columns)
    tell(result.warnings)
    return result


def _columns_to_impute(table: Table, wanted: Sequence[str] | None) -> dict[str, NumericColumn]:
    """Returns the columns with missing cells that are to be imputed.

    Adds a warning to the table for each other column with missing cells, unless the caller has
    selected columns.
    """
    names = Names(table.columns)
    asked = list(table.columns) if wanted is None else wanted
    columns = {}
    for name in [asked] if isinstance(asked, str) else asked:
        own = names.find(str(name))
        if own is None:
            hint = did_you_mean(str(name), table.columns)
            raise _invalid(f"the table has no column {name!r}{hint}")
        column = table.columns[own]
        missing = int(column.missing().sum())
        numeric = isinstance(column, NumericColumn) and column.meaning == "number"
        if not numeric and (missing or wanted is not None):
            message = f"column {own!r} {_kind(column)}, and only numbers can be imputed"
            if wanted is not None:
                raise _invalid(message)
            message += f": its {missing} missing cells are unchanged"
            table.warnings.append(DataWarning(message, "NOT_IMPUTED", own, missing))
        elif missing == table.row_count:
            raise _invalid(f"all cells of column {own!r} are missing: drop the column")
        elif missing and isinstance(column, NumericColumn):
            columns[own] = column
    return columns


def _kind(column: Column) -> str:
    return _KINDS[column.meaning if isinstance(column, NumericColumn) else column.kind]


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"columns: {message}", fields=["columns"])


def _buffer_size(name: str | None) -> Job[int]:
    """Returns the buffer size of a model; None: of the default model."""
    for model in (yield from _calls.list_models()):
        if model.is_default if name is None else model.name == f"models/{name}":
            return max(int(model.buffer_size), 1)
    return 1  # the registration rejects an unknown model


def _draw(
    table: Table,
    columns: dict[str, NumericColumn],
    name: str,
    earlier: dict[str, Samples],
    buffer_size: int,
    seed: int,
    options: ImputeOptions,
) -> Job[Samples]:
    """Draws the missing cells of a column, conditional on the draws of earlier columns.

    Args:
        table: The table with all missing cells.
        columns: The columns to impute.
        name: The name of the column.
        earlier: The draws of earlier columns.
        buffer_size: The most cells that have a joint distribution.
        seed: The seed.
        options: The options.
    """
    missing = columns[name].missing()
    rows, paths = np.flatnonzero(missing), options.paths
    context, told, *_ = yield from _calls.register_table(
        f"imputation-{uuid.uuid4().hex}",
        dataclasses.replace(table.take(np.flatnonzero(~missing)), warnings=[]),
        name,
        options.model,
        lambda _: None,
        RegisterOptions(expires=_ABANDONED),
    )
    warnings = list(told)
    context_id = context.name.removeprefix("contexts/")
    # If earlier draws fill cells of these rows, each path has rows of its own.
    filled = {
        other: _completed(columns[other], draws.values)[:, rows].ravel()
        for other, draws in earlier.items()
        if columns[other].missing()[rows].any()
    }
    copies = paths if filled else 1
    features = {other: column for other, column in table.columns.items() if other != name}
    queries = dataclasses.replace(table, columns=features, warnings=[]).take(rows)
    sizes = np.tile(np.diff([*range(0, len(rows), buffer_size), len(rows)]), copies)
    ends = np.cumsum(sizes)
    most = max(1, min(_MAX_ROWS, _MAX_CELLS // len(table.columns)) // int(sizes[0]))
    values = np.empty((paths // copies, copies * len(rows)))
    for first in range(0, len(sizes), most):
        own = sizes[first : first + most]
        mine = np.arange(ends[first] - sizes[first], ends[first + len(own) - 1])
        query = queries.take(mine % len(rows))
        for other, numbers in filled.items():
            query = query.with_column(NumericColumn(other, numbers[mine]))
        groups = Groups(tuple(range(len(own))), own, np.arange(len(mine)))
        known = KnownValues.none(len(mine))
        # Each call has another seed, because groups of the same index have the same random numbers.
        own_seed = np.random.SeedSequence([seed, first]).generate_state(1, np.uint64)[0]
        draw = SampleOptions(
            paths // copies, int(own_seed) if first else seed, "given", False, False, True, None
        )
        source = Source(context_digest=context.digest)
        request = sample_request(context_id, query, known, groups, None, draw, source)
        call = SampleCall(context_id, name, query, known, groups, None, request)
        assembly = Assembly(call, lambda _: None)
        for message in (yield call):
            if message.summary is not None:  # the warnings of all calls are issued together
                warnings += read_warnings(message.summary.warnings)
                del message.summary.warnings[:]
            assembly.add(message)
        samples = assembly.finish()
        values[:, mine] = samples.values
    yield from _calls.delete(context_id, None, allow_missing=True)
    return dataclasses.replace(
        samples,
        values=values.reshape(paths, len(rows)),
        labels=table.labels.take(rows),
        seed=seed,
        warnings=_first_of_each(warnings),
        groups=None,
    )


def _first_of_each(warnings: Sequence[DataWarning]) -> tuple[DataWarning, ...]:
    """Returns the first warning of each reason and column, as all calls are about one table."""
    found: dict[tuple[str, str], DataWarning] = {}
    for warning in warnings:
        found.setdefault((warning.reason, warning.column), warning)
    return tuple(found.values())


def _completed(column: NumericColumn, draws: Floats) -> Floats:
    """Returns the values of a column with the draws of its missing cells [paths, rows]."""
    values = np.tile(column.values, (len(draws), 1))
    values[:, column.missing()] = draws
    return values
