"""Doubles in and out of protobuf's wire format, without a Python object for each.

Protobuf's own lists make a Python float of every number that is read or written, which takes longer
than all else where there are millions. Packed doubles lie in a message as they lie in memory, so
numpy can read them in place. Everything else is left to protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chorale_client.v1 import chorale_pb2 as pb

Floats = npt.NDArray[np.float64]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EMPTY: Floats = np.empty(0)
_DOUBLE = np.dtype("<f8")
_PLAIN_NUMBERS = {field << 3 | _VARINT: field for field in (1, 2, 3, 4)}  # by tag
_PLAIN_VALUES = 5 << 3 | _BYTES


class RawBlock(NamedTuple):
    """A SampleBlock; a tuple, as there are thousands in a call.

    Attributes:
        first_path: Of all paths.
        first_step: Of all steps.
        values: [paths, steps].
        log_densities: [paths, steps]; None if the block has none.
        targets: [paths, steps]: the row of each value; None if step t is row t.
    """

    first_path: int
    first_step: int
    values: Floats
    log_densities: Floats | None
    targets: npt.NDArray[np.int32] | None


@dataclass(frozen=True)
class SampleMessage:
    """A SampleResponse: blocks, or the summary at the end of the stream."""

    blocks: tuple[RawBlock, ...]
    summary: pb.SampleSummary | None


def numeric_values(values: Floats) -> pb.NumericValues:
    """NumericValues with these numbers."""
    body = np.ascontiguousarray(values, dtype="<f8").tobytes()
    return pb.NumericValues.FromString(b"\x0a" + _varint_bytes(len(body)) + body)


def read_sample_response(message: bytes) -> SampleMessage:
    """Reads a SampleResponse; ValueError if the bytes are none."""
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
    """Reads a block as most are: four numbers, then values and nothing else; None: it is another.

    A server may send blocks of a few dozen values, and then this is most of what a call costs.
    """
    numbers = [0, 0, 0, 0, 0]  # by field; [0] is none
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
            if tag == _PLAIN_VALUES:
                _, first_path, paths, first_step, steps = numbers
                if at + value != end or value != 8 * paths * steps:
                    return None
                values = np.frombuffer(message, _DOUBLE, paths * steps, at).reshape(paths, steps)
                return RawBlock(first_path, first_step, values, None, None)
            numbers[_PLAIN_NUMBERS[tag]] = value
    except (IndexError, KeyError):
        pass
    return None


def _read_block(message: bytes, at: int, end: int) -> RawBlock:
    numbers = [0, 0, 0, 0, 0]  # by field; [0] is none
    doubles: dict[int, list[Floats]] = {5: [], 6: []}
    targets = bytearray()
    for number, value in _fields(message, at, end):
        if isinstance(value, int):
            if number < len(numbers):
                numbers[number] = value
        elif number in doubles:
            doubles[number].append(np.frombuffer(message[slice(*value)], _DOUBLE))
        elif number == 7:
            part_of_targets = message[slice(*value)]
            targets += b"\x3a" + _varint_bytes(len(part_of_targets)) + part_of_targets
    _, first_path, paths, first_step, steps = numbers
    shape = (paths, steps)
    rows = None
    if targets:
        joined = pb.SampleBlock.FromString(bytes(targets)).targets
        rows = np.array(joined, dtype=np.int32).reshape(shape)
    values, log_densities = _joined(doubles[5]), _joined(doubles[6])
    return RawBlock(
        first_path,
        first_step,
        values.reshape(shape),
        log_densities.reshape(shape) if log_densities.size else None,
        rows,
    )


def _joined(parts: list[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate([_EMPTY, *parts])


def _fields(message: bytes, at: int, end: int) -> Iterator[tuple[int, int | tuple[int, int]]]:
    """The fields of a part of a message: number, and an integer, or where its bytes are."""
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
    """The integer at `at`, and where it ends."""
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
