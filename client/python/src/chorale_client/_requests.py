"""Encodes tables as request messages."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from chorale_client._choices import check_choice
from chorale_client._columns import CategoricalColumn, Column, NumericColumn, StringColumn
from chorale_client._encodable import check_encodable
from chorale_client._errors import InvalidArgumentError
from chorale_client._groups import Groups
from chorale_client._models_and_contexts import (
    MEANING_CODES,
    MEMORY_POLICY_CODES,
    MemoryPolicy,
)
from chorale_client._tables import Table, did_you_mean
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._wire import numeric_values

MissingTargets = Literal["reject", "drop", "query"]  # "query" only in registrations

MAX_MESSAGE_BYTES = 4 << 20
MAX_CHUNK_BYTES = 512 << 10  # fast over a network, with little memory on the server
MAX_CHUNK_ROWS = 1 << 16
_MAX_PREDICT_ROWS = 1024
_MAX_QUERY_ROWS = 4096  # of a call with known values: the server's default limit
_LOCAL_ROWS_OF_EACH = 32  # the least for each row of a call
MAX_PREDICT_BYTES = 1 << 20
MAX_TEXT_BYTES = 256  # in a category or string of a registered table

_COLUMN_BYTES, _NUMBER_BYTES, _CODE_BYTES, _TEXT_BYTES = 32, 8, 5, 6  # at most, on the wire


def encode_table(
    table: Table, start: int = 0, end: int | None = None, *, meanings: bool = False
) -> pb.Table:
    """Encodes the rows from `start` to `end` as a message.

    Args:
        table: The table.
        start: The first row.
        end: The row after the last; None: all further rows.
        meanings: Whether to include the meanings of numbers, for registration. Query rows have no
            meanings, so that any number is valid for booleans.
    """
    message = pb.Table()
    for column in table.columns.values():
        out = message.columns.add(name=column.name)
        if isinstance(column, NumericColumn):
            out.numeric.CopyFrom(numeric_values(column.values[start:end]))
            if meanings:
                out.numeric.meaning = MEANING_CODES[column.meaning]
        elif isinstance(column, StringColumn):
            out.strings.values.extend(column.strings[start:end])
        else:
            categories, codes = _used(column, start, end)
            out.categorical.categories.extend(categories)
            out.categorical.codes.extend(codes.tolist())
    return message


def restore_meanings(context: pb.Context, table: Table) -> None:
    """Adds the meanings of a registered table's columns, which older servers do not store."""
    for feature in context.features:
        column = table.columns.get(feature.name)
        if isinstance(column, NumericColumn) and feature.type == pb.ColumnSummary.TYPE_NUMERIC:
            feature.meaning = MEANING_CODES[column.meaning]


