"""Target errors of summaries, by a fake server that stops after half of the paths."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import chorale_client
import numpy as np
import pytest
from chorale_client import aio, functionals
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import FakeChorale
from fake_known_values import NAN
from fake_summaries import ROWS, summarized

Invalid = chorale_client.InvalidArgumentError


def half(request: Any) -> pb.SummarizeResponse:
    """The response to a call for half of the paths."""
    shorter = pb.SummarizeRequest()
    shorter.CopyFrom(request)
    shorter.path_count = request.path_count // 2
    shorter.returned_path_count = min(request.returned_path_count, shorter.path_count)
    if len(request.known.values) > len(request.known.rows):
        del shorter.known.values[len(request.known.values) // 2 :]
    answer: pb.SummarizeResponse = summarized(shorter)
    return answer


def test_requests(fake: FakeChorale, context: chorale_client.Context) -> None:
    fake.answers["Summarize"].extend([half, half])
    total = functionals.sum(["a", "b"]).with_target_errors(mean=3, quantile=4.0)
    asked: dict[str, Any] = {
        "total": total,
        "best": functionals.argmax().with_target_errors(0.01),
        "top": "max",
    }
    context.summarize(
        ROWS, paths=8, functionals=asked, target_mean_error=0.5, target_quantile_error=2
    )
    context.summarize(ROWS, paths=8, functionals=["sum"])
    request, plain = fake.requests("Summarize")
    assert (request.target_mean_error, request.target_quantile_error) == (0.5, 2.0)
    errors = [(one.target_mean_error, one.target_quantile_error) for one in request.functionals]
    assert errors == [(3.0, 4.0), (0.01, 0.0), (0.0, 0.0)]
    assert list(request.functionals[0].rows) == [0, 1]
    assert (plain.target_mean_error, plain.target_quantile_error) == (0.0, 0.0)
    assert not plain.functionals[0].target_mean_error


@pytest.mark.parametrize("separate", [False, True])
def test_summaries_of_fewer_paths(
    fake: FakeChorale, context: chorale_client.Context, separate: bool
) -> None:
    known = np.full((8, 5) if separate else 5, NAN)
    known[..., 1] = np.arange(8) if separate else 3.0
    fake.answers["Summarize"].extend([half, summarized])
    options: dict[str, Any] = {"seed": 3, "functionals": ["sum"]}
    summary = context.summarize(
        ROWS, paths=8, given=known, return_paths=6, target_mean_error=1.0, **options
    )
    first = known[:4] if separate else known
    alone = context.summarize(ROWS, paths=4, given=first, return_paths=4, **options)
    assert summary.paths == alone.paths == 4
    assert "4 paths" in repr(summary)
    assert summary.means.tolist() == alone.means.tolist()
    assert summary.functionals["sum"].mean == alone.functionals["sum"].mean
    assert summary.samples is not None
    assert alone.samples is not None
    assert summary.samples.values.tolist() == alone.samples.values.tolist()
    assert summary.known_log_density == pytest.approx(alone.known_log_density)


def test_old_servers_draw_all_paths(fake: FakeChorale, context: chorale_client.Context) -> None:
    def old(request: Any) -> pb.SummarizeResponse:
        answer: pb.SummarizeResponse = summarized(request)
        answer.path_count = 0
        return answer

    fake.answers["Summarize"].append(old)
    assert context.summarize(ROWS, paths=8, target_mean_error=1.0).paths == 8


def test_more_paths_than_requested(fake: FakeChorale, context: chorale_client.Context) -> None:
    def more(request: Any) -> pb.SummarizeResponse:
        answer: pb.SummarizeResponse = summarized(request)
        answer.path_count = 9
        return answer

    fake.answers["Summarize"].append(more)
    with pytest.raises(chorale_client.DataLossError, match="9 paths instead of 8"):
        context.summarize(ROWS, paths=8)


@pytest.mark.parametrize("value", [0, -1.0, NAN, float("inf"), "x", [1.0, 2.0]])
@pytest.mark.parametrize("name", ["target_mean_error", "target_quantile_error"])
def test_targets_that_are_invalid(
    fake: FakeChorale, context: chorale_client.Context, name: str, value: Any
) -> None:
    message = re.escape(f"{name}: {value!r}, must be a finite number above 0")
    with pytest.raises(Invalid, match=message) as caught:
        context.summarize(ROWS, **{name: value})
    assert caught.value.field == name
    argument = name.removeprefix("target_").removesuffix("_error")
    with pytest.raises(Invalid, match=message):
        functionals.sum().with_target_errors(**{argument: value})
    assert not fake.requests("Summarize")


def test_functionals_of_each_row_have_no_quantiles() -> None:
    with pytest.raises(Invalid, match=re.escape("functionals: rank() has no quantiles")):
        functionals.rank().with_target_errors(quantile=1.0)


def test_asyncio(fake: FakeChorale) -> None:
    fake.context()
    fake.answers["Summarize"].append(half)

    async def main() -> None:
        async with aio.connect(fake.address) as client:
            context = await client.context("houses")
            summary = await context.summarize(
                ROWS, paths=8, target_mean_error=0.5, target_quantile_error=2.0
            )
            assert summary.paths == 4

    asyncio.run(main())
    [request] = fake.requests("Summarize")
    assert (request.target_mean_error, request.target_quantile_error) == (0.5, 2.0)
