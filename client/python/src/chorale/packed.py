"""Doubles in and out of protobuf's wire format, without a Python object for each.

Protobuf's own lists make a Python float of every number that is read or written, which takes longer
than all else where there are millions. Packed doubles lie in a message as they lie in memory, so
numpy can read them in place. Everything else is left to protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chorale.v1 import chorale_pb2 as pb

Floats = npt.NDArray[np.float64]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EMPTY: Floats = np.empty(0)


@dataclass(frozen=True)
class RawBlock:
    """A SampleBlock.

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
    for number, value in _fields(memoryview(message)):
        if number == 1 and isinstance(value, memoryview):
            blocks += [
                _read_block(block)
                for number_in, block in _fields(value)
                if number_in == 1 and isinstance(block, memoryview)
            ]
        elif number == 2 and isinstance(value, memoryview):
            summary = pb.SampleSummary.FromString(bytes(value))
    return SampleMessage(tuple(blocks), summary)


def _read_block(block: memoryview) -> RawBlock:
    numbers = [0, 0, 0, 0, 0]  # by field; [0] is none
    doubles = {5: _EMPTY, 6: _EMPTY}
    targets = b""
    for number, value in _fields(block):
        if isinstance(value, int):
            if number < len(numbers):
                numbers[number] = value
        elif number in doubles:
            part = np.frombuffer(value, dtype="<f8")
            doubles[number] = part if not doubles[number].size else np.append(doubles[number], part)
        elif number == 7:
            targets += b"\x3a" + _varint_bytes(len(value)) + bytes(value)
    _, first_path, paths, first_step, steps = numbers
    shape = (paths, steps)
    rows = None
    if targets:
        rows = np.array(pb.SampleBlock.FromString(targets).targets, dtype=np.int32).reshape(shape)
    return RawBlock(
        first_path,
        first_step,
        doubles[5].reshape(shape),
        doubles[6].reshape(shape) if doubles[6].size else None,
        rows,
    )


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: number, and its value as an integer or as bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            raise ValueError(f"wire type {kind}")
        if size > len(message) - at:
            raise ValueError("the message ends early")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """The integer at `at`, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
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
