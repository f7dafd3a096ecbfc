"""Known totals, and paths with weights, by a fake server."""

from __future__ import annotations

import asyncio
import math
import pickle
from collections.abc import Callable
from typing import Any

import chorale_client
import grpc
import numpy as np
import pandas as pd
import pytest
from chorale_client import Samples, aio
from chorale_client._known_totals import effective_sample_size
from chorale_client._v1 import chorale_pb2 as pb
from fake_chorale import Failure, FakeChorale
from fake_groups import sampled_groups
from fake_known_values import NAN, ROWS, SOURCE, Invalid, sampled

INF = math.inf
# The towns are "Kiel", "Bonn", "Kiel" and "Ulm".
GROUPS = ROWS["town"].to_numpy()


def weight(path: int, group: int) -> float:
    """The log-weight of a path; group 1 has no weight on every second path."""
    return -INF if group == 1 and path % 2 else -0.01 * path - 1000.0 * group


def weighted(answers: list[Any]) -> list[Any]:
    """The answers of Sample, with weights in the summary."""
    messages, end = answers

    def ended(request: pb.SampleRequest) -> pb.SampleResponse:
        response: pb.SampleResponse = end(request)
        groups = len(request.known_totals.lower)
        for path in range(request.first_path, request.first_path + request.path_count):
            for group in range(groups):
                response.summary.total_log_weights.append(weight(path, group))
        response.summary.total_effective_sample_sizes[:] = [1.0] * groups
        return response

    return [messages, ended]


def drawn(fake: FakeChorale, context: chorale_client.Context, **more: Any) -> Samples:
    answers = sampled_groups if "groupby" in more else sampled
    fake.answers["Sample"].append(weighted(answers()))
    return context.sample(ROWS, seed=1, **{"paths": 300, "total": 260.0, **more})


def ends(request: pb.SampleRequest) -> list[tuple[float, float]]:
    return list(zip(request.known_totals.lower, request.known_totals.upper, strict=True))


# ---- The argument --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (120, (120, 120)),
        (np.float64(120), (120, 120)),
        ((100, 120), (100, 120)),
        ([100, 120], (100, 120)),
        (np.array([100, 120]), (100, 120)),
        ((None, 120), (-INF, 120)),
        ((100, None), (100, INF)),
        ((100, INF), (100, INF)),
    ],
)
def test_forms_of_a_total(
    fake: FakeChorale, context: chorale_client.Context, total: Any, expected: Any
) -> None:
    drawn(fake, context, total=total)
    [request] = fake.requests("Sample")
    assert ends(request) == [expected]


@pytest.mark.filterwarnings("ignore::chorale_client.DataWarning")
@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (120, [(120, 120)] * 3),
        ({"Ulm": 5, "Kiel": (1, 2)}, [(1, 2), (-INF, INF), (5, 5)]),
        ({"Ulm": None, "Bonn": (None, 2)}, [(-INF, INF), (-INF, 2), (-INF, INF)]),
        (pd.Series([1.0, NAN, 3.0], index=["Bonn", "Kiel", "Ulm"]), [(-INF, INF), (1, 1), (3, 3)]),
    ],
)
def test_totals_of_groups(
    fake: FakeChorale, context: chorale_client.Context, total: Any, expected: Any
) -> None:
    drawn(fake, context, total=total, groupby=GROUPS)
    [request] = fake.requests("Sample")
    assert ends(request) == expected


@pytest.mark.parametrize(
    ("total", "groupby", "message"),
    [
        (NAN, None, "must not be NaN"),
        ((120, 100), None, "the lower end 120 exceeds the upper end 100"),
        ((1, 2, 3), None, "must be a number, or a pair"),
        ("much", None, "'much', must be a number"),
        ((INF, INF), None, "not infinite on the wrong side"),
        ({"Ulm": 1}, None, "require groupby"),
        ({"Rome": 1}, GROUPS, "there is no group 'Rome'"),
        ({"Ulm": (2, 1)}, GROUPS, "total of the group 'Ulm': the lower end"),
    ],
)
def test_totals_that_are_invalid(
    context: chorale_client.Context, total: Any, groupby: Any, message: str
) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        context.sample(ROWS, paths=2, total=total, groupby=groupby)
    assert caught.value.field == "total"


