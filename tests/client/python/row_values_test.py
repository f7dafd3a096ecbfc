"""Values and masks for rows: by label where they have some, else by position."""

from __future__ import annotations

from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chorale_client._inputs import table_to_register
from chorale_client._requests import RegisterOptions
from chorale_client._row_values import align_vectors, values_for_rows
from chorale_client._tables import read_table
from samples_test import VALUES, make

Invalid = chorale_client.InvalidArgumentError
SHUFFLED = ["c", "a", "b"]


def test_masks_go_by_label() -> None:
    samples = make()
    mask = pd.Series([True, False, True], index=SHUFFLED)  # b and c
    wanted = samples.sum(["c", "b"]).tolist()
    for same in (mask, mask.astype("boolean"), mask.astype(object), mask.sort_index()):
        assert samples.sum(same).tolist() == wanted
        assert samples.max(same).tolist() == samples.max(["b", "c"]).tolist()
        assert list(samples.select(same).index) == ["b", "c"]
    by_position = samples.sum(mask.to_numpy()).tolist()
    assert by_position == samples.sum(["a", "c"]).tolist()
    for same in (
        [True, False, True],
        pl.Series([True, False, True]),
        pa.array([True, False, True]),
    ):
        assert samples.sum(same).tolist() == by_position


@pytest.mark.parametrize(
    "mask",
    [
        pd.Series([True, None, False], dtype="boolean", index=list("abc")),
        pd.Series([True, None, False], dtype=object, index=list("abc")),
        [True, None, False],
        pl.Series([True, None, False]),
        pa.array([True, None, False]),
    ],
)
def test_masks_with_missing_cells_are_refused(mask: Any) -> None:
    with pytest.raises(Invalid, match="1 of the 3 booleans .* position 1: fill them") as caught:
        make().sum(mask)
    assert caught.value.field == "rows"


def test_masks_of_other_rows_are_refused() -> None:
    samples = make()
    both = "'b', 'c' of the rows are missing, and 'x', 'y' are unknown"
    with pytest.raises(Invalid, match=both):
        samples.sum(pd.Series([True, True, False], index=["a", "x", "y"]))
    with pytest.raises(Invalid, match="'c' of the rows is missing"):
        samples.sum(pd.Series([True, True], index=["a", "b"]))
    with pytest.raises(Invalid, match="'d' is unknown"):
        samples.sum(pd.Series([True] * 4, index=list("abcd")))


def test_labels_that_repeat_go_by_position_in_the_same_order_only() -> None:
    samples = make(index=["a", "b", "a"])
    mask = pd.Series([True, False, False], index=["a", "b", "a"])
    assert samples.sum(mask).tolist() == VALUES[:, 0].tolist()
    with pytest.raises(Invalid, match="labels repeat, such as 'a'"):
        samples.sum(mask[[True, True, True]].iloc[[1, 0, 2]])
    with pytest.raises(Invalid, match="labels repeat, such as 'a'"):
        make().sum(pd.Series([True] * 4, index=["a", "a", "b", "c"]))


def test_a_series_of_labels_is_no_mask() -> None:
    assert make().sum(pd.Series(["c", "a"])).tolist() == make().sum(["a", "c"]).tolist()
    with pytest.raises(KeyError):
        make().sum(["a", None])


@pytest.mark.parametrize("backend", ["pandas", None])
@pytest.mark.parametrize(
    "mask",
    [
        np.array([1, 0, 1]),
        np.array([1.0, 0.0, 1.0]),
        np.zeros(3, int),
        [1, 0, 1],
        [1, 0, 1, 0],
        [1, 0, None],
        pd.Series([1, 0, 1], index=list("abc")),
        pd.Series([1, 0, 1], dtype="Int64"),
        pl.Series([1, 0, 1]),
        pa.array([1, 0, 1]),
    ],
)
def test_zeros_and_ones_are_no_mask(mask: Any, backend: str | None) -> None:
    samples = make(backend=backend)
    for call in (samples.sum, samples.max, samples.select, samples.plot_pairs):
        with pytest.raises(
            Invalid, match="numbers, all 0 or 1.* convert a mask to booleans"
        ) as caught:
            call(mask)
        assert caught.value.field == "rows"


def test_zeros_and_ones_that_are_labels_stay_labels() -> None:
    for index in ([0, 1, 2], [1, 0, 1]):
        samples = make(index=index)
        for labels in ([0, 1], [1], np.array([1, 0])):
            wanted = sum(samples[label].reshape(4, -1).sum(axis=1) for label in labels)
            assert samples.sum(labels).tolist() == wanted.tolist()
    assert make(backend=None).sum([1, 0]).tolist() == VALUES[:, :2].sum(axis=1).tolist()
    two = make(VALUES[:, :2], ["a", "b"])
    with pytest.raises(Invalid, match="convert a mask to booleans"):
        two.sum(pd.Series([0, 1], index=["a", "b"]))