def _used(
    column: CategoricalColumn, start: int, end: int | None
) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Returns the categories that occur in some rows, and the codes of the rows."""
    codes = column.codes[start:end]
    used, inverse = np.unique(codes, return_inverse=True)
    texts = [column.categories[code] for code in used if code >= 0]
    shift = 1 if used.size and used[0] < 0 else 0
    return texts, (inverse - shift).astype(np.int32)


def cut_texts(table: Table) -> Table:
    """Truncates texts that are too long for any context, so that they stay unknown."""
    columns: dict[str, Column] = {}
    for name, column in table.columns.items():
        columns[name] = column
        if isinstance(column, StringColumn):
            columns[name] = StringColumn(name, [s[: MAX_TEXT_BYTES + 1] for s in column.strings])
        if not isinstance(column, CategoricalColumn):
            continue
        cut = [text[: MAX_TEXT_BYTES + 1] for text in column.categories]
        if cut != column.categories:
            place: dict[str, int] = {}
            new = [place.setdefault(text, len(place)) for text in cut]
            codes = np.array([*new, -1], dtype=np.int32)[column.codes]
            columns[name] = CategoricalColumn(name, list(place), codes)
    return dataclasses.replace(table, columns=columns)


def split_rows(table: Table, max_bytes: int, max_rows: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of rows for messages of limited size; each has at least one row."""
    categorical = [c for c in table.columns.values() if isinstance(c, CategoricalColumn)]
    strings = [c for c in table.columns.values() if isinstance(c, StringColumn)]
    numeric_count = len(table.columns) - len(categorical) - len(strings)
    row_bytes = (
        _NUMBER_BYTES * numeric_count + _CODE_BYTES * len(categorical) + _TEXT_BYTES * len(strings)
    )
    ends = np.zeros(table.row_count + 1, np.int64)  # of the bytes of the strings of each row
    for column in strings:
        ends[1:] += np.cumsum([len(string.encode()) for string in column.strings])
    fixed = sum(_COLUMN_BYTES + len(name.encode()) for name in table.columns)
    texts = [
        np.array([len(text.encode()) + _TEXT_BYTES for text in column.categories] + [0])
        for column in categorical
    ]
    start = 0
    while start < table.row_count:
        rows = min(max_rows, table.row_count - start, max(1, (max_bytes - fixed) // row_bytes))
        while rows > 1:
            dictionary = sum(
                int(sizes[np.unique(column.codes[start : start + rows])].sum())
                for sizes, column in zip(texts, categorical, strict=True)
            )
            body = rows * row_bytes + int(ends[start + rows] - ends[start])
            if fixed + body + dictionary <= max_bytes:
                break
            rows = max(1, rows * 3 // 4)
        yield start, start + rows
        start += rows


def check_target(
    table: Table,
    target: str,
    missing_targets: MissingTargets,
    allowed: Sequence[str] = get_args(MissingTargets),
) -> None:
    """Raises InvalidArgumentError if the column cannot be a target."""
    if missing_targets not in allowed:
        raise InvalidArgumentError(
            f"missing_targets: {missing_targets!r}, must be {' or '.join(map(repr, allowed))}",
            fields=["missing_targets"],
        )
    if table.row_count == 0:
        raise InvalidArgumentError("the table has no rows")
    column = table.columns.get(target)
    if column is None:
        raise InvalidArgumentError(
            f"target: the table has no column {target!r}{did_you_mean(target, table.columns)}",
            fields=["target"],
        )
    if isinstance(column, CategoricalColumn):
        raise InvalidArgumentError(
            f"target: column {target!r} is categorical, but a target must be numeric",
            fields=["target"],
        )
    missing = int(column.missing().sum())
    if missing and missing_targets == "reject":
        raise InvalidArgumentError(
            f"target: column {target!r} has {missing} missing cells, but a target must have none: "
            "missing_targets='drop' drops these rows"
            + (", 'query' returns them as query rows" if "query" in allowed else ""),
            fields=["target"],
        )


def name_from_content(
    table: Table, target: str, model: str | None, options: RegisterOptions
) -> str:
    """Returns a name derived from the content: the name of the target and a digest."""
    digest = hashlib.sha256(repr((target, model)).encode())
    if not options.seasons:
        digest.update(b"no seasons")
    memory_rows, policy = options.memory_set()
    if memory_rows:
        digest.update(repr(("memory", memory_rows, policy)).encode())
    for column in table.columns.values():
        digest.update(repr((column.name, column.kind)).encode())
        if isinstance(column, NumericColumn):
            if column.meaning != "number":
                digest.update(column.meaning.encode())
            digest.update(np.ascontiguousarray(column.values, dtype="<f8").tobytes())
        elif isinstance(column, StringColumn):
            digest.update(repr(column.strings).encode())
        else:
            digest.update(repr(column.categories).encode())
            digest.update(np.ascontiguousarray(column.codes, dtype="<i4").tobytes())
    slug = re.sub(r"[^a-z0-9]+", "-", target.lower()).strip("-")[:40]
    return f"{slug or 'table'}-{digest.hexdigest()[:16]}"


def check_rows(table: Table) -> None:
    """Raises InvalidArgumentError if there are no rows."""
    if table.row_count == 0:
        raise InvalidArgumentError("rows: there are none", fields=["rows"])


class RegisterOptions(NamedTuple):
    """The options of `register` that go into the spec of the context."""

    seasons: bool = True
    missing_targets: MissingTargets = "reject"
    validate_only: bool = False
    description: str = ""
    labels: Mapping[str, str] | None = None
    expires: datetime.datetime | datetime.timedelta | None = None
    replace: bool = False
    etag: str | None = None
    memory_rows: int | None = None
    memory_policy: MemoryPolicy = "merge"

    def spec(self, **fields: Any) -> pb.ContextSpec:
        """Returns a spec with these fields and the options."""
        check_encodable([self.description], "description:", "description")
        check_encodable([self.etag or ""], "etag:", "etag")
        spec = pb.ContextSpec(
            validate_only=self.validate_only,
            description=self.description,
            replace=self.replace,
            etag=self.etag or "",
            **fields,
        )
        for key, value in (self.labels or {}).items():
            check_encodable([key, value], "labels:", "labels")
            spec.labels[key] = value
        if isinstance(self.expires, datetime.timedelta):
            spec.ttl.FromTimedelta(self.expires)
        elif self.expires is not None:
            if self.expires.tzinfo is None:
                raise InvalidArgumentError(
                    f"expires: {self.expires} has no time zone", fields=["expires"]
                )
            spec.expire_time.FromDatetime(self.expires)
        if not self.seasons:
            spec.seasons = pb.ContextSpec.SEASONS_OFF
        if self.missing_targets == "drop":
            spec.missing_targets = pb.ContextSpec.MISSING_TARGETS_DROP
        spec.memory_row_count, spec.memory_policy = self.memory_set()
        return spec

    def memory_set(self) -> tuple[int, pb.MemoryPolicy]:
        """Returns the size of the memory set, 0 for none, and its policy.

        InvalidArgumentError if the size is not a positive integer, or the policy is unknown or not
        the default without a size.
        """
        rows = 0 if self.memory_rows is None else whole_number("memory_rows", self.memory_rows, 1)
        check_choice("memory_policy", self.memory_policy, MEMORY_POLICY_CODES)
        if self.memory_policy != "merge" and rows == 0:
            raise InvalidArgumentError(
                "memory_policy: requires memory_rows", fields=["memory_policy"]
            )
        if self.memory_policy == "merge":  # the default, which requires no memory set
            return rows, pb.MEMORY_POLICY_UNSPECIFIED
        return rows, MEMORY_POLICY_CODES[self.memory_policy]


def beyond_buffer(wrap: bool) -> pb.BeyondBuffer:
    """Returns how the server handles more rows than the model was trained for."""
    return pb.BEYOND_BUFFER_WRAP if wrap else pb.BEYOND_BUFFER_UNSPECIFIED


def snapping(snap: bool) -> pb.Snapping:
    """Returns whether the server snaps draws and quantiles."""
    return pb.SNAPPING_UNSPECIFIED if snap else pb.SNAPPING_OFF


def local_row_count(local_rows: int | None, groups: Groups) -> int:
    """Returns the number of rows of the context that a call uses; 0 means all."""
    if local_rows is None:
        return 0
    if len(groups) > 1:
        raise InvalidArgumentError(
            "local_rows: not possible with groupby, because the rows would be chosen for all "
            "groups together: make a call for each group",
            fields=["local_rows"],
        )
    return whole_number("local_rows", local_rows, 1)


def max_predict_rows(local_rows: int, known_rows: int) -> int:
    """Returns the most rows that a call of Predict predicts.

    Args:
        local_rows: The number of rows of the context that the call uses; 0: all.
        known_rows: The number of rows with known values, which each call has in addition.

    Raises:
        InvalidArgumentError: The known rows leave none of the local rows.
    """
    most, most_in_all = _MAX_PREDICT_ROWS, _MAX_QUERY_ROWS
    if local_rows:
        most = min(max(local_rows // _LOCAL_ROWS_OF_EACH, 1), most)
        most_in_all = min(local_rows, most_in_all)
        if local_rows <= known_rows:
            raise InvalidArgumentError(
                f"local_rows: {local_rows}, must be more than the number of known values, "
                f"{known_rows}: increase local_rows, or pass fewer values as given",
                fields=["local_rows"],
            )
    return max(min(max(most - known_rows, most // 4), most_in_all - known_rows), 1)


def whole_number(field: str, value: int, least: int, bits: int = 63) -> int:
    """Returns the value as an int.

    InvalidArgumentError if it is not an integer, less than `least`, or not below 2**bits.
    """
    try:
        number = int(value)
        valid = not isinstance(value, bool) and number == value and number >= least
    except (TypeError, ValueError, OverflowError):  # such as a text, NaN, infinity
        valid = False
    if not valid:
        raise InvalidArgumentError(
            f"{field}: {value!r}, must be an integer of at least {least}", fields=[field]
        )
    if number >= 1 << bits:
        raise InvalidArgumentError(f"{field}: {number}, must be below 2**{bits}", fields=[field])
    return number


def seed_number(seed: int | None) -> int | None:
    """Returns a seed for the API; None means that the server chooses a seed."""
    return None if seed is None else whole_number("seed", seed, 0, bits=64)


def random_seed() -> int:
    """Returns a random seed, below 2^53, which every JSON parser reads exactly."""
    return secrets.randbits(53)


def sample_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Returns the type of the values of samples: float64 or float32."""
    try:
        read = np.dtype(dtype)
    except TypeError:
        read = np.dtype(object)
    if read in (np.float64, np.float32):
        return read
    raise InvalidArgumentError(f"dtype: {dtype!r}, must be float64 or float32", fields=["dtype"])


def check_size(size: int) -> None:
    """Raises InvalidArgumentError if a message is larger than the API's limit."""
    if size > MAX_MESSAGE_BYTES:
        raise InvalidArgumentError(
            f"the request has {size} bytes, which exceeds the limit of {MAX_MESSAGE_BYTES}: send "
            "fewer rows or values in a call",
            fields=["rows"],
            limit=MAX_MESSAGE_BYTES,
        )


def probabilities(quantiles: object) -> list[float]:
    """Returns probabilities as a list; InvalidArgumentError if a value is not a probability."""
    try:
        values = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"quantiles: {error}", fields=["quantiles"]) from None
    if values.ndim != 1:
        raise InvalidArgumentError(
            f"quantiles: the shape is {values.shape}, must have a single dimension",
            fields=["quantiles"],
        )
    for value in values:
        if not 0.0 < value < 1.0:  # or if it is NaN
            raise InvalidArgumentError(
                f"quantiles: {value:g}, must be between 0 and 1", fields=["quantiles"]
            )
    return [float(value) for value in values]
