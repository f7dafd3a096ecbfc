"""Reads the tables, rows and values that calls send, by the columns of the context."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from chorale_client._cells import is_missing
from chorale_client._column_reading import ColumnReader, cells_of
from chorale_client._columns import Floats, NumericColumn
from chorale_client._data_warnings import DataWarning
from chorale_client._encodable import check_encodable
from chorale_client._errors import InvalidArgumentError
from chorale_client._groups import Groups, invalid
from chorale_client._known_values import KnownValues
from chorale_client._models_and_contexts import Description
from chorale_client._requests import (
    MissingTargets,
    RegisterOptions,
    check_target,
    name_from_content,
)
from chorale_client._row_values import (
    align,
    align_vectors,
    column_names,
    is_labelled,
    some_values_for_rows,
    values_for_rows,
)
from chorale_client._tables import (
    Data,
    Table,
    Types,
    read_cells,
    read_numbers,
    read_rows,
    read_table,
    take_rows,
)
from chorale_client._text_normalisation import Names


def table_to_register(
    data: Data,
    target: Any,
    name: str | None,
    model: str | None,
    types: Types | None,
    options: RegisterOptions,
) -> tuple[Table, str, str, Data]:
    """Returns the table, the names of its target column and of the context, and the query rows.

    The query rows are None unless the options have them taken out of the table.
    """
    table = read_table(data, types=types)
    if isinstance(target, str | int):
        target_name = Names(table.columns).find(str(target)) or str(target)
    else:
        own = getattr(target, "name", None)
        target_name = "target" if is_missing(own) else str(own)
        check_encodable([target_name], "target: its name", "target")
        if target_name in table.columns:
            raise InvalidArgumentError(
                f"target: the table already has a column {target_name!r}: drop the column, or "
                "pass its name as the target",
                fields=["target"],
            )
        aligned = align(target, table.labels.index, "target")
        values = ColumnReader(target_name, table.warnings, "numeric").read(aligned)
        if table.columns and len(values) != table.row_count:
            raise InvalidArgumentError(
                f"target: {len(values)} values for {table.row_count} rows", fields=["target"]
            )
        table = table.with_column(values)
    check_target(table, target_name, options.missing_targets)
    rows_to_query = None
    if options.missing_targets == "query":
        missing = table.columns[target_name].missing()
        if missing.all():
            raise InvalidArgumentError(
                f"target: all cells of column {target_name!r} are missing", fields=["target"]
            )
        rows_to_query = take_rows(data, np.flatnonzero(missing))
        table = table.take(np.flatnonzero(~missing))
    column = table.columns[target_name]
    if isinstance(column, NumericColumn):
        # The server does not store the meaning of a target; it is not part of the content.
        table = table.with_column(dataclasses.replace(column, meaning="number"))
    content = name_from_content(table, target_name, model, options)
    return table, target_name, name or content, rows_to_query


def rows_to_append(
    context: Description[Any], data: Data, target: Any, missing_targets: MissingTargets
) -> Table:
    """Returns the context's columns of `data`, read like query rows, and its target.

    Args:
        context: The context.
        data: The rows, as passed by the caller.
        target: [rows]: the values of the target; None: the column of the rows with its name.
        missing_targets: Whether rows without a value are rejected or dropped by the server.
    """
    table = query_rows(context, data)
    if target is None:
        values = read_numbers(data, context.target)
    else:
        aligned = align(target, table.labels.index, "target")
        column = ColumnReader(context.target, table.warnings, "numeric").read(aligned)
        if len(column) != table.row_count:
            raise InvalidArgumentError(
                f"target: {len(column)} values for {table.row_count} rows", fields=["target"]
            )
        values = column if isinstance(column, NumericColumn) else None
    if values is not None:
        table = table.with_column(dataclasses.replace(values, meaning="number"))
    check_target(table, context.target, missing_targets, ("reject", "drop"))
    return table


def query_rows(context: Description[Any], data: Data) -> Table:
    """Returns the context's columns of `data`, read by their types and meanings in the context."""
    kinds, meanings = context._kinds(), context._meanings()
    table = read_rows(_named(context, data), kinds, meanings)
    # The model does not read dropped columns, so the meanings of their cells have no effect.
    dropped = {feature.name for feature in context.features if feature.dropped}
    table.warnings[:] = [
        warning
        for warning in table.warnings
        if warning.reason != "OTHER_MEANING" or warning.column not in dropped
    ]
    return table


def _has_features_only(data: Data, feature_count: int) -> bool:
    """Whether an array, which has no names, has as many columns as the context has features.

    The columns are then the features in their order.
    """
    return isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == feature_count


def _named(context: Description[Any], data: Data) -> Data:
    """Returns the rows, with the names of the features if they are an array of these."""
    kinds = context._kinds()
    if _has_features_only(data, len(kinds)):
        return {name: data[:, i] for i, name in enumerate(kinds)}
    return data


def _target_column(
    context: Description[Any], data: Data, *, finite: bool = True
) -> NumericColumn | None:
    """Returns the target column of query rows; None if they have none."""
    if _has_features_only(data, len(context._kinds())):
        return None
    return read_numbers(data, context.target, finite=finite)