def test_errors_of_the_server_name_the_group(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append(
        [Failure(grpc.StatusCode.INVALID_ARGUMENT, "known_totals.lower[1]: is 1e+99")]
    )
    with pytest.raises(Invalid, match="total of the group 'Bonn': is 1e"):
        context.sample(ROWS, paths=2, total=1e99, groupby=GROUPS)


def test_without_a_total_there_are_no_weights(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    fake.answers["Sample"].append(sampled())
    samples = context.sample(ROWS, paths=3)
    assert samples.log_weights is None
    assert samples.effective_sample_size == 3
    [request] = fake.requests("Sample")
    assert not request.HasField("known_totals")
    with pytest.raises(Invalid, match="the samples have no weights"):
        samples.resample()


@pytest.mark.parametrize("count", [0, 2])
def test_weights_that_are_missing(
    fake: FakeChorale, context: chorale_client.Context, count: int
) -> None:
    fake.answers["Sample"].append(sampled(total_log_weights=[0.0] * count))
    error = chorale_client.DataLossError if count else chorale_client.UnimplementedError
    with pytest.raises(error, match="weights of 3 paths" if count else "known totals"):
        context.sample(ROWS, paths=3, total=1.0)


# ---- Weights -------------------------------------------------------------------------------


def test_weights(fake: FakeChorale, context: chorale_client.Context) -> None:
    samples = drawn(fake, context, log_densities=True)
    assert samples.log_weights is not None
    assert samples.log_weights.tolist() == [weight(path, 0) for path in range(300)]
    weights = np.exp(samples.log_weights)
    expected = weights.sum() ** 2 / (weights**2).sum()
    assert samples.effective_sample_size == pytest.approx(expected)
    assert samples.warnings == ()
    again = pickle.loads(pickle.dumps(samples))
    assert again.log_weights.tolist() == samples.log_weights.tolist()


def test_weights_of_groups(fake: FakeChorale, context: chorale_client.Context) -> None:
    with pytest.warns(chorale_client.DataWarning, match=r"in the group 'Bonn'.*FEW_EFFECTIVE"):
        samples = drawn(fake, context, groupby=GROUPS, paths=150)
    assert samples.log_weights is not None
    assert samples.log_weights.shape == (150, 3)
    sizes = np.asarray(samples.effective_sample_size)
    assert sizes.shape == (3,)
    assert sizes[0] == pytest.approx(sizes[2])
    assert sizes[2] > sizes[1] > 0
    assert samples.warnings[-1].reason == "FEW_EFFECTIVE_PATHS"


def test_effective_sample_sizes() -> None:
    log_weights = np.log([[1.0, 1.0], [1.0, 1e-300], [2.0, 1e-300]]) - 2000
    assert effective_sample_size(log_weights).tolist() == pytest.approx([16 / 6, 1])
    assert effective_sample_size(np.array([-INF, -INF])) == 0


STATISTICS: dict[str, Callable[[Samples], Any]] = {
    "mean": Samples.mean,
    "std": Samples.std,
    "quantile": lambda samples: samples.quantile(0.5),
    "interval": Samples.interval,
    "cov": Samples.cov,
    "corr": Samples.corr,
    "sum": Samples.sum,
    "max": Samples.max,
    "min": Samples.min,
    "ranks": Samples.ranks,
    "argmax_probabilities": Samples.argmax_probabilities,
    "independent": Samples.independent,
    "pit": lambda samples: samples.pit([1.0] * 4),
    "label": lambda samples: samples["a"],
    "array": np.asarray,
    "iteration": list,
    "to_frame": Samples.to_frame,
    "summary": lambda samples: samples.to_frame(summary=True),
    "to_arrow": Samples.to_arrow,
    "to_xarray": Samples.to_xarray,
    "to_arviz": Samples.to_arviz,
    "plot": Samples.plot,
    "plot_marginals": Samples.plot_marginals,
    "plot_pairs": Samples.plot_pairs,
    "plot_sum": Samples.plot_sum,
}


@pytest.mark.parametrize("name", STATISTICS)
def test_no_statistic_ignores_weights(
    fake: FakeChorale, context: chorale_client.Context, name: str
) -> None:
    samples = drawn(fake, context)
    with pytest.raises(Invalid, match=r"the paths have weights.*resample\(\)"):
        STATISTICS[name](samples)


# ---- Resampling ----------------------------------------------------------------------------


def test_resampled_paths_occur_as_often_as_their_weights_say(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    samples = drawn(fake, context, log_densities=True)
    assert samples.log_weights is not None
    assert samples.log_densities is not None
    plain = samples.resample(5000, seed=3)
    assert plain.log_densities is not None
    assert plain.paths == 5000
    assert plain.log_weights is None
    assert plain.first_path == 0
    weights = np.exp(samples.log_weights)
    expected = 5000 * weights / weights.sum()
    path = np.rint((plain.values[:, 0] - samples.values[0, 0]) * 100).astype(int)
    counts = np.bincount(path, minlength=300)
    assert np.all(np.abs(counts - expected) < 1)
    assert np.array_equal(plain.values, samples.values[path])
    assert np.array_equal(plain.log_densities, samples.log_densities[path])
    assert not np.array_equal(path, np.sort(path))
    mean = weights @ samples.values / weights.sum()
    assert plain.mean() == pytest.approx(mean, abs=0.01)
    assert np.array_equal(plain.values, samples.resample(5000, seed=3).values)
    assert samples.resample().paths == 300
    with pytest.raises(Invalid, match="n: 0, must be at least 1"):
        samples.resample(0)


@pytest.mark.filterwarnings("ignore::chorale_client.DataWarning")
def test_groups_are_resampled_separately(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    samples = drawn(fake, context, groupby=GROUPS)
    plain = samples.resample(1000)
    path = np.rint((plain.values - samples.values[0]) * 100).astype(int)
    assert np.array_equal(path[:, 0], path[:, 2])  # both in Kiel
    assert not np.array_equal(path[:, 0], path[:, 1])
    assert set(path[:, 1] % 2) == {0}
    some = samples.select(["b", "d"]).resample(1000)
    assert np.array_equal(some.values, plain.values[:, [1, 3]])


@pytest.mark.parametrize("groupby", [None, GROUPS])
@pytest.mark.filterwarnings("ignore::chorale_client.DataWarning")
def test_known_values_of_each_path_are_resampled(
    fake: FakeChorale, context: chorale_client.Context, groupby: Any
) -> None:
    given = [[float(path), NAN, NAN, NAN] for path in range(4)]
    more = {} if groupby is None else {"groupby": groupby}
    samples = drawn(fake, context, given=given, paths=4, **more)
    plain = samples.resample(50)
    known = np.asarray(plain.known_log_density).reshape(50, -1)
    assert known[:, 0].tolist() == (-plain.values[:, 0]).tolist()


@pytest.mark.filterwarnings("ignore::chorale_client.DataWarning")
def test_a_total_that_is_not_possible(fake: FakeChorale, context: chorale_client.Context) -> None:
    samples = drawn(fake, context, paths=1, first_path=1, groupby=GROUPS)
    assert np.asarray(samples.effective_sample_size).tolist() == [1, 0, 1]
    with pytest.raises(chorale_client.FailedPreconditionError, match="the group 'Bonn'"):
        samples.resample()


# ---- Several calls -------------------------------------------------------------------------


def test_concatenation_joins_weights(fake: FakeChorale, context: chorale_client.Context) -> None:
    everything = drawn(fake, context)
    first = drawn(fake, context, paths=200)
    rest = drawn(fake, context, paths=150, first_path=200)
    joined = Samples.concat([rest, first])
    assert joined.log_weights is not None
    assert everything.log_weights is not None
    assert joined.log_weights[:300].tolist() == everything.log_weights.tolist()
    assert joined.resample().paths == 350
    fake.answers["Sample"].append(sampled())
    plain = context.sample(ROWS, seed=1, paths=3, first_path=200)
    with pytest.raises(Invalid, match="some have no weights"):
        Samples.concat([first, plain])


def test_a_call_that_ends_early_has_no_samples(
    fake: FakeChorale, context: chorale_client.Context
) -> None:
    messages, _ = sampled()
    failure = Failure(grpc.StatusCode.UNAVAILABLE, "draining")
    fake.answers["Sample"].append([messages, failure])
    with pytest.raises(chorale_client.UnavailableError) as caught:
        context.sample(ROWS, paths=3, seed=1, total=1.0)
    assert caught.value.samples is None


def test_asyncio(fake: FakeChorale) -> None:
    fake.context()
    fake.answers["Sample"].append(weighted(sampled()))

    async def main() -> Samples:
        async with aio.connect(fake.address, connect_timeout=60) as client:
            context = await client.context("houses")
            return await context.sample(ROWS, paths=300, seed=1, total=(None, 260))

    samples = asyncio.run(main())
    assert samples.log_weights is not None
    assert samples.source.context_digest == SOURCE.context_digest
    assert ends(fake.requests("Sample")[0]) == [(-INF, 260)]
