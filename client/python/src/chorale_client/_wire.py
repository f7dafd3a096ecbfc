"""Reads and writes floats in protobuf's wire format, without a Python object for each number.

Protobuf's lists create a Python float for every number, which takes most of the time of calls with
millions of numbers. Packed floats have the same layout in a message as in memory, so that numpy
can read them in place. Protobuf reads and writes all other fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chorale_client._columns import Floats
from chorale_client._v1 import chorale_pb2 as pb

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EMPTY: Floats = np.empty(0)
_DOUBLE: np.dtype[Any] = np.dtype("<f8")
_FLOAT: np.dtype[Any] = np.dtype("<f4")
_PLAIN_NUMBERS = {field << 3 | _VARINT: field for field in (1, 2, 3, 4)}  # by tag
_PLAIN_VALUES = {5 << 3 | _BYTES: _DOUBLE, 9 << 3 | _BYTES: _FLOAT}  # by tag
_DTYPES = {5: _DOUBLE, 6: _DOUBLE, 9: _FLOAT, 10: _FLOAT}  # of values and log-densities, by field


class RawBlock(NamedTuple):
    """A SampleBlock; a tuple, because a call may have thousands.

    Attributes:
        first_path: The index of the first path.
        first_step: The index of the first step.
        values: [paths, steps]; float32 if the server sends float32.
        log_densities: [paths, steps], of the same type; None if the block has none.
        rows: [paths, steps]: the row of each value; None if step t is row t.
        paths: [paths]: the index of each path; None if they are consecutive.
    """

    first_path: int
    first_step: int
    values: Floats
    log_densities: Floats | None
    rows: npt.NDArray[np.int32] | None
    paths: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True)
class SampleMessage:
    """A SampleResponse: blocks, or the summary at the end of the stream."""

    blocks: tuple[RawBlock, ...]
    summary: pb.SampleSummary | None


def numeric_values(values: Floats) -> pb.NumericValues:
    """Returns NumericValues with these numbers."""
    body = np.ascontiguousarray(values, dtype="<f8").tobytes()
    return pb.NumericValues.FromString(b"\x0a" + _varint_bytes(len(body)) + body)


def read_sample_response(message: bytes) -> SampleMessage:
    """Reads a SampleResponse; ValueError if the bytes are invalid."""
    blocks: list[RawBlock] = []
    summary = None
    for number, value in _fields(message, 0, len(message)):
        if number == 1 and isinstance(value, tuple):
            blocks += [
                _read_plain_block(message, *block) or _read_block(message, *block)
                for number_in, block in _fields(message, *value)
                if number_in == 1 and isinstance(block, tuple)
            ]
        elif number == 2 and isinstance(value, tuple):
            summary = pb.SampleSummary.FromString(message[slice(*value)])
    return SampleMessage(tuple(blocks), summary)


def _read_plain_block(message: bytes, at: int, end: int) -> RawBlock | None:
    """Reads a block in the common form: four numbers, then values; None for other forms.

    Fast, because this function dominates the time of a call if blocks have only dozens of values.
    """
    numbers = [0, 0, 0, 0, 0]  # by field number; [0] is unused
    try:
        while at < end:
            tag = message[at]
            value = message[at + 1]
            at += 2
            shift = 7
            while value >> shift and shift < 64:  # the last byte read has its highest bit set
                value += (message[at] - 1) << shift
                at += 1
                shift += 7
            dtype = _PLAIN_VALUES.get(tag)
            if dtype is not None:
                _, first_path, paths, first_step, steps = numbers
                if at + value != end or value != dtype.itemsize * paths * steps:
                    return None
                values = np.frombuffer(message, dtype, paths * steps, at).reshape(paths, steps)
                return RawBlock(first_path, first_step, values, None, None)
            numbers[_PLAIN_NUMBERS[tag]] = value
    except (IndexError, KeyError):
        pass
    return None


def _read_block(message: bytes, at: int, end: int) -> RawBlock:
    numbers = [0, 0, 0, 0, 0]  # by field number; [0] is unused
    floats: dict[int, list[Floats]] = {field: [] for field in _DTYPES}
    packed = bytearray()
    for number, value in _fields(message, at, end):
        if isinstance(value, int):
            if number < len(numbers):
                numbers[number] = value
        elif number in floats:
            floats[number].append(np.frombuffer(message[slice(*value)], _DTYPES[number]))
        elif number in (7, 8):
            part = message[slice(*value)]
            packed += bytes([number << 3 | _BYTES]) + _varint_bytes(len(part)) + part
    _, first_path, paths, first_step, steps = numbers
    shape = (paths, steps)
    indices = pb.SampleBlock.FromString(bytes(packed))
    rows = np.array(indices.rows, dtype=np.int32).reshape(shape) if indices.rows else None
    path_indices = np.array(indices.paths, dtype=np.int32) if indices.paths else None
    if path_indices is not None and len(path_indices) != paths:
        raise ValueError(f"{len(path_indices)} indices of {paths} paths")
    values = _joined(floats[9] or floats[5])
    log_densities = _joined(floats[10] or floats[6])
    return RawBlock(
        first_path,
        first_step,
        values.reshape(shape),
        log_densities.reshape(shape) if log_densities.size else None,
        rows,
        path_indices,
    )


def _joined(parts: list[Floats]) -> Floats:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else _EMPTY


def _fields(message: bytes, at: int, end: int) -> Iterator[tuple[int, int | tuple[int, int]]]:
    """Yields the fields in a range of a message: number, and an integer or a range of bytes."""
    while at < end:
        tag, at = _varint(message, at, end)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at, end)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at, end)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            raise ValueError(f"wire type {kind}")
        if size > end - at:
            raise ValueError("the message ends early")
        yield tag >> 3, (at, at + size)
        at += size


def _varint(message: bytes, at: int, end: int) -> tuple[int, int]:
    """Returns the integer at `at` and the position of its end."""
    value = shift = 0
    while True:
        if at >= end or shift > 63:
            raise ValueError("the message ends early")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _varint_bytes(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
