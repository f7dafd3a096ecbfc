"""Messages of requests: their rows, sizes and checks."""

from __future__ import annotations

from typing import Any

import chorale_client
import numpy as np
import pytest
from chorale_client import _options, _requests
from chorale_client._columns import CategoricalColumn, StringColumn
from chorale_client._groups import Groups
from chorale_client._known_values import KnownValues
from chorale_client._models_and_contexts import Source
from chorale_client._sample_requests import sample_request
from chorale_client._tables import read_table


def test_a_message_has_the_categories_that_its_rows_have() -> None:
    texts = ["a", "b", None, "c", "b"]
    table = read_table(
        {"t": texts, "n": [1.0, np.nan, 3.0, 4.0, 5.0], "s": texts}, types={"t": "categorical"}
    )
    message = _requests.encode_table(table, 1, 5)
    town, number, string = message.columns
    assert list(town.categorical.categories) == ["b", "c"]
    assert list(town.categorical.codes) == [0, -1, 1, 0]
    assert np.array_equal(number.numeric.values, [np.nan, 3.0, 4.0, 5.0], equal_nan=True)
    assert list(string.strings.values) == ["b", "", "c", "b"]


def test_pieces_cover_all_rows_and_keep_below_the_limits() -> None:
    rng = np.random.default_rng(0)
    texts = [f"{i:030d}" for i in rng.integers(0, 400, 3000)]
    table = read_table(
        {"t": texts, "n": rng.normal(size=3000), "u": ["u"] * 3000}, types={"t": "categorical"}
    )
    for max_bytes, max_rows in ((2000, 10**9), (10**9, 700), (1, 10**9)):
        pieces = list(_requests.split_rows(table, max_bytes, max_rows))
        assert [start for start, _ in pieces] == [0, *(end for _, end in pieces[:-1])]
        assert pieces[-1][1] == 3000
        for start, end in pieces:
            assert 0 < end - start <= max_rows
            size = _requests.encode_table(table, start, end).ByteSize()
            assert size <= max_bytes or end - start == 1
    assert len(list(_requests.split_rows(table, 2000, 10**9))) < 200  # not row by row


def test_long_texts_are_cut_where_no_context_can_have_them() -> None:
    long = "x" * 300
    cells = [long + "a", long + "b", "short", None]
    given = read_table({"t": cells, "s": cells}, types={"t": "categorical"})
    table = _requests.cut_texts(given)
    column, strings = table.columns.values()
    assert isinstance(column, CategoricalColumn)
    assert column.categories == ["x" * 257, "short"]
    assert column.codes.tolist() == [0, 0, 1, -1]
    assert isinstance(strings, StringColumn)
    assert strings.strings == ["x" * 257, "x" * 257, "short", ""]


def test_strings_of_a_target_may_be_numbers() -> None:
    table = read_table({"y": ["1", " "]})
    _requests.check_target(table, "y", "drop")
    with pytest.raises(chorale_client.InvalidArgumentError, match="has 1 missing cells"):
        _requests.check_target(table, "y", "reject")


def request(**more: Any) -> Any:
    options = _options.SampleOptions(5, None, "given", False, False, True, None)._replace(**more)
    return sample_request(
        "a",
        read_table({"x": [1.0]}),
        KnownValues.none(1),
        Groups.none(1),
        None,
        options,
        Source("d", "m"),
    )


def test_seeds() -> None:
    # A random one, so that a call that ends early can be continued.
    first, second = request(seed=None), request(seed=None)
    assert 0 <= first.seed < 2**53
    assert first.seed != second.seed
    assert request(seed=1).seed == 1
    assert request(seed=np.int64(9)).seed == 9
    assert request(seed=0).HasField("seed")
    for wrong in (-1, 1.5, 2**64, True, "x", float("nan"), float("inf"), [1, 2]):
        with pytest.raises(chorale_client.InvalidArgumentError, match="^seed: "):
            request(seed=wrong)


def test_options_of_samples() -> None:
    given = request()
    assert given.expected_source.context_digest == "d"
    assert given.order == given.ORDER_GIVEN
    assert request(order="random").order == given.ORDER_RANDOM_PER_PATH
    assert request(wrap=True).beyond_buffer == 1
    assert not given.float32_values
    assert request(dtype="float32").float32_values
    assert request(dtype=np.float32, seed=1, first_path=np.int64(3)).first_path == 3
    for field, wrong in (
        ("paths", 0),
        ("paths", 2.5),
        ("paths", None),
        ("order", "sorted"),
        ("first_path", -1),
        ("first_path", 0.5),
        ("dtype", "int32"),
        ("dtype", "float"[::-1]),
    ):
        with pytest.raises(chorale_client.InvalidArgumentError) as caught:
            request(**{field: wrong})
        assert caught.value.field == field
    with pytest.raises(chorale_client.InvalidArgumentError, match="first_path is 3") as caught:
        request(first_path=3)
    assert caught.value.field == "seed"


def test_requests_that_are_too_large_are_not_sent() -> None:
    _requests.check_size(4 << 20)
    with pytest.raises(chorale_client.InvalidArgumentError, match="send fewer rows") as caught:
        _requests.check_size((4 << 20) + 1)
    assert caught.value.limit == 4 << 20


def test_probabilities() -> None:
    assert _requests.probabilities(0.5) == [0.5]
    assert _requests.probabilities(np.array([0.1, 0.9])) == [0.1, 0.9]
    assert _requests.probabilities(()) == []
    for wrong in (0, 1, -0.1, float("nan")):
        with pytest.raises(chorale_client.InvalidArgumentError, match="must be between 0 and 1"):
            _requests.probabilities([0.5, wrong])
    texts_and_shapes: list[Any] = ["a", ["a"], [[0.1, 0.2]], {}]
    for malformed in texts_and_shapes:
        with pytest.raises(chorale_client.InvalidArgumentError, match="^quantiles: ") as caught:
            _requests.probabilities(malformed)
        assert caught.value.field == "quantiles"