PAIRS = [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (("a", 2), [1]),
        ([("a", 2)], [1]),
        ([("b", 1), ("a", 1)], [2, 0]),
        ((("b", 1), ("a", 1)), [2, 0]),
        (pd.Series(PAIRS[:2]), [0, 1]),
        (pd.MultiIndex.from_tuples(PAIRS[1:]), [1, 2]),
        (pd.Series([True, False, True], index=pd.MultiIndex.from_tuples(PAIRS[::-1])), [0, 2]),
        ((True, False, True), [0, 2]),
    ],
)
def test_labels_may_be_tuples(rows: Any, columns: list[int]) -> None:
    for index in (pd.MultiIndex.from_tuples(PAIRS), pd.Index(PAIRS, tupleize_cols=False)):
        if isinstance(rows, pd.Series) and rows.dtype == bool and index.nlevels == 1:
            continue
        samples = make(index=index)
        assert samples.select(rows).values.tolist() == VALUES[:, columns].tolist()
        assert samples.sum(rows).tolist() == VALUES[:, columns].sum(axis=1).tolist()


def test_some_levels_of_a_label_are_the_rows_that_have_them() -> None:
    samples = make(index=pd.MultiIndex.from_tuples(PAIRS))
    for rows in ("a", ["a"], ("a",), [("a",)]):
        assert samples.sum(rows).tolist() == VALUES[:, :2].sum(axis=1).tolist()
    assert samples.sum([("a",), ("b", 1)]).tolist() == VALUES.sum(axis=1).tolist()
    assert samples["a", 2].tolist() == VALUES[:, 1].tolist()
    assert samples["a"].tolist() == VALUES[:, :2].tolist()


def test_labels_that_no_row_has() -> None:
    pairs = make(index=pd.MultiIndex.from_tuples(PAIRS))
    for rows in (("a", "b"), [("a", 1), ("z", 1)], ("z", 1)):
        with pytest.raises(KeyError, match=r"no row with the label \(.*the labels are \('a', 1\)"):
            pairs.sum(rows)
    many = make(np.zeros((2, 5)), list("abcde"))
    with pytest.raises(KeyError, match="label 'z': the labels are 'a', 'b', 'c', ..."):
        many.sum(["a", "z"])
    with pytest.raises(KeyError, match="label 5: the rows have the numbers 0 to 2"):
        make(backend=None).sum([0, 5])
    for several in (["a", "b"], slice("a", "b")):
        with pytest.raises(KeyError, match=r"\.select\(\) for several rows"):
            many[several]


def test_observed_values_go_by_label() -> None:
    samples = make()
    known = pd.Series([6.0, 2.0, 3.0], index=SHUFFLED)
    expected = samples.pit([2.0, 3.0, 6.0])
    assert samples.pit(known).tolist() == expected.tolist()
    assert samples.pit(known.astype("Float64")).tolist() == expected.tolist()
    assert samples.pit(known.to_numpy()).tolist() != expected.tolist()
    missing = samples.pit(pd.Series([6, None, 3], index=SHUFFLED, dtype="Int64"))
    assert np.isnan(missing).tolist() == [True, False, False]
    for draw in (samples.pit, samples.plot_calibration):
        with pytest.raises(Invalid, match="actual: its labels are not those of the rows"):
            draw(pd.Series([1.0, 2.0, 3.0]))
    assert samples.plot_calibration(known) is not None


def test_rows_without_labels_take_values_by_position() -> None:
    samples = make(backend=None)
    known = pd.Series([2.0, 3.0, 6.0], index=[7, 8, 9])
    assert samples.pit(known).tolist() == samples.pit([2.0, 3.0, 6.0]).tolist()


def test_vectors_of_values_go_by_their_columns() -> None:
    index = pd.Index(["a", "b"])
    frame = pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]})
    assert align_vectors(frame, index, ["a", "b"], "values").to_numpy().tolist() == [[3, 1], [4, 2]]
    plain = pd.DataFrame([[1.0, 2.0]])
    assert align_vectors(plain, index, ["a", "b"], "values") is plain
    array = np.zeros((1, 2))
    assert align_vectors(array, index, ["a", "b"], "values") is array
    numbers = pd.Index([10, 20])  # a frame of samples has their labels as texts
    frame = pd.DataFrame({"20": [1.0], "10": [3.0]})
    assert align_vectors(frame, numbers, ["10", "20"], "values").to_numpy().tolist() == [[3, 1]]
    with pytest.raises(Invalid, match="values: its labels"):
        align_vectors(pd.DataFrame({"a": [1.0], "z": [2.0]}), index, ["a", "b"], "values")


ORDER = [2, 0, 1]


def test_slices_of_labels_are_refused() -> None:
    samples = make()
    assert samples.sum(slice(0, 2)).tolist() == samples.sum(["a", "b"]).tolist()
    with pytest.raises(Invalid, match=r"rows: slice\('a', 'b', None\) is not .* use a list"):
        samples.sum(slice("a", "b"))


