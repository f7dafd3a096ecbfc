"""Work on tables and messages grows no faster than they do.

Each case takes a fraction of the limit, and takes longer than that where each name or part is
compared with all others.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from chorale_client._categorical_features import categorical_names
from chorale_client._row_values import align_vectors
from chorale_client._tables import read_numbers, read_rows, read_table
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._wire import read_sample_response

LIMIT = 4.0  # seconds of the processor


def numbered(count: int, form: Literal["NFC", "NFD"] = "NFC") -> list[str]:
    return [unicodedata.normalize(form, f"Größe der Fläche {i:05d}") for i in range(count)]


def columns(names: list[str]) -> dict[str, list[float]]:
    return {name: [1.0] for name in names}


def align_names(count: int) -> None:
    index = pd.Index(numbered(count))
    frame = pd.DataFrame(np.zeros((1, count)), columns=index[::-1])
    align_vectors(frame, index, list(index), "values")


def read_parts(field: bytes, part: bytes, count: int) -> None:
    """A message of one block whose values, or rows of values, come in parts."""
    block = pb.SampleBlock(path_count=count, step_count=1)
    if field != b"\x2a":
        block.values.extend(np.zeros(count))
    body = block.SerializeToString() + (field + bytes([len(part)]) + part) * count
    blocks = tagged(body)
    read = read_sample_response(tagged(blocks))
    assert read.blocks[0].values.shape == (count, 1)


def tagged(body: bytes) -> bytes:
    size, varint = len(body), bytearray()
    while size >= 0x80:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    return b"\x0a" + bytes([*varint, size]) + body


CASES: dict[str, Callable[[], Any]] = {
    "columns": lambda: read_numbers(columns(numbered(20_000)), "x"),
    "rows whose columns look like the context's": lambda: read_rows(
        columns(numbered(2000, "NFD")), dict.fromkeys(numbered(2000), "numeric")
    ),
    "types": lambda: read_table(
        columns(numbered(2000, "NFD")), types=dict.fromkeys(numbered(2000), "numeric")
    ),
    "categorical features": lambda: categorical_names(numbered(2000), None, numbered(2000, "NFD")),
    "labels": lambda: align_names(12_000),
    "parts of values": lambda: read_parts(b"\x2a", bytes(8), 200_000),
    "parts of rows": lambda: read_parts(b"\x3a", bytes(1), 300_000),
}


@pytest.mark.parametrize("work", CASES.values(), ids=CASES)
def test_work_is_linear(work: Callable[[], Any]) -> None:
    start = time.process_time()
    work()
    assert time.process_time() - start < LIMIT
