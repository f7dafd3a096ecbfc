"""Tables with missing cells: rows without a target as query rows, and imputation."""

from __future__ import annotations

import asyncio
import pickle
import re
import warnings
from typing import Any

import chorale_client
import grpc
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from chorale_client import aio
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale, Hang
from fake_groups import sampled_groups
from google.protobuf.empty_pb2 import Empty

NAN = float("nan")
Invalid = chorale_client.InvalidArgumentError
HOLES = pd.DataFrame(
    {
        "area": [50.0, 60.0, 70.0, 80.0, 90.0],
        "price": [500.0, NAN, 700.0, NAN, NAN],
        "town": ["Kiel", "Bonn", None, "Kiel", "Bonn"],
    },
    index=list("abcde"),
)


def registered(messages: Any) -> pb.RegisterContextResponse:
    """The response to any registration."""
    spec = messages[0].spec
    context = pb.Context(
        name=f"contexts/{spec.context_id}", digest="d1", target_column=spec.target_column
    )
    return pb.RegisterContextResponse(context=context)


def models() -> pb.ListModelsResponse:
    other = pb.Model(name="models/other", buffer_size=9)
    return pb.ListModelsResponse(
        models=[other, pb.Model(name="models/default", buffer_size=2, is_default=True)]
    )


def answer_imputation(fake: FakeChorale, columns: int, calls: int) -> None:
    fake.answers["ListModels"].append(models())
    fake.answers["RegisterContext"].extend([registered] * columns)
    fake.answers["DeleteContext"].extend([Empty()] * columns)
    for _ in range(calls):
        fake.answers["Sample"].append(sampled_groups())


def numbers(table: Any, name: str) -> list[float]:
    """A numeric column of a message."""
    [column] = [column for column in table.columns if column.name == name]
    return list(column.numeric.values)


# ---- Rows without a target --------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        HOLES,
        pl.from_pandas(HOLES),
        pa.Table.from_pandas(HOLES, preserve_index=False),
        {name: HOLES[name].tolist() for name in HOLES},
        {name: HOLES[name] for name in HOLES},
        {name: pl.from_pandas(HOLES[name]) for name in HOLES},
        {name: pa.array(HOLES[name].tolist(), from_pandas=True) for name in HOLES},
    ],
    ids=["pandas", "polars", "arrow", "lists", "series", "polars series", "arrays"],
)
def test_rows_without_a_target_are_query_rows(
    fake: FakeChorale, client: chorale_client.Client, data: Any
) -> None:
    fake.answers["RegisterContext"].append(registered)
    context = client.register(data, target="price", missing_targets="query")
    [[spec, rows]] = fake.requests("RegisterContext")
    assert spec.spec.row_count == 2
    assert spec.spec.missing_targets == pb.ContextSpec.MISSING_TARGETS_UNSPECIFIED
    assert numbers(rows.rows, "price") == [500, 700]
    assert numbers(rows.rows, "area") == [50, 70]
    assert type(context.query_rows) is type(data)
    assert list(map(float, context.query_rows["area"])) == [60, 80, 90]
    if isinstance(data, pd.DataFrame):
        assert list(context.query_rows.index) == list("bde")
        again = pickle.loads(pickle.dumps(context))
        pd.testing.assert_frame_equal(again.query_rows, context.query_rows)


