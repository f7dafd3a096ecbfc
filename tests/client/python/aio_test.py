"""The asyncio client: the same surface, many calls at a time, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import pickle
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import chorale_client
import grpc
import pytest
from chorale_client import aio
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale, Hang, block, blocks, summary
from google.protobuf.empty_pb2 import Empty

ROWS = {"town": ["Kiel", "Bonn"], "area": [50, 60]}
UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE, "starting")


def with_client(fake: FakeChorale, use: Callable[[aio.Client], Awaitable[None]]) -> None:
    async def main() -> None:
        retry = chorale_client.Retry(first_delay=0.001)
        async with aio.connect(fake.address, retry=retry, connect_timeout=60) as client:
            await use(client)

    asyncio.run(main())


def public(kind: type) -> dict[str, list[tuple[str, object, object, object]] | None]:
    """The public members of a class; of methods, the parameters."""
    return {
        name: parameters(member) if callable(member) else None
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_")
    }


def parameters(function: Callable[..., object]) -> list[tuple[str, object, object, object]]:
    return [
        (parameter.name, parameter.kind, parameter.default, parameter.annotation)
        for parameter in inspect.signature(function).parameters.values()
    ]


def test_the_surface_is_the_same() -> None:
    assert public(aio.Client) == public(chorale_client.Client)
    assert public(aio.Context) == public(chorale_client.Context)
    assert parameters(aio.connect) == parameters(chorale_client.connect)


def sections(function: Callable[..., object]) -> dict[str, str]:
    head, *rest = re.split(r"^(\w+):\n", inspect.getdoc(function) or "", flags=re.MULTILINE)
    return {"": head, **dict(zip(rest[::2], rest[1::2], strict=True))}


@pytest.mark.parametrize("kind", ["Client", "Context"])
def test_docstrings_have_the_arguments_results_and_errors_of_the_others(kind: str) -> None:
    for name, method in inspect.getmembers(getattr(aio, kind), inspect.isfunction):
        if name.startswith("_"):
            continue
        own, other = sections(method), sections(getattr(getattr(chorale_client, kind), name))
        for section in ("Args", "Returns", "Yields", "Raises"):
            assert own.get(section, "").strip() == other.get(section, "").strip(), name
        assert "Examples" not in own  # they would await nothing
        assert own[""].splitlines()[0].endswith(".")
    own, other = sections(aio.connect), sections(chorale_client.connect)
    assert own["Args"] == other["Args"]
    assert own["Returns"].startswith("    An object to await")
    assert list(own) == ["", "Args", "Returns", "Raises", "Examples"]
    assert "async with" in own["Examples"]


def test_both_clients_send_the_same_requests(
    fake: FakeChorale, client: chorale_client.Client
) -> None:
    """Each argument differs from its default."""
    drawn: dict[str, Any] = {
        "paths": 1, "seed": 7, "order": "random", "log_densities": True, "wrap": True,
        "snap": False, "local_rows": 5, "first_path": 3, "dtype": "float32", "sampling": "sobol",
    }  # fmt: skip
    predicted: dict[str, Any] = {"quantiles": [0.5], "mixtures": True, "snap": False}
    weighed: dict[str, Any] = {"orders": 1, "seed": 7, "wrap": True, "local_rows": 5}
    table: dict[str, Any] = {
        "target": "price", "name": "flats", "model": "m", "types": {"x": "categorical"},
        "seasons": False, "missing_targets": "drop", "memory_rows": 64, "memory_policy": "heavy",
    }  # fmt: skip
    kinds = ("RegisterContext", "Predict", "Sample", "LogDensity")
    mixtures = pb.Mixtures(component_count=1, means=[1, 2], stds=[1, 2], weights=[1, 1])
    of_rows = block(3, 0, [[1.0, 2.0]], rows=[1, 0], log_densities=[0.0, 0.0])
    message = fake.context()
    fake.context()
    for _ in range(2):
        fake.answers["RegisterContext"].append(pb.RegisterContextResponse(context=message))
        fake.answers["Predict"].append(
            pb.PredictResponse(means=[1, 2], stds=[1, 2], quantiles=[1, 2], mixtures=mixtures)
        )
        fake.answers["LogDensity"].append(pb.LogDensityResponse(log_densities=[-3]))
        fake.answers["LogDensity"].append(pb.LogDensityResponse(log_densities=[-3], terms=[-1, -2]))
        fake.answers["Sample"].extend([[blocks(of_rows), summary()]] * 2)

    data = {"price": [1.0, 2.0], "x": [1, 2]}
    client.register(data, **table)
    context = client.context("houses")
    context.predict(ROWS, **predicted)
    context.sample(ROWS, **drawn)
    assert len(list(context.stream(ROWS, **drawn))) == 1
    context.log_density(ROWS, [1, 2], **weighed)
    context.log_density(ROWS, [1, 2], terms=True)
    blocking = {kind: fake.requests(kind) for kind in kinds}

    async def use(client: aio.Client) -> None:
        await client.register(data, **table)
        context = await client.context("houses")
        await context.predict(ROWS, **predicted)
        await context.sample(ROWS, **drawn)
        assert len([part async for part in context.stream(ROWS, **drawn)]) == 1
        await context.log_density(ROWS, [1, 2], **weighed)
        await context.log_density(ROWS, [1, 2], terms=True)

    with_client(fake, use)
    for kind in kinds:
        both = fake.requests(kind)
        half = len(both) // 2
        assert both[:half] == blocking[kind]
        assert both[half:] == blocking[kind]
    first, second = blocking["Sample"]
    assert first == second
    [predict] = blocking["Predict"]
    density, with_terms = blocking["LogDensity"]
    [[register, *_]] = blocking["RegisterContext"]
    assert (first.path_count, first.seed, first.order) == (1, 7, first.ORDER_RANDOM_PER_PATH)
    assert (first.include_log_densities, first.beyond_buffer) == (True, pb.BEYOND_BUFFER_WRAP)
    assert first.sampling == pb.SampleRequest.SAMPLING_SOBOL
    assert first.snapping == predict.snapping == pb.SNAPPING_OFF
    assert (list(predict.quantiles), predict.include_mixtures) == ([0.5], True)
    assert (density.random_order_count, density.seed, density.beyond_buffer) == (
        1,
        7,
        pb.BEYOND_BUFFER_WRAP,
    )
    assert (with_terms.include_terms, with_terms.include_cdfs) == (True, False)
    assert (first.first_path, first.float32_values) == (3, True)
    assert first.local_row_count == density.local_row_count == 5
    assert (register.spec.memory_row_count, register.spec.memory_policy) == (
        64,
        pb.MEMORY_POLICY_HEAVY,
    )


def test_all_calls(fake: FakeChorale) -> None:
    context_message = fake.context()
    fake.context()
    fake.answers["RegisterContext"].append(pb.RegisterContextResponse(context=context_message))
    fake.answers["ListContexts"].append(pb.ListContextsResponse(contexts=[context_message]))
    fake.answers["ListModels"].append(pb.ListModelsResponse(models=[pb.Model(name="models/m")]))
    fake.answers["GetServerInfo"].append(pb.ServerInfo(version="9.8.7"))
    fake.answers["WarmContext"].append(context_message)
    fake.answers["DeleteContext"].extend([Empty(), Empty()])
    fake.answers["Predict"].append(pb.PredictResponse(means=[1, 2], stds=[1, 2]))
    fake.answers["LogDensity"].append(pb.LogDensityResponse(log_densities=[-3]))
    whole = [blocks(block(0, 0, [[1.0, 2.0]])), summary()]
    estimate = [summary(estimate=pb.Estimate(device_bytes=4096))]
    fake.answers["Sample"].extend([whole, whole, estimate])

    async def use(client: aio.Client) -> None:
        assert client.address == fake.address
        assert repr(client) == f"<asyncio Client of {fake.address}>"
        context = await client.register({"price": [1.0, 2.0]}, target="price", seasons=False)
        [first, _] = fake.requests("RegisterContext")[0]
        assert first.spec.seasons == pb.ContextSpec.SEASONS_OFF
        assert context.client is client
        assert context.warnings == ()
        assert (await client.context("houses")).target == "price"
        assert [other.name for other in await client.contexts()] == ["houses"]
        assert [model.name for model in await client.models()] == ["m"]
        assert (await client.server_info()).version == "9.8.7"
        await context.warm()
        await context.refresh()
        assert (await context.predict(ROWS)).means.tolist() == [1, 2]
        assert (await context.log_density(ROWS, [1, 2])).joint.tolist() == [-3]
        assert (await context.sample(ROWS, paths=1)).values.tolist() == [[1, 2]]
        streamed = [part.values.tolist() async for part in context.stream(ROWS, paths=1)]
        assert streamed == [[[1, 2]]]
        assert (await context.validate_sample(ROWS)).device_bytes == 4096
        await context.delete()
        await client.delete("houses")

    with_client(fake, use)


def test_connections_can_be_awaited_and_fail_as_the_others(fake: FakeChorale) -> None:
    async def main() -> None:
        client = await aio.connect(fake.address)
        async with client:
            assert client.address == fake.address
        with pytest.raises(chorale_client.UnavailableError, match="no server at"):
            await aio.connect("127.0.0.1:1", connect_timeout=0)
        with pytest.raises(chorale_client.InvalidArgumentError):
            await aio.connect("nonsense")

    asyncio.run(main())


def test_calls_are_tried_again(fake: FakeChorale) -> None:
    fake.answers["GetContext"].append(UNAVAILABLE)
    fake.context()
    whole = [blocks(block(0, 0, [[1.0, 2.0]])), summary()]
    fake.answers["Sample"].extend([[UNAVAILABLE], whole, [whole[0], UNAVAILABLE]])
    fake.answers["DeleteContext"].append(UNAVAILABLE)

    async def use(client: aio.Client) -> None:
        context = await client.context("houses")
        assert (await context.sample(ROWS, paths=1)).values.tolist() == [[1, 2]]
        with pytest.raises(chorale_client.UnavailableError):
            await context.sample(ROWS, paths=1)
        with pytest.raises(chorale_client.UnavailableError):
            await context.delete()

    with_client(fake, use)
    assert len(fake.requests("Sample")) == 3
    assert len(fake.requests("DeleteContext")) == 1


@pytest.mark.parametrize("method", ["WarmContext", "Sample"])
def test_cancelling_a_task_cancels_its_call(fake: FakeChorale, method: str) -> None:
    fake.context()
    hang = Hang()
    fake.answers[method].append([hang] if method == "Sample" else hang)

    async def use(client: aio.Client) -> None:
        context = await client.context("houses")
        call = context.warm() if method == "WarmContext" else context.sample(ROWS)
        task = asyncio.ensure_future(call)
        await asyncio.to_thread(hang.begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(hang.cancelled.wait)

    with_client(fake, use)


def test_closing_a_stream_cancels_the_call(fake: FakeChorale) -> None:
    fake.context()
    hang = Hang()
    fake.answers["Sample"].append([blocks(block(0, 0, [[1.0, 2.0]])), hang])

    async def use(client: aio.Client) -> None:
        context = await client.context("houses")
        async with contextlib.aclosing(context.stream(ROWS)) as stream:
            async for part in stream:
                assert part.values.tolist() == [[1, 2]]
                break
        await asyncio.to_thread(hang.cancelled.wait)

    with_client(fake, use)


def test_contexts_can_be_pickled(fake: FakeChorale) -> None:
    fake.context()
    fake.context()

    async def use(client: aio.Client) -> None:
        context = pickle.loads(pickle.dumps(await client.context("houses")))
        await context.refresh()
        assert context.target == "price"
        await context.client.close()

    with_client(fake, use)


def test_a_closed_client_says_so(fake: FakeChorale) -> None:
    fake.context()

    async def use(client: aio.Client) -> None:
        context = await client.context("houses")
        await client.close()
        for call in (client.models(), context.sample(ROWS, paths=1)):
            with pytest.raises(
                chorale_client.FailedPreconditionError, match="this client was closed"
            ):
                await call

    with_client(fake, use)


@pytest.mark.parametrize("method", ["WarmContext", "Sample"])
def test_closing_the_client_ends_its_calls(fake: FakeChorale, method: str) -> None:
    fake.context()
    hang = Hang()
    fake.answers[method].append([hang] if method == "Sample" else hang)

    async def use(client: aio.Client) -> None:
        context = await client.context("houses")
        call = context.warm() if method == "WarmContext" else context.sample(ROWS)
        task = asyncio.ensure_future(call)
        await asyncio.to_thread(hang.begun.wait)
        await client.close()
        with pytest.raises(chorale_client.FailedPreconditionError, match="this client was closed"):
            await task

    with_client(fake, use)
    assert len(fake.requests(method)) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a task cannot be asked")
def test_a_cancelled_task_stays_cancelled_when_its_client_is_closed(fake: FakeChorale) -> None:
    fake.context()
    hang = Hang()
    fake.answers["WarmContext"].append(hang)

    async def use(client: aio.Client) -> None:
        context = await client.context("houses")
        task = asyncio.ensure_future(context.warm())
        await asyncio.to_thread(hang.begun.wait)
        task.cancel()
        await client.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_client(fake, use)


def test_a_registration_ends_with_the_error_of_its_progress_function(fake: FakeChorale) -> None:
    fake.answers["RegisterContext"].append(pb.RegisterContextResponse())

    def fail(done: int, total: int) -> None:
        raise LookupError(f"{done} of {total}")

    async def use(client: aio.Client) -> None:
        with pytest.raises(LookupError, match="2 of 2"):
            await client.register({"y": [1, 2]}, target="y", progress=fail)

    with_client(fake, use)


def test_two_hundred_calls_in_flight(server: str) -> None:
    """All of them answered, and each as if it were alone."""
    table = {"x": list(range(12)), "y": [3.0 * x + x % 3 for x in range(12)]}

    async def main() -> None:
        async with aio.connect(server, connect_timeout=60) as client:
            context = await client.register(table, target="y")
            alone = [
                (await context.sample({"x": [i]}, paths=2, seed=i + 1)).values for i in range(5)
            ]
            together = await asyncio.gather(
                *(context.sample({"x": [i % 5]}, paths=2, seed=i % 5 + 1) for i in range(200))
            )
            for i, samples in enumerate(together):
                assert samples.values.tolist() == alone[i % 5].tolist()

    asyncio.run(main())
