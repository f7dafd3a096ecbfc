"""Doubles in and out of the wire format, against protobuf."""

from __future__ import annotations

import numpy as np
import pytest
from chorale_client._v1 import chorale_pb2 as pb
from chorale_client._wire import numeric_values, read_sample_response
from fake_chorale import block, blocks, in_precision, summary


def test_numbers_become_the_message_that_protobuf_makes() -> None:
    for count in (0, 1, 15, 16, 3000):
        values = np.random.default_rng(count).normal(size=count)
        assert numeric_values(values) == pb.NumericValues(values=values)
    assert list(numeric_values(np.arange(6.0)[::2]).values) == [
        0,
        2,
        4,
    ]  # not contiguous


def test_blocks_are_read() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 200))
    rows = rng.permuted(np.tile(np.arange(200), (3, 1)), axis=1)
    message = blocks(
        block(500, 1000, values, log_densities=-values.ravel(), rows=rows.ravel()),
        block(0, 0, [[1.0]]),
    )
    read = read_sample_response(message.SerializeToString())
    first, second = read.blocks
    assert (first.first_path, first.first_step) == (500, 1000)
    assert np.array_equal(first.values, values)
    assert first.log_densities is not None
    assert first.rows is not None
    assert np.array_equal(first.log_densities, -values)
    assert np.array_equal(first.rows, rows)
    assert second.values.tolist() == [[1.0]]
    assert second.log_densities is None
    assert second.rows is None
    assert read.summary is None


def test_blocks_of_float32_are_read() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 20)).astype(np.float32)
    request = pb.SampleRequest(float32_values=True)
    for more in ({}, {"log_densities": -values.ravel(), "rows": [7] * 60}):
        message = in_precision(request, blocks(block(500, 1000, values, **more)))
        [read] = read_sample_response(message.SerializeToString()).blocks
        assert (read.first_path, read.first_step) == (500, 1000)
        assert read.values.dtype == np.float32
        assert np.array_equal(read.values, values)
        assert (read.log_densities is not None) == bool(more)
        if read.log_densities is not None:
            assert read.log_densities.dtype == np.float32
            assert np.array_equal(read.log_densities, -values)


def test_float32_values_have_half_the_bytes() -> None:
    # 1,000 paths of 24 rows, in blocks of a tile.
    values = np.full((1000, 24), 1234.5)
    message = blocks(*(block(first, 0, values[first : first + 32]) for first in range(0, 1000, 32)))
    assert 192_000 < message.ByteSize() < 193_000
    rounded = in_precision(pb.SampleRequest(float32_values=True), message)
    assert 96_000 < rounded.ByteSize() < 97_000


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16383, 16384, 2**31, 2**63 - 1])
def test_numbers_of_each_length(number: int) -> None:
    message = blocks(block(number, 0, [[1.0, 2.0]]), block(3, number, [[3.0]] * 20))
    read = read_sample_response(message.SerializeToString())
    assert [(b.first_path, b.first_step, b.values.shape) for b in read.blocks] == [
        (number, 0, (1, 2)),
        (3, number, (20, 1)),
    ]


def test_blocks_that_do_not_say_how_many_values_they_have() -> None:
    message = pb.SampleResponse()
    message.blocks.blocks.add(path_count=2, step_count=2, values=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="reshape"):
        read_sample_response(message.SerializeToString())


def test_numbers_without_an_end_are_refused() -> None:
    body = b"\x08" + b"\xff" * 30
    inner = b"\x0a" + bytes([len(body)]) + body
    with pytest.raises(ValueError, match="ends early"):
        read_sample_response(b"\x0a" + bytes([len(inner)]) + inner)


def test_a_summary_is_read() -> None:
    message = summary(2**64 - 1, warnings=[pb.Warning(column="x")])
    read = read_sample_response(message.SerializeToString())
    assert read.blocks == ()
    assert read.summary == message.summary


def test_numbers_that_are_not_packed_and_fields_that_are_not_known() -> None:
    one = np.array([1.5]).tobytes()
    head = b"\x10\x01\x20\x02"  # one path, two steps
    unpacked = head + b"\x29" + one + b"\x29" + one
    unknown = b"\xc0\x3e\x01" + b"\xc5\x3e\0\0\0\0" + b"\xca\x3e\x02ab"  # field 1000, each type
    body = unpacked + unknown
    inner = b"\x0a" + bytes([len(body)]) + body
    read = read_sample_response(b"\x0a" + bytes([len(inner)]) + inner)
    assert read.blocks[0].values.tolist() == [[1.5, 1.5]]


def test_numbers_in_several_parts() -> None:
    parts = [np.array([1.5, 2.5]).tobytes(), np.array([3.5]).tobytes()]
    body = b"\x10\x01\x20\x03"  # one path, three steps
    body += b"".join(b"\x2a" + bytes([len(part)]) + part for part in parts)
    body += b"".join(b"\x32" + bytes([len(part)]) + part for part in parts[::-1])
    body += b"\x3a\x01\x02\x3a\x02\x00\x01"
    inner = b"\x0a" + bytes([len(body)]) + body
    (block,) = read_sample_response(b"\x0a" + bytes([len(inner)]) + inner).blocks
    assert block.values.tolist() == [[1.5, 2.5, 3.5]]
    assert block.log_densities is not None
    assert block.log_densities.tolist() == [[3.5, 1.5, 2.5]]
    assert block.rows is not None
    assert block.rows.tolist() == [[2, 0, 1]]


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_a_message_that_ends_early_is_refused(cut: int) -> None:
    message = blocks(block(0, 0, [[1.0, 2.0, 3.0, 4.0]])).SerializeToString()
    with pytest.raises(ValueError, match="ends early|reshape|buffer size"):
        read_sample_response(message[:-cut])


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="wire type 3"):
        read_sample_response(b"\x0b")
    with pytest.raises(ValueError, match="ends early"):
        read_sample_response(b"\xff" * 11)
