"""Work on tables and messages grows no faster than they do.

Each case is timed at two sizes, one GROWTH times the other. Work that compares each name or part
with all others, or copies all for each, takes GROWTH² times as long at the larger size.
"""

from __future__ import annotations

import time
import timeit
import unicodedata
from collections.abc import Callable
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from chorale_client._categorical_features import categorical_names
from chorale_client._columns import Kind
from chorale_client._row_values import align_vectors
from chorale_client._tables import read_numbers, read_rows, read_table
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._wire import read_sample_response

GROWTH = 8
LIMIT = 3 * GROWTH  # of the ratio of the two times: linear work is near GROWTH
ROUNDS = 3  # of timing both sizes; a size counts with its fastest round

VALUES, ROWS = b"\x2a", b"\x3a"  # tags of the fields of a SampleBlock

Work = Callable[[], object]


def numbered(count: int, form: Literal["NFC", "NFD"] = "NFC") -> list[str]:
    return [unicodedata.normalize(form, f"Größe der Fläche {i:05d}") for i in range(count)]


def columns(names: list[str]) -> dict[str, list[float]]:
    return {name: [1.0] for name in names}


def numeric(names: list[str]) -> dict[str, Kind]:
    return dict.fromkeys(names, "numeric")


def read_columns(count: int) -> Work:
    table = columns(numbered(count))
    return lambda: read_numbers(table, "x")


def read_query_rows(count: int) -> Work:
    rows, types = columns(numbered(count, "NFD")), numeric(numbered(count))
    return lambda: read_rows(rows, types)


def read_typed_table(count: int) -> Work:
    table, types = columns(numbered(count, "NFD")), numeric(numbered(count))
    return lambda: read_table(table, types=types)


def find_categorical_features(count: int) -> Work:
    names, listed = numbered(count), numbered(count, "NFD")
    return lambda: categorical_names(names, None, listed)


def align_labels(count: int) -> Work:
    index = pd.Index(numbered(count))
    frame = pd.DataFrame(np.zeros((1, count)), columns=index[::-1])
    return lambda: align_vectors(frame, index, list(index), "values")


def read_parts(tag: bytes, part: bytes, count: int) -> Work:
    """A message of one block whose values, or row numbers, come in `count` parts."""
    block = pb.SampleBlock(path_count=count, step_count=1)
    if tag != VALUES:
        block.values.extend(np.zeros(count))
    body = block.SerializeToString() + (tag + bytes([len(part)]) + part) * count
    message = tagged(tagged(body))

    def read() -> None:
        assert read_sample_response(message).blocks[0].values.shape == (count, 1)

    return read


def tagged(body: bytes) -> bytes:
    size, varint = len(body), bytearray()
    while size >= 0x80:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    return b"\x0a" + bytes([*varint, size]) + body


# For each case, what prepares its work for a size, and the larger of its two sizes.
CASES: dict[str, tuple[Callable[[int], Work], int]] = {
    "columns": (read_columns, 20_000),
    "columns of query rows": (read_query_rows, 2000),
    "types": (read_typed_table, 2000),
    "categorical features": (find_categorical_features, 16_000),
    "labels": (align_labels, 12_000),
    "parts of values": (lambda count: read_parts(VALUES, bytes(8), count), 200_000),
    "parts of rows": (lambda count: read_parts(ROWS, bytes(1), count), 300_000),
}


def fastest(work: Work) -> float:
    """The processor seconds of the fastest of ROUNDS calls: anything else only adds to them."""
    return min(timeit.repeat(work, timer=time.process_time, repeat=ROUNDS, number=1))


@pytest.mark.parametrize(("prepare", "size"), CASES.values(), ids=CASES)
def test_work_is_linear(prepare: Callable[[int], Work], size: int) -> None:
    ratio = fastest(prepare(size)) / fastest(prepare(size // GROWTH))
    assert ratio < LIMIT