@pytest.mark.parametrize(
    ("labels", "values"),
    [
        (ORDER, pd.DataFrame([[10.0, 11.0, 12.0]])),
        (ORDER, pd.DataFrame([[10.0, 11.0, 12.0]], columns=["0", "1", "2"])),
        ([2.0, 0.0, 1.0], pd.DataFrame([[10.0, 11.0, 12.0]])),
        (ORDER, pl.DataFrame({"0": [10.0], "1": [11.0], "2": [12.0]})),
        (ORDER, pa.table({"0": [10.0], "1": [11.0], "2": [12.0]})),
        (["2", "0", "1"], pl.DataFrame({"1": [11.0], "2": [12.0], "0": [10.0]})),
        (ORDER, [pd.Series([10.0, 11.0, 12.0])]),
        (ORDER, (pd.Series([11.0, 12.0, 10.0], index=[1, 2, 0]),)),
        (ORDER, [[12.0, 10.0, 11.0], pd.Series([10.0, 11.0, 12.0])]),
    ],
)
def test_vectors_in_another_order_than_the_rows(labels: list[Any], values: Any) -> None:
    index = pd.Index(labels)
    aligned = align_vectors(values, index, [str(label) for label in labels], "values")
    assert np.asarray(aligned).tolist() in ([[12, 10, 11]], [[12, 10, 11]] * 2)


def test_vectors_without_labels_go_by_position() -> None:
    values = [[1.0, 2.0, 3.0]]
    names = ["a", "b", "c"]
    for vectors in (
        values,
        pl.DataFrame(values, schema=["column_0", "column_1", "column_2"], orient="row"),
        pd.DataFrame(values),
    ):
        aligned = align_vectors(vectors, pd.Index(names), names, "values")
        assert np.asarray(aligned).tolist() == values
    some = pl.DataFrame({"a": [1.0], "b": [2.0], "z": [3.0]})
    with pytest.raises(Invalid, match="only some of its columns are labels of rows"):
        align_vectors(some, pd.Index(names), names, "values")
    with pytest.raises(Invalid, match="labels repeat"):
        align_vectors(
            pd.DataFrame([[1.0, 2.0]], columns=["b", "a"]),
            pd.Index(list("aba")),
            list("aba"),
            "values",
        )


def test_numbers_of_rows_in_another_order() -> None:
    rows = np.arange(3)
    advice = "the numbers of the rows in another order, .* pass an array, for example"
    for values in (
        pd.DataFrame([[1.0, 2.0, 3.0]], columns=ORDER),
        pl.DataFrame({"2": [1.0], "0": [2.0], "1": [3.0]}),
        [pd.Series([1.0, 2.0, 3.0], index=ORDER)],
    ):
        with pytest.raises(Invalid, match=advice) as caught:
            align_vectors(values, rows, ["0", "1", "2"], "values")
        assert caught.value.field == "values"
    in_order = pd.DataFrame([[1.0, 2.0, 3.0]])
    assert align_vectors(in_order, rows, ["0", "1", "2"], "values") is in_order
    samples = make(backend=None)
    with pytest.raises(Invalid, match=advice):
        samples.pit(pd.Series([1.0, 2.0, 3.0], index=ORDER))
    with pytest.raises(Invalid, match=advice):
        samples.sum(pd.Series([True, False, False], index=ORDER))
    with pytest.raises(Invalid, match=advice):
        table_to_register(
            pl.DataFrame({"x": [1.0, 2.0, 3.0]}),
            pd.Series([1.0, 2.0, 3.0], index=ORDER),
            None,
            None,
            None,
            RegisterOptions(),
        )


def test_a_target_goes_by_label() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=list("abc"))
    target = pd.Series([30.0, 10.0, 20.0], index=SHUFFLED, name="y")
    options = RegisterOptions()
    table, name, *_ = table_to_register(frame, target, None, None, None, options)
    column = table.columns[name]
    assert isinstance(column, chorale_client._columns.NumericColumn)
    assert column.values.tolist() == [10, 20, 30]
    with pytest.raises(Invalid, match="target: its labels"):
        table_to_register(frame, target.reset_index(drop=True), None, None, None, options)
    by_position, name, *_ = table_to_register(frame, target.tolist(), None, None, None, options)
    column = by_position.columns[name]
    assert isinstance(column, chorale_client._columns.NumericColumn)
    assert column.values.tolist() == [30, 10, 20]


def test_series_of_one_dictionary_go_by_label() -> None:
    first = pd.Series([1.0, 2.0, 3.0], index=list("abc"))
    table = read_table({"x": first, "y": first.sort_index(ascending=False), "z": [7, 8, 9]})
    for name in ("x", "y"):
        assert values_for_rows(first, table.labels.index, name).tolist() == [1, 2, 3]
        column = table.columns[name]
        assert isinstance(column, chorale_client._columns.NumericColumn)
        assert column.values.tolist() == [1, 2, 3]
    assert list(table.labels.index) == ["a", "b", "c"]
    with pytest.raises(Invalid, match="column 'y': its labels"):
        read_table({"x": first, "y": pd.Series([1.0, 2.0, 3.0])})