def test_query_rows_of_an_array_and_a_separate_target(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    fake.answers["RegisterContext"].extend([registered] * 3)
    features = np.arange(6.0).reshape(3, 2)
    context = client.register(features, target=[1.0, NAN, 3.0], missing_targets="query")
    assert context.query_rows.tolist() == [[2, 3]]
    frame = pd.DataFrame(features, index=list("abc"))  # whose names are numbers
    target = pd.Series([NAN, 2.0, 3.0], index=list("bca"))
    context = client.register(frame, target=target, missing_targets="query")
    assert context.query_rows.index.tolist() == ["b"]
    # A table without missing cells has no query rows; other registrations have None.
    complete = client.register(frame, target=target.fillna(1.0), missing_targets="query")
    assert len(complete.query_rows) == 0
    fake.answers["RegisterContext"].append(registered)
    assert client.register(frame, target=0).query_rows is None


def test_the_context_is_that_of_the_complete_rows(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    fake.answers["RegisterContext"].extend([registered] * 2)
    some = client.register(HOLES, target="price", missing_targets="query")
    assert some.name == client.register(HOLES.dropna(subset="price"), target="price").name


def test_a_target_without_values_is_rejected(client: chorale_client.Client) -> None:
    with pytest.raises(Invalid, match="target: all cells of column 'price' are missing"):
        client.register(HOLES.assign(price=NAN), target="price", missing_targets="query")


# ---- Imputation by a fake server --------------------------------------------------------------


def test_an_imputed_column(fake: FakeChorale, client: chorale_client.Client) -> None:
    """The fake server draws the area and a hundredth of the path."""
    answer_imputation(fake, columns=1, calls=1)
    with pytest.warns(chorale_client.DataWarning, match=r"'town' is categorical.*NOT_IMPUTED"):
        imputation = client.impute(
            HOLES, paths=3, seed=7, types={"town": "categorical"}, progress=False
        )
    [[spec, rows]] = fake.requests("RegisterContext")
    assert spec.spec.target_column == "price"
    assert spec.spec.ttl.seconds == 3600
    assert numbers(rows.rows, "price") == [500, 700]
    [request] = fake.requests("Sample")
    assert [column.name for column in request.rows.columns] == ["area", "town"]
    assert (request.path_count, request.seed, list(request.group_sizes)) == (3, 7, [2, 1])
    [deleted] = fake.requests("DeleteContext")
    assert deleted.name == request.context == f"contexts/{spec.spec.context_id}"
    samples = imputation["price"]
    assert samples.values.tolist() == [[60, 80, 90], [60.01, 80.01, 90.01], [60.02, 80.02, 90.02]]
    assert list(samples.index) == list("bde")
    assert samples.target == "price"
    assert (imputation.paths, imputation.seed) == (3, 7)
    assert [(w.reason, w.column, w.cell_count) for w in imputation.warnings] == [
        ("NOT_IMPUTED", "town", 1)
    ]
    completed = imputation.table()
    np.testing.assert_allclose(completed["price"], [500, 60.01, 700, 80.01, 90.01])
    assert list(completed.index) == list("abcde")
    assert completed["town"].isna().sum() == 1
    assert HOLES["price"].isna().sum() == 3
    assert [table["price"].iloc[1] for table in imputation.tables()] == [60, 60.01, 60.02]
    with pytest.raises(IndexError):
        imputation.table(3)
    with pytest.raises(KeyError):
        imputation["town"]
    assert repr(imputation) == "<Imputation of 3 of 'price' missing cells: 3 paths>"


def test_later_columns_have_the_draws_of_earlier_ones(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    """The column with the fewest missing cells is first; paths then have rows of their own."""
    frame = pd.DataFrame(
        {"rooms": [1.0, 2, 3, 4], "area": [10.0, NAN, 30, 40], "price": [NAN, NAN, 300.0, 400.0]}
    )
    answer_imputation(fake, columns=2, calls=2)
    imputation = client.impute(frame, paths=2, seed=1, progress=False)
    assert list(imputation.samples) == ["area", "price"]
    first, second = fake.requests("Sample")
    assert first.path_count == 2
    assert [column.name for column in first.rows.columns] == ["rooms", "price"]
    assert np.isnan(numbers(first.rows, "price")).all()
    assert imputation["area"].values.tolist() == [[2], [2.01]]
    assert (second.path_count, list(second.group_sizes)) == (1, [2, 2])
    assert numbers(second.rows, "rooms") == [1, 2, 1, 2]
    assert numbers(second.rows, "area") == [10, 2, 10, 2.01]
    assert imputation["price"].values.tolist() == [[1, 2], [1, 2]]


def test_many_cells_are_drawn_in_several_calls(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    count = 5000
    frame = pd.DataFrame({"area": np.arange(count + 2.0), "price": NAN})
    frame.loc[:1, "price"] = 1.0
    answer_imputation(fake, columns=1, calls=2)
    imputation = client.impute(frame, paths=1, seed=3, progress=False)
    requests = fake.requests("Sample")
    assert [sum(request.group_sizes) for request in requests] == [4096, count - 4096]
    assert set(requests[0].group_sizes) == {2}
    assert requests[0].seed == 3 != requests[1].seed
    assert imputation["price"].values.tolist() == [list(range(2, count + 2))]


@pytest.mark.parametrize(
    "data",
    [
        HOLES,
        HOLES.rename(columns={"price": 3}),
        HOLES.convert_dtypes(),
        pl.from_pandas(HOLES),
        pa.Table.from_pandas(HOLES, preserve_index=False),
        {name: HOLES[name].tolist() for name in HOLES},
        HOLES[["area", "price"]].to_numpy(),
        np.ma.masked_invalid(HOLES[["area", "price"]].to_numpy()),
        HOLES[["area", "price"]].to_numpy(dtype=object),
        HOLES[["area", "price"]].to_records(index=False),
    ],
    ids=[
        "pandas", "names that are numbers", "nullable", "polars", "arrow", "lists", "array",
        "masked", "objects", "records",
    ],
)  # fmt: skip
def test_completed_tables_are_of_the_same_kind(
    fake: FakeChorale, client: chorale_client.Client, data: Any
) -> None:
    answer_imputation(fake, columns=1, calls=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", chorale_client.DataWarning)
        imputation = client.impute(data, paths=1, progress=False)
    completed = imputation.table()
    if isinstance(data, np.recarray):
        assert isinstance(completed, dict)
    else:
        assert type(completed) is type(data)
    if isinstance(data, np.ndarray) and data.dtype.names is None:
        values = completed[:, 1]
    else:
        values = completed[3 if "price" not in _names(completed) else "price"]
    assert list(map(float, values)) == [500, 60, 700, 80, 90]


def _names(table: Any) -> list[Any]:
    return list(getattr(table, "column_names", None) or getattr(table, "columns", table))


def test_a_warning_of_several_calls_is_issued_once(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    def outliers(column: str) -> pb.Warning:
        return pb.Warning(
            reason=pb.Warning.REASON_OUTLIERS,
            severity=pb.Warning.SEVERITY_WARNING,
            column=column,
            cell_count=1,
            message=f"{column} has outliers",
        )

    def warned(messages: Any) -> pb.RegisterContextResponse:
        response = registered(messages)
        response.warnings.append(outliers("rooms"))
        return response

    frame = pd.DataFrame({"rooms": [1.0, 2, 3], "area": [1, NAN, 3], "price": [NAN, NAN, 3]})
    fake.answers["ListModels"].append(models())
    fake.answers["RegisterContext"].extend([warned, warned])
    fake.answers["DeleteContext"].extend([Empty()] * 2)
    for _ in range(2):
        fake.answers["Sample"].append(sampled_groups(warnings=[outliers("rooms"), outliers("b")]))
    with pytest.warns(chorale_client.DataWarning) as told:
        imputation = client.impute(frame, paths=1, progress=False)
    assert len(told) == 1
    assert [(w.reason, w.column, w.cell_count) for w in imputation.warnings] == [
        ("OUTLIERS", "rooms", 1),
        ("OUTLIERS", "b", 1),
    ]


def test_progress_counts_values(fake: FakeChorale, client: chorale_client.Client) -> None:
    frame = pd.DataFrame({"rooms": [1.0, 2, 3], "area": [1, NAN, 3], "price": [NAN, NAN, 3]})
    answer_imputation(fake, columns=2, calls=2)
    done: list[tuple[int, int]] = []
    client.impute(frame, paths=2, progress=lambda *numbers: done.append(numbers))
    assert done[-2:] == [(2, 6), (6, 6)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_that_fails_ends_the_imputation(
    fake: FakeChorale, client: chorale_client.Client, asynchronous: bool
) -> None:
    def impute(**options: Any) -> None:
        if not asynchronous:
            client.impute(HOLES[["area", "price"]], **options)
            return

        async def main() -> None:
            async with aio.connect(fake.address, connect_timeout=60) as other:
                await other.impute(HOLES[["area", "price"]], **options)

        asyncio.run(main())

    for answer, kind in (
        (Failure(grpc.StatusCode.INVALID_ARGUMENT, "rows: too many"), Invalid),
        (Hang(), chorale_client.DeadlineError),
    ):
        fake.answers["ListModels"].append(models())
        fake.answers["RegisterContext"].append(registered)
        fake.answers["Sample"].append([answer])
        with pytest.raises(kind):
            impute(timeout=1.0)
    assert not fake.requests("DeleteContext")  # the context expires


def test_a_table_without_missing_cells(fake: FakeChorale, client: chorale_client.Client) -> None:
    frame = HOLES[["area"]]
    imputation = client.impute(frame)
    assert not fake.calls
    assert imputation.samples == {}
    pd.testing.assert_frame_equal(imputation.table(), frame)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["town"]}, "columns: column 'town' is categorical, and only numbers can be"),
        ({"columns": ["day"]}, "columns: column 'day' has dates, and only numbers can be imp"),
        ({"columns": ["sold"]}, "columns: column 'sold' has booleans, and only numbers"),
        ({"columns": "text"}, "columns: column 'text' has strings, and only numbers can be"),
        ({"columns": ["prise"]}, "columns: the table has no column 'prise'; did you mean 'price'"),
        ({}, "columns: all cells of column 'none' are missing: drop the column"),
        ({"paths": 0}, "paths: 0, must be an integer of at least 1"),
        ({"seed": -1}, "seed: -1, must be an integer of at least 0"),
    ],
)
def test_columns_that_cannot_be_imputed(
    fake: FakeChorale, client: chorale_client.Client, options: dict[str, Any], message: str
) -> None:
    table = HOLES.assign(
        town=HOLES["town"].astype("category"),
        day=pd.to_datetime(["2026-01-01", None, "2026-01-03", None, None]),
        sold=pd.array([True, None, False, None, None]),
        text=["1", "2", None, "4", "5"],
        none=NAN,
    )
    with pytest.raises(Invalid, match=re.escape(message)):
        client.impute(table, **options)
    assert not fake.calls


# ---- By a real server -------------------------------------------------------------------------


def related(rows: int = 120) -> pd.DataFrame:
    """Two columns that are nearly equal, both missing in every fifth row, and noise."""
    random = np.random.default_rng(3)
    x = random.normal(size=rows)
    frame = pd.DataFrame(
        {"x": x, "y": x + 0.1 * random.normal(size=rows), "z": random.random(rows)}
    )
    frame.loc[::5, ["x", "y"]] = NAN
    return frame


def test_an_imputed_column_is_a_sample(real: chorale_client.Client) -> None:
    frame = related().drop(columns="x")
    imputation = real.impute(frame, paths=50, seed=5)
    context = real.register(frame, target="y", missing_targets="query")
    samples = context.sample(context.query_rows, groupby=np.zeros(24), paths=50, seed=5)
    np.testing.assert_array_equal(imputation["y"].values, samples.values)
    assert list(samples.index) == list(imputation["y"].index) == list(range(0, 120, 5))
    context.delete()
    assert not [c for c in real.contexts() if c.name.startswith("imputation-")]


def test_columns_are_drawn_jointly(real: chorale_client.Client) -> None:
    frame = related()
    imputation = real.impute(frame, paths=40, seed=5)
    x, y = imputation["x"].values, imputation["y"].values
    assert x.shape == y.shape == (40, 24)
    # Over the paths, the two cells of a row move together, as the columns do.
    assert np.mean([np.corrcoef(x[:, i], y[:, i])[0, 1] for i in range(24)]) > 0.9
    assert imputation.table().notna().all(axis=None)
    again = real.impute(frame, paths=10, seed=5)
    np.testing.assert_array_equal(again["y"].values, y[:10])
    assert (real.impute(frame, paths=2, seed=6)["x"].values != x[:2]).any()


def test_asyncio_has_the_same_draws(server: str, real: chorale_client.Client) -> None:
    async def main() -> chorale_client.Imputation:
        async with aio.connect(server, connect_timeout=60) as client:
            return await client.impute(related(), paths=3, seed=5)

    imputation = asyncio.run(main())
    here = real.impute(related(), paths=3, seed=5)
    for name in ("x", "y"):
        np.testing.assert_array_equal(imputation[name].values, here[name].values)
