"""Predictions that arrive request by request, and calls that end early, by a fake server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
from collections.abc import Callable
from typing import Any

import chorale_client
import grpc
import numpy as np
import pandas as pd
import pytest
from chorale_client import Predictions, aio
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale, Hang
from fake_groups import predicted_groups
from fake_known_values import NAN, Invalid, predicted

UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE, "draining")
BROKEN = Failure(grpc.StatusCode.INTERNAL, "broken")
MANY = pd.DataFrame(
    {"area": np.arange(2500.0), "town": "Kiel"}, index=[f"r{row}" for row in range(2500)]
)  # three requests


def check_first(predictions: Predictions | None, count: int) -> None:
    """The predictions of the first rows of MANY."""
    assert predictions is not None
    assert predictions.means.tolist() == list(range(count))
    assert predictions.quantiles.tolist() == [[row + 0.5] for row in range(count)]
    assert list(predictions.index) == list(MANY.index[:count])
    assert predictions.source == chorale_client.Source("d1", "m1")
    assert predictions.target == "price"


def outlier(request: Any) -> pb.PredictResponse:
    """A response with a warning about two cells."""
    answer = predicted(request)
    answer.warnings.add(
        reason=pb.Warning.REASON_OUTLIERS,
        severity=pb.Warning.SEVERITY_WARNING,
        column="area",
        cell_count=2,
        message="two are large",
    )
    return answer


# ---- Streams -------------------------------------------------------------------------------


def test_a_stream_yields_the_predictions_of_each_request(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"] += [predicted, predicted, predicted]
    stream = context.stream_predictions(MANY, quantiles=[0.5])
    assert not fake.requests("Predict")
    first = next(stream)
    assert len(fake.requests("Predict")) == 1  # the others come when they are asked for
    check_first(first, 1024)
    parts = [first, *stream]
    assert [len(part) for part in parts] == [1024, 1024, 452]
    assert list(parts[2].index) == list(MANY.index[2048:])
    check_first(Predictions.concat(parts), 2500)
    expected = [request.expected_source.model_digest for request in fake.requests("Predict")]
    assert expected == ["", "m1", "m1"]


def test_rows_without_labels_are_numbered_in_the_table(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"] += [predicted, predicted]
    rows = {"area": np.arange(1500.0), "town": ["Kiel"] * 1500}
    parts = list(context.stream_predictions(rows))
    assert parts[1].index.tolist() == list(range(1024, 1500))
    assert Predictions.concat(parts).index.tolist() == list(range(1500))


def test_a_stream_with_known_values(fake: FakeChorale, context: chorale_client.Context) -> None:
    given = np.full(2500, NAN)
    given[[0, 2000]] = [1.0, 2.0]
    fake.answers["Predict"] += [predicted] * 6
    parts = list(context.stream_predictions(MANY, given=given))
    assert [part.known_log_density for part in parts] == [-3] * 3
    joined, whole = Predictions.concat(parts), context.predict(MANY, given=given)
    assert np.array_equal(joined.means, whole.means)
    assert list(joined.index) == list(whole.index)
    assert joined.known_log_density == whole.known_log_density == -3


def test_a_stream_with_groups(fake: FakeChorale, context: chorale_client.Context) -> None:
    groupby = np.array(["x", "y", "z", "x"] * 625)
    given = np.full(2500, NAN)
    given[[0, 1]] = [1.0, 2.0]  # of "x" and "y"
    fake.answers["Predict"] += [predicted_groups] * 8
    parts = list(context.stream_predictions(MANY, given=given, groupby=groupby))
    assert parts[-1].groups in (("z",), ("y", "z"))
    joined = Predictions.concat(parts)
    assert joined.groups == ("x", "y", "z")
    assert np.asarray(joined.known_log_density).tolist() == [-1, -2, 0]
    whole = context.predict(MANY, given=given, groupby=groupby)
    assert np.asarray(whole.known_log_density).tolist() == [-1, -2, 0]
    at = np.argsort([int(label[1:]) for label in joined.index])
    assert np.array_equal(joined.means[at], whole.means)
    # Without known values, groups have no effect, and rows are in their order.
    fake.answers["Predict"].clear()
    fake.answers["Predict"] += [predicted] * 3
    plain = Predictions.concat(context.stream_predictions(MANY, groupby=groupby, quantiles=[0.5]))
    check_first(plain, 2500)
    assert plain.groups == ("x", "y", "z")
    assert plain.known_log_density is None


def test_a_stream_checks_its_arguments_at_once(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    with pytest.raises(Invalid) as caught:
        context.stream_predictions(MANY, quantiles=[2.0])
    assert caught.value.field == "quantiles"
    with pytest.raises(Invalid):
        context.stream_predictions(MANY.iloc[:0])
    assert not fake.requests("Predict")


def test_a_stream_issues_each_warning_once(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"] += [outlier, predicted, outlier]
    with pytest.warns(chorale_client.DataWarning) as warned:
        parts = list(context.stream_predictions(MANY))
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert [len(part.warnings) for part in parts] == [1, 0, 1]
    assert [one.cell_count for one in Predictions.concat(parts).warnings] == [4]


def test_a_stream_fails_after_some_predictions(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"] += [predicted, UNAVAILABLE, predicted, BROKEN]
    parts = []
    with pytest.raises(chorale_client.InternalError):
        for part in context.stream_predictions(MANY, quantiles=[0.5]):
            parts.append(part)
    check_first(Predictions.concat(parts), 2048)


def test_the_deadline_of_a_stream(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Predict"] += [predicted, Hang()]
    stream = context.stream_predictions(MANY, timeout=1)
    assert len(next(stream)) == 1024
    with pytest.raises(chorale_client.DeadlineError):
        next(stream)


def test_a_closed_stream_makes_no_more_calls(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"] += [predicted] * 3
    with contextlib.closing(context.stream_predictions(MANY)) as stream:
        next(stream)
    assert list(stream) == []
    assert len(fake.requests("Predict")) == 1


# ---- Calls that end early ------------------------------------------------------------------


def test_the_predictions_before_an_error_remain(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"] += [predicted, predicted, BROKEN]
    with pytest.raises(chorale_client.InternalError) as caught:
        context.predict(MANY, quantiles=[0.5])
    check_first(caught.value.predictions, 2048)
    check_first(pickle.loads(pickle.dumps(caught.value)).predictions, 2048)
    assert caught.value.samples is None
    fake.answers["Predict"] += [predicted]
    others = context.predict(MANY[2048:], quantiles=[0.5])
    check_first(Predictions.concat([caught.value.predictions, others]), 2500)


def test_the_predictions_before_the_deadline_remain(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Predict"] += [predicted, Hang()]
    with pytest.raises(chorale_client.DeadlineError) as caught:
        context.predict(MANY, quantiles=[0.5], timeout=2)
    check_first(caught.value.predictions, 1024)


def test_the_predictions_before_ctrl_c_remain(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    def interrupting(request: Any) -> pb.PredictResponse:
        os.kill(os.getpid(), signal.SIGINT)
        return predicted(request)

    fake.answers["Predict"] += [predicted, interrupting, predicted]
    with pytest.raises(KeyboardInterrupt) as caught:
        context.predict(MANY, quantiles=[0.5])
    error: Any = caught.value
    assert len(error.predictions) in (1024, 2048)
    check_first(error.predictions, len(error.predictions))


def test_errors_without_predictions(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Predict"] += [BROKEN]
    with pytest.raises(chorale_client.InternalError) as caught:
        context.predict(MANY)
    assert caught.value.predictions is None

    def damaged(request: Any) -> pb.PredictResponse:
        answer = predicted(request)
        del answer.means[:1]
        return answer

    fake.answers["Predict"] += [predicted, damaged]
    with pytest.raises(chorale_client.DataLossError) as lost:
        context.predict(MANY)
    assert lost.value.predictions is None


def test_the_rows_of_groups_before_an_error_are_labelled(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    given = np.full(2500, NAN)
    given[0] = 1.0
    fake.answers["Predict"] += [predicted_groups, BROKEN]
    with pytest.raises(chorale_client.InternalError) as caught:
        context.predict(MANY, given=given, groupby=np.array(["x", "y", "z"] * 833 + ["x"]))
    predictions = caught.value.predictions
    assert predictions.groups == ("x",)
    assert list(predictions.index) == list(MANY.index[3:2500:3])
    assert predictions.known_log_density.tolist() == [-1]


@pytest.mark.parametrize("how", ["broken", "cancelled", "deadline"])
def test_asyncio_calls_that_end_early(fake: FakeChorale, how: str) -> None:
    async def use() -> Predictions | None:
        async with aio.connect(fake.address, connect_timeout=60) as client:
            fake.context()
            context = await client.context("houses")
            hang = Hang()
            fake.answers["Predict"] += [predicted, BROKEN if how == "broken" else hang]
            timeout = 2 if how == "deadline" else None
            task = asyncio.ensure_future(context.predict(MANY, quantiles=[0.5], timeout=timeout))
            if how == "cancelled":
                await asyncio.to_thread(hang.begun.wait)
                task.cancel()
            expected: Any = {
                "broken": chorale_client.InternalError,
                "cancelled": asyncio.CancelledError,
                "deadline": chorale_client.DeadlineError,
            }[how]
            with pytest.raises(expected) as caught:
                await task
            error: Any = caught.value
            kept: Predictions | None = error.predictions
            return kept

    check_first(asyncio.run(use()), 1024)


def test_asyncio_streams(fake: FakeChorale) -> None:
    async def use() -> None:
        async with aio.connect(fake.address, connect_timeout=60) as client:
            fake.context()
            context = await client.context("houses")
            fake.answers["Predict"] += [predicted] * 3
            parts = [part async for part in context.stream_predictions(MANY, quantiles=[0.5])]
            check_first(Predictions.concat(parts), 2500)
            fake.answers["Predict"] += [predicted, BROKEN]
            stream = context.stream_predictions(MANY, quantiles=[0.5])
            async with contextlib.aclosing(stream):
                check_first(await anext(stream), 1024)
                with pytest.raises(chorale_client.InternalError):
                    await anext(stream)
            fake.answers["Predict"] += [predicted, Hang()]
            stream = context.stream_predictions(MANY, timeout=1)
            await anext(stream)
            with pytest.raises(chorale_client.DeadlineError):
                await anext(stream)

    asyncio.run(use())


# ---- Predictions of several calls ----------------------------------------------------------


def make(means: list[float], **more: Any) -> Predictions:
    values = np.array(means)
    fields: dict[str, Any] = {
        "stds": values + 1,
        "quantiles": values[:, None],
        "probabilities": np.array([0.5]),
        "mixtures": None,
        "labels": chorale_client._labels.Labels(np.arange(len(means))),
        "target": "price",
        "source": chorale_client.Source("d", "m"),
        "warnings": (),
    }
    return Predictions(values, **{**fields, **more})


def mixtures(mean: float) -> chorale_client.Mixtures:
    one = np.array([[mean, mean + 1]])
    return chorale_client.Mixtures(one, one + 2, np.full((1, 2), 0.5))


def test_parts_of_everything() -> None:
    parts = [make([1.0], mixtures=mixtures(1)), make([3.0], mixtures=mixtures(3))]
    joined = Predictions.concat(iter(parts))
    assert joined.means.tolist() == [1, 3]
    assert joined.stds.tolist() == [2, 4]
    assert joined.quantiles.tolist() == [[1], [3]]
    assert joined.index.tolist() == [0, 1]  # the numbers of the parts do not ascend
    assert joined.mixtures is not None
    assert joined.mixtures.means.tolist() == [[1, 2], [3, 4]]
    assert joined.mixtures.stds.tolist() == [[3, 4], [5, 6]]
    assert joined.columns()["q50"].tolist() == [1, 3]
    assert (
        Predictions.concat([make([1.0], known_log_density=-2.0), make([2.0])]).known_log_density
        == -2
    )
    groups = [make([1.0], groups=("x",)), make([2.0], groups=("x", "y"))]
    assert Predictions.concat(groups).groups == ("x", "y")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "there are none"),
        ([make([1.0]), make([1.0], target="y")], "target is 'price' in some and 'y' in others"),
        ([make([1.0]), make([1.0], probabilities=np.array([0.9]))], "probabilities is"),
        (
            [make([1.0]), make([1.0], source=chorale_client.Source("e", "m"))],
            "the context_digest of the source differs",
        ),
        ([make([1.0]), make([1.0], mixtures=mixtures(1))], "some have no mixtures"),
        ([make([1.0]), make([1.0], groups=("x",))], "some have no groups"),
    ],
)
def test_parts_that_do_not_fit(parts: list[Predictions], message: str) -> None:
    with pytest.raises(Invalid, match=f"^parts: .*{message}") as caught:
        Predictions.concat(parts)
    assert caught.value.field == "parts"


def test_choices() -> None:
    check: Callable[..., None] = chorale_client._choices.check_choice
    check("order", "a", ("a", "b"))
    with pytest.raises(Invalid, match="^order: 'c', must be 'a' or 'b'$"):
        check("order", "c", ("a", "b"))
    with pytest.raises(Invalid, match="^order: 'd', must be one of a, b, c$"):
        check("order", "d", ("a", "b", "c"))
