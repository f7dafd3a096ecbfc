"""What a call about a context asks: its rows and values, read by what the context has."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from chorale_client.cells import is_missing
from chorale_client.column_reading import read_column
from chorale_client.columns import CategoricalColumn, NumericColumn
from chorale_client.descriptions import Description
from chorale_client.encodable import check_encodable
from chorale_client.errors import InvalidArgumentError
from chorale_client.normal_text import Names
from chorale_client.requests import check_target, name_from_content
from chorale_client.row_values import align, align_vectors, is_labelled, values_for_rows
from chorale_client.tables import Data, Table, Types, read_rows, read_table


def table_to_register(
    data: Data,
    target: Any,
    name: str | None,
    model: str | None,
    types: Types | None,
    *,
    seasons: bool = True,
) -> tuple[Table, str, str]:
    """The table, the name of its target column, and that of the context."""
    table = read_table(data, types=types)
    if isinstance(target, str | int):
        target_name = Names(table.columns).find(str(target)) or str(target)
    else:
        own = getattr(target, "name", None)
        target_name = "target" if is_missing(own) else str(own)
        check_encodable([target_name], "target: its name", "target")
        if target_name in table.columns:
            raise InvalidArgumentError(
                f"target: the table has a column {target_name!r} already: leave it out, or give "
                "the target by its name",
                fields=["target"],
            )
        aligned = align(target, table.labels.index, "target")
        column = read_column(target_name, aligned, "numeric", table.notes)
        if table.columns and len(column) != table.row_count:
            raise InvalidArgumentError(
                f"target: {len(column)} values for {table.row_count} rows", fields=["target"]
            )
        table = table.with_column(column)
    check_target(table, target_name)
    # What a target's numbers stood for, the server does not keep: it is not a part of the content.
    column = table.columns[target_name]
    assert isinstance(column, NumericColumn)
    table = table.with_column(dataclasses.replace(column, meaning="number"))
    content = name_from_content(table, target_name, model, seasons=seasons)
    return table, target_name, name or content


def rows_to_ask(context: Description[Any], data: Data) -> Table:
    """The columns of `data` that the context has, as what they are there."""
    kinds, meanings = context._kinds(), context._meanings()
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == len(kinds):
        # An array has no names: with as many columns as features it has them in their order.
        data = {name: data[:, i] for i, name in enumerate(kinds)}
    table = read_rows(data, kinds, meanings)
    # Of a column that says nothing, such as one that was empty, it does not matter what it holds.
    left_out = {feature.name for feature in context.features if feature.left_out}
    table.notes[:] = [
        note
        for note in table.notes
        if note.reason != "OTHER_MEANING" or note.column not in left_out
    ]
    return table


def values_to_weigh(context: Description[Any], data: Data, rows: Table, values: Any) -> Any:
    """The values given, in the order of the rows, else the target's column of these.

    Args:
        context: Which is asked.
        data: The rows as the caller gave them.
        rows: The same, read.
        values: [rows] or [vectors, rows], or None.
    """
    index = rows.labels.index
    if is_labelled(values):
        return values_for_rows(values, index, "values")
    if values is not None:
        return align_vectors(values, index, rows.labels.names(), "values")
    table = read_table(data, only=[context.target])
    column = table.columns.get(context.target)
    if column is None:
        raise InvalidArgumentError(
            f"values: the rows have no column {context.target!r}, so give the values",
            fields=["values"],
        )
    if isinstance(column, CategoricalColumn) or column.missing().any():
        raise InvalidArgumentError(
            f"values: the column {context.target!r} of the rows is not numeric, or has missing "
            "cells",
            fields=["values"],
        )
    assert isinstance(column, NumericColumn)
    return column.values
