"""Some paths of a seed, float32, and calls that end early, by a fake server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Callable
from typing import Any

import chorale_client
import grpc
import numpy as np
import pytest
from chorale_client import Samples, aio
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale, Hang, block, blocks, summary
from fake_groups import sampled_groups
from fake_known_values import NAN, PRICED, ROWS, Invalid, sampled

UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE, "draining")
# The towns are "Kiel", "Bonn", "Kiel" and "Ulm".
GROUPS = ROWS["town"].to_numpy()


def old_server(answers: list[Any]) -> list[Any]:
    """The answers of a server that does not know the fields for the delivery."""

    def forgetting(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def answered(request: pb.SampleRequest) -> Any:
            request.ClearField("first_path")
            request.ClearField("float32_values")
            return answer(request)

        return answered

    return [forgetting(answer) for answer in answers]


# ---- Some paths of a seed ------------------------------------------------------------------


@pytest.mark.parametrize("grouped", [False, True])
def test_some_paths(fake: FakeChorale, context: chorale_client.Context, grouped: bool) -> None:
    answers = sampled_groups if grouped else sampled
    groupby = GROUPS if grouped else None
    fake.answers["Sample"] += [answers(), answers()]
    everything = context.sample(ROWS, paths=9, seed=1, groupby=groupby)
    some = context.sample(ROWS, paths=3, seed=1, first_path=5, groupby=groupby)
    assert np.array_equal(some.values, everything.values[5:8])
    assert (everything.first_path, some.first_path, some.paths) == (0, 5, 3)
    assert some.to_xarray()["path"].values.tolist() == [5, 6, 7]
    assert [request.first_path for request in fake.requests("Sample")] == [0, 5]


def test_known_values_of_each_path_are_those_of_the_call(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append(sampled())
    given = [[NAN, 1.0, NAN, 2.0], [NAN, 3.0, NAN, 4.0]]
    samples = context.sample(ROWS, paths=2, given=given, seed=1, first_path=50)
    assert samples.values.tolist() == [[53.5, 1, 73.5, 2], [57.51, 3, 77.51, 4]]


def test_blocks_have_the_indices_of_the_seed(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append(sampled())
    parts = list(context.stream(ROWS, paths=2, seed=1, first_path=7))
    assert [part.first_path for part in parts] == [7] * 4


@pytest.mark.parametrize("grouped", [False, True])
def test_a_server_that_ignores_the_first_path_is_too_old(
    fake: FakeChorale, context: chorale_client.Context, grouped: bool
) -> None:
    answers = sampled_groups if grouped else sampled
    groupby = GROUPS if grouped else None
    fake.answers["Sample"] += [old_server(answers()), old_server(answers())]
    calls: list[Callable[..., Any]] = [
        context.sample,
        lambda *a, **k: list(context.stream(*a, **k)),
    ]
    for call in calls:
        with pytest.raises(chorale_client.UnimplementedError, match="^first_path: ") as caught:
            call(ROWS, paths=9, seed=1, first_path=5, groupby=groupby)
        assert caught.value.samples is None


# ---- float32 -------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [False, True])
def test_float32(fake: FakeChorale, context: chorale_client.Context, old: bool) -> None:
    answers = sampled(), sampled(), sampled()
    fake.answers["Sample"] += map(old_server, answers) if old else answers
    samples = context.sample(ROWS, paths=3, dtype="float32", log_densities=True)
    assert fake.requests("Sample")[0].float32_values or old
    expected = np.array([[50, 60, 70, 80]]) + np.arange(3)[:, None] / 100
    assert samples.values.dtype == np.float32
    assert np.array_equal(samples.values, expected.astype(np.float32))
    assert samples.log_densities is not None
    assert samples.log_densities.dtype == np.float32
    for statistic in (samples.mean(), samples.std(), samples.sum()):
        assert statistic.dtype == np.float64
    for part in context.stream(ROWS, paths=3, dtype=np.float32, log_densities=True):
        assert part.values.dtype == np.float32
        assert part.log_densities is not None
        assert part.log_densities.dtype == np.float32
    assert context.sample(ROWS, paths=3).values.dtype == np.float64


def test_float32_values_that_were_not_requested(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    rounded = pb.SampleBlock(path_count=1, step_count=4, float_values=[1, 2, 3, 4])
    fake.answers["Sample"].append([blocks(rounded), summary()])
    with pytest.raises(chorale_client.DataLossError, match="float32"):
        context.sample(ROWS, paths=1)


def test_means_of_float32_values_are_accurate() -> None:
    values = np.full((100_000, 1), 0.1, np.float32)
    samples = make(values)
    assert samples.mean()[0] == pytest.approx(np.float32(0.1), rel=1e-9)


# ---- Calls that end early ------------------------------------------------------------------

# Paths 0, 1 and 3 are complete, and path 2 is not.
PARTS = [
    blocks(block(0, 0, [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])),
    blocks(block(2, 0, [[9.0, 10.0], [11.0, 12.0]]), block(3, 2, [[13.0, 14.0]])),
]


def check_first(samples: Samples | None) -> None:
    """The first two paths of PARTS."""
    assert samples is not None
    assert samples.values.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert (samples.paths, samples.first_path, samples.seed) == (2, 0, 3)
    assert samples.source == chorale_client.Source("d1", "")
    assert list(samples.index) == list("abcd")
    assert samples.target == "price"


def test_the_paths_before_a_lost_connection_remain(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append([*PARTS, UNAVAILABLE])
    with pytest.raises(ConnectionError) as caught:
        context.sample(ROWS, paths=5, seed=3)
    error: Any = caught.value
    check_first(error.samples)
    check_first(pickle.loads(pickle.dumps(error)).samples)
    assert len(fake.requests("Sample")) == 1


def test_the_paths_before_the_deadline_remain(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    timeout, samples = 0.1, None
    while samples is None:  # until it is enough for the blocks to arrive
        fake.answers["Sample"].append([*PARTS, Hang()])
        with pytest.raises(chorale_client.DeadlineError) as caught:
            context.sample(ROWS, paths=5, seed=3, timeout=timeout)
        samples = caught.value.samples
        timeout *= 2
    check_first(samples)


def test_the_paths_before_ctrl_c_remain(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Sample"].append([*PARTS, Hang()])

    def interrupt(done: int, _: int) -> None:
        if done == 14:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        context.sample(ROWS, paths=5, seed=3, progress=interrupt)
    check_first(caught.value.samples)  # type: ignore[attr-defined]


def test_the_paths_before_the_client_was_closed_remain(
    fake: FakeChorale, client: chorale_client.Client, context: chorale_client.Context
) -> None:
    hang = Hang()
    fake.answers["Sample"].append([*PARTS, hang])

    def close() -> None:
        hang.begun.wait()
        client.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(chorale_client.FailedPreconditionError) as caught:
        context.sample(ROWS, paths=5, seed=3)
    thread.join()
    samples = caught.value.samples
    assert samples is None or samples.paths <= 2


def test_errors_without_complete_paths(fake: FakeChorale, context: chorale_client.Context) -> None:
    for answers in ([UNAVAILABLE] * 4, [[blocks(block(0, 0, [[1.0, 2.0, 3.0]])), UNAVAILABLE]]):
        fake.answers["Sample"] += [[one] if isinstance(one, Failure) else one for one in answers]
        with pytest.raises(ConnectionError) as caught:
            context.sample(ROWS, paths=5, seed=3)
        error: Any = caught.value
        assert error.samples is None
    # Damaged samples are not kept.
    fake.answers["Sample"].append([PARTS[0], PARTS[0], PARTS[0], PARTS[0]])
    with pytest.raises(chorale_client.DataLossError) as damaged:
        context.sample(ROWS, paths=2, seed=3)
    assert damaged.value.samples is None


def test_a_call_without_a_seed_can_be_continued(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append([*PARTS, UNAVAILABLE])
    with pytest.raises(ConnectionError) as caught:
        context.sample(ROWS, paths=5)
    error: Any = caught.value
    assert error.samples.seed == fake.requests("Sample")[0].seed


def test_known_values_groups_and_densities_remain(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    for groupby, answers in ((None, sampled()), (np.array(list("xxyy")), sampled_groups())):
        fake.answers["Sample"].append([answers[0], UNAVAILABLE])
        with pytest.raises(ConnectionError) as caught:
            context.sample(
                PRICED, paths=2, seed=3, first_path=1, given=True, groupby=groupby,
                log_densities=True, dtype="float32",
            )  # fmt: skip
        error: Any = caught.value
        samples = error.samples
        assert samples.values[:, [1, 3]].tolist() == [[600, 800]] * 2
        assert np.isnan(samples.log_densities).tolist() == [[False, True, False, True]] * 2
        assert samples.values.dtype == np.float32
        assert samples.known_log_density is None
        assert samples.groups == (None if groupby is None else ("x", "y"))
        assert samples.first_path == 1


@pytest.mark.parametrize("how", ["lost", "cancelled", "deadline"])
def test_asyncio_calls_that_end_early(fake: FakeChorale, how: str) -> None:
    async def use() -> Samples | None:
        async with aio.connect(fake.address, connect_timeout=60) as client:
            fake.context()
            context = await client.context("houses")
            fake.answers["Sample"].append([*PARTS, UNAVAILABLE if how == "lost" else Hang()])
            arrived = asyncio.Event()
            call = context.sample(
                ROWS,
                paths=5,
                seed=3,
                timeout=0.2 if how == "deadline" else None,
                progress=lambda done, _: arrived.set() if done == 14 else None,
            )
            task = asyncio.ensure_future(call)
            if how == "cancelled":
                await arrived.wait()
                task.cancel()
            expected: Any = {
                "lost": chorale_client.UnavailableError,
                "cancelled": asyncio.CancelledError,
                "deadline": chorale_client.DeadlineError,
            }[how]
            with pytest.raises(expected) as caught:
                await task
            error: Any = caught.value
            samples: Samples | None = error.samples
            return samples

    samples = asyncio.run(use())
    if how != "deadline" or samples is not None:  # the blocks may arrive too late
        check_first(samples)


def test_asyncio_some_paths_in_float32(fake: FakeChorale) -> None:
    async def use() -> None:
        async with aio.connect(fake.address, connect_timeout=60) as client:
            fake.context()
            context = await client.context("houses")
            fake.answers["Sample"] += [sampled(), sampled()]
            samples = await context.sample(ROWS, paths=2, seed=1, first_path=5, dtype="float32")
            assert samples.values.dtype == np.float32
            assert (
                samples.values[0].tolist()
                == np.array([50.05, 60.05, 70.05, 80.05], np.float32).tolist()
            )
            parts = context.stream(ROWS, paths=2, seed=1, first_path=5, dtype="float32")
            async with contextlib.aclosing(parts):
                async for part in parts:
                    assert part.first_path == 5
                    assert part.values.dtype == np.float32

    asyncio.run(use())


# ---- Samples of several calls --------------------------------------------------------------


def make(values: Any, first_path: int = 0, **more: Any) -> Samples:
    labels = chorale_client._labels.Labels.of_frame(ROWS[: np.shape(values)[1]])
    fields = {
        "target": "price",
        "seed": 7,
        "source": chorale_client.Source("d", "m"),
        "timings": chorale_client.Timings(),
        "log_densities": None,
        "warnings": (),
    }
    return Samples(np.asarray(values), labels, first_path=first_path, **{**fields, **more})


def test_a_call_is_continued(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Sample"] += [[sampled()[0], UNAVAILABLE], sampled(), sampled()]
    with pytest.raises(ConnectionError) as caught:
        context.sample(PRICED, paths=3, seed=7, given=True)
    error: Any = caught.value
    first = error.samples
    others = context.sample(
        PRICED, paths=5 - first.paths, seed=7, first_path=first.paths, given=True
    )
    samples = Samples.concat([others, first])
    everything = context.sample(PRICED, paths=5, seed=7, given=True)
    assert np.array_equal(samples.values, everything.values)
    assert (samples.paths, samples.first_path) == (5, 0)
    assert samples.source == everything.source
    assert samples.known_log_density == everything.known_log_density == -1400


def test_parts_of_everything() -> None:
    note = chorale_client.DataWarning("one is large", "OUTLIERS", "area", 1)
    parts = [
        make(
            [[float(path)] * 2],
            path,
            log_densities=np.full((1, 2), -float(path)),
            warnings=(note,),
            known_log_density=np.array([-1.0 - path]),
            timings=chorale_client.Timings(total=path),
        )
        for path in (4, 3, 5)
    ]
    joined = Samples.concat(iter(parts))
    assert joined.first_path == 3
    assert joined.values.tolist() == [[3, 3], [4, 4], [5, 5]]
    assert joined.log_densities is not None
    assert joined.log_densities[:, 0].tolist() == [-3, -4, -5]
    assert np.asarray(joined.known_log_density).tolist() == [-4, -5, -6]
    assert joined.warnings == (note,)
    assert joined.timings.total == 5
    # The call of a part ended before its densities were sent.
    parts[0] = make([[4.0] * 2], 4, log_densities=np.full((1, 2), -4.0))
    assert Samples.concat(parts).known_log_density is None
    of_groups = {"groups": ("x", "y"), "known_log_density": np.array([-1.0, 0.0])}
    pair = [make([[1.0] * 2], 0, **of_groups), make([[2.0] * 2], 1, groups=("x", "y"))]
    assert np.asarray(Samples.concat(pair).known_log_density).tolist() == [-1, 0]
    half = make(np.ones((1, 2), np.float32))
    assert Samples.concat([half, make(np.ones((1, 2), np.float32), 1)]).values.dtype == np.float32


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "there are none"),
        ([make([[1.0]]), make([[1.0]], 2)], "from 2 follow those up to 0: paths are missing"),
        ([make([[1.0]] * 2), make([[1.0]], 1)], "from 1 follow those up to 1: paths are repeated"),
        ([make([[1.0]]), make([[1.0]], 1, seed=8)], "seed is 7 in some and 8 in others"),
        ([make([[1.0]]), make([[1.0]], 1, target="y")], "target is"),
        ([make([[1.0]]), make([[1.0]], 1, groups=("x",))], "groups is"),
        (
            [make([[1.0]]), make([[1.0]], 1, source=chorale_client.Source("e", "m"))],
            "the context_digest of the source differs",
        ),
        ([make([[1.0]]), make([[1.0, 2.0]], 1)], "the rows differ"),
        (
            [make([[1.0]]), make([[1.0]], 1, log_densities=np.ones((1, 1)))],
            "some have no log-densities",
        ),
    ],
)
def test_parts_that_do_not_fit(parts: list[Samples], message: str) -> None:
    with pytest.raises(Invalid, match=f"^parts: .*{message}") as caught:
        Samples.concat(parts)
    assert caught.value.field == "parts"