def query_groups(context: Description[Any], data: Data, rows: Table, groupby: Any) -> Groups:
    """Returns the groups of query rows.

    Args:
        context: The context of the call.
        data: The rows, as passed by the caller.
        rows: The same rows as a table.
        groupby: The name of a column of the rows, or a list of names; or an array or a Series of
            labels [rows]; None: no groups.

    Raises:
        InvalidArgumentError: There is no such column, a label is missing, or their number is
            another one than that of the rows.
    """
    if groupby is None:
        return Groups.none(rows.row_count)
    names = [groupby] if isinstance(groupby, str | int) else groupby
    if isinstance(names, list | tuple):
        if not names or not all(isinstance(name, str | int) for name in names):
            raise invalid("a list must have names of columns: pass labels as an array or a Series")
        table = _named(context, data)
        columns = [read_cells(table, str(name), "groupby") for name in names]
    else:
        try:
            columns = [cells_of(align(groupby, rows.labels.index, "groupby"))]
        except TypeError as error:
            raise invalid(str(error)) from None
    return Groups.of(columns, rows.row_count)


def known_values(context: Description[Any], data: Data, rows: Table, given: Any) -> KnownValues:
    """Returns the known values of query rows; adds a warning to the rows if there are none.

    Args:
        context: The context of the call.
        data: The rows, as passed by the caller.
        rows: The same rows as a table.
        given: [rows], [paths, rows] or [vectors, rows], with NaN for values that are not known;
            True: the target column of the rows; None or False: no values are known.

    Raises:
        InvalidArgumentError: The values are invalid; or they are None, and the target column of the
            rows has both values and missing cells.
    """
    if isinstance(given, bool | np.bool_):
        given = True if given else None
    if given is None:
        _check_unmixed(context, data)
        return KnownValues.none(rows.row_count)
    known = KnownValues.of(_given_numbers(context, data, rows, given), rows.row_count)
    if not len(known):
        rows.warnings.append(
            DataWarning(
                "given: no values are known; the results are unconditional",
                "NO_KNOWN_VALUES",
                context.target,
                rows.row_count,
            )
        )
    return known


def _given_numbers(context: Description[Any], data: Data, rows: Table, given: Any) -> Floats:
    """Returns the argument `given` as numbers in the order of the rows, NaN if not known."""
    if given is True:
        column = _target_column(context, data)
        if column is None:
            raise _invalid_given(
                f"the rows have no column {context.target!r}: pass the known values"
            )
        return column.values
    if isinstance(given, str):
        raise _invalid_given(f"{given!r} is a string: pass given=True to use the target column")
    if isinstance(given, Mapping):
        raise _invalid_given(
            f"the type is {type(given).__name__}, must be a Series, an array or True: pass a "
            "Series with the labels of the rows, for example pandas.Series(given)"
        )
    labels = rows.labels
    names = labels.names()
    columns = column_names(given)
    if columns is not None and list(columns) == [context.target] and context.target not in names:
        given = given[context.target]
    return some_values_for_rows(given, labels.index, names, "given")


def _invalid_given(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"given: {message}", fields=["given"])


def _check_unmixed(context: Description[Any], data: Data) -> None:
    """Raises InvalidArgumentError if the target column has both values and missing cells."""
    try:
        column = _target_column(context, data, finite=False)
    except InvalidArgumentError:  # the column does not contain values of the target
        return
    known = 0 if column is None else int((~column.missing()).sum())
    if column is not None and 0 < known < len(column):
        raise InvalidArgumentError(
            f"rows: the target column {context.target!r} has values in {known} of {len(column)} "
            "rows: pass given=True to make results conditional on them, or drop the column to "
            "ignore them",
            fields=["rows"],
        )


def query_values(
    context: Description[Any], data: Data, rows: Table, values: Any, known: KnownValues
) -> Any:
    """Returns values in the order of the rows, or the target column of the rows.

    Args:
        context: The context of the call.
        data: The rows, as passed by the caller.
        rows: The same rows as a table.
        values: [rows] or [vectors, rows], or None; of all rows, or of those that are not known.
        known: The known values.
    """
    if values is None:
        return _observed(context, data, known)
    labels = rows.labels
    if len(known) and _width(values) == len(known.others):
        labels = labels.take(known.others)
    if is_labelled(values):
        return values_for_rows(values, labels.index, "values")
    return align_vectors(values, labels.index, labels.names(), "values")


def _observed(context: Description[Any], data: Data, known: KnownValues) -> Floats:
    """Returns the values in the target column of the rows that are not known."""
    column = _target_column(context, data)
    if column is None:
        raise InvalidArgumentError(
            f"values: the rows have no column {context.target!r}: pass the values",
            fields=["values"],
        )
    if len(column) != len(known) + len(known.others):
        return column.values  # rejected because of its shape
    values = column.values[known.others]
    if np.isnan(values).any():
        raise InvalidArgumentError(
            f"values: the column {context.target!r} of the rows has missing cells"
            + (" in rows that are not known: pass the values of these rows" if len(known) else ""),
            fields=["values"],
        )
    return values


def _width(values: Any) -> int:
    """Returns the length of a vector of values; 0 if it is not known."""
    try:
        shape = np.shape(values)
    except ValueError:  # lists of different lengths
        return 0
    return int(shape[-1]) if shape else 0
