"""Work on tables and messages grows no faster than they do.

Each case runs at two sizes. Where each name or part is compared with all others, or copied for all
others, the larger size takes GROWTH² times as long as the smaller one.
"""

from __future__ import annotations

import math
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

GROWTH = 8
LIMIT = 3 * GROWTH  # of the ratio of the times, between GROWTH and GROWTH²
ROUNDS = 3


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


# The function of a size, and the larger size.
CASES: dict[str, tuple[Callable[[int], Any], int]] = {
    "columns": (lambda n: read_numbers(columns(numbered(n)), "x"), 20_000),
    "rows whose columns look like the context's": (
        lambda n: read_rows(columns(numbered(n, "NFD")), dict.fromkeys(numbered(n), "numeric")),
        2000,
    ),
    "types": (
        lambda n: read_table(
            columns(numbered(n, "NFD")), types=dict.fromkeys(numbered(n), "numeric")
        ),
        2000,
    ),
    "categorical features": (
        lambda n: categorical_names(numbered(n), None, numbered(n, "NFD")),
        2000,
    ),
    "labels": (align_names, 12_000),
    "parts of values": (lambda n: read_parts(b"\x2a", bytes(8), n), 100_000),
    "parts of rows": (lambda n: read_parts(b"\x3a", bytes(1), n), 300_000),
}


def processor_seconds(work: Callable[[int], Any], size: int) -> float:
    start = time.process_time()
    work(size)
    return time.process_time() - start


@pytest.mark.parametrize(("work", "size"), CASES.values(), ids=CASES)
def test_work_is_linear(work: Callable[[int], Any], size: int) -> None:
    small = large = math.inf  # the least of all rounds: other processes only slow a round down
    for _ in range(ROUNDS):
        small = min(small, processor_seconds(work, size // GROWTH))
        large = min(large, processor_seconds(work, size))
        if large < LIMIT * small:
            return
    pytest.fail(f"{size} takes {large / small:.0f} times as long as {size // GROWTH}")
