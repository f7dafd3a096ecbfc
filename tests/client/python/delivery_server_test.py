"""Some paths of a seed, float32, and calls that end early, by a real server."""

from __future__ import annotations

from typing import Any

import chorale_client
import numpy as np
import pandas as pd
import pytest
from chorale_client import Samples
from own_server import ROOT

PENGUINS = pd.read_csv(ROOT / "datasets/penguins.csv")
ROWS = pd.read_csv(ROOT / "datasets/penguins_heldout.csv")[:6].drop(columns="body_mass_g")
PATHS = 120


@pytest.fixture(scope="module")
def penguins(real: chorale_client.Client) -> chorale_client.Context:
    return real.register(PENGUINS, target="body_mass_g")


FORMS: list[dict[str, Any]] = [
    {},
    {"order": "random", "log_densities": True},
    {"groupby": "species"},
    {"groupby": "species", "order": "random"},
    {"given": [4000.0, np.nan, np.nan, 3500.0, np.nan, np.nan], "log_densities": True},
]


@pytest.mark.parametrize("form", FORMS)
def test_paths_have_the_values_of_a_call_for_all(
    penguins: chorale_client.Context, form: dict[str, Any]
) -> None:
    everything = penguins.sample(ROWS, paths=PATHS, seed=5, **form)
    parts = [
        penguins.sample(ROWS, paths=count, seed=5, first_path=first, **form)
        for first, count in ((50, PATHS - 50), (0, 1), (1, 49))
    ]
    joined = Samples.concat(parts)
    np.testing.assert_array_equal(joined.values, everything.values)
    assert joined.known_log_density == everything.known_log_density
    if everything.log_densities is not None:
        np.testing.assert_array_equal(joined.log_densities, everything.log_densities)


def test_each_path_has_its_own_known_values(penguins: chorale_client.Context) -> None:
    given = np.full((PATHS, 6), np.nan)
    given[:, 2] = np.linspace(3000, 5000, PATHS)
    everything = penguins.sample(ROWS, paths=PATHS, seed=5, given=given)
    parts = [
        penguins.sample(ROWS, paths=60, seed=5, first_path=first, given=given[first : first + 60])
        for first in (0, 60)
    ]
    joined = Samples.concat(parts)
    np.testing.assert_array_equal(joined.values, everything.values)
    np.testing.assert_array_equal(joined.known_log_density, everything.known_log_density)


def test_float32_values_are_those_in_float64_rounded(penguins: chorale_client.Context) -> None:
    wide = penguins.sample(ROWS, paths=20, seed=5, log_densities=True)
    narrow = penguins.sample(ROWS, paths=20, seed=5, log_densities=True, dtype="float32")
    np.testing.assert_array_equal(narrow.values, wide.values.astype(np.float32))
    assert wide.log_densities is not None
    np.testing.assert_array_equal(narrow.log_densities, wide.log_densities.astype(np.float32))


def test_a_call_that_ends_early_is_continued(penguins: chorale_client.Context) -> None:
    everything = penguins.sample(ROWS, paths=1000, seed=5)

    def interrupt(done: int, total: int) -> None:
        if done >= total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        penguins.sample(ROWS, paths=1000, seed=5, progress=interrupt)
    error: Any = caught.value
    first = error.samples
    assert 0 < first.paths < 1000
    others = penguins.sample(ROWS, paths=1000 - first.paths, seed=5, first_path=first.paths)
    joined = Samples.concat([first, others])
    np.testing.assert_array_equal(joined.values, everything.values)


def test_limits_are_named(penguins: chorale_client.Context) -> None:
    with pytest.raises(chorale_client.InvalidArgumentError) as caught:
        penguins.sample(ROWS, paths=2, seed=5, first_path=2**31 - 2)
    assert caught.value.field == "first_path"
    assert caught.value.limit == 2**31 - 3
    penguins.sample(ROWS, paths=2, seed=5, first_path=2**31 - 3)


def test_a_target_that_exceeds_float32_is_named(real: chorale_client.Client) -> None:
    table = {"x": np.arange(20.0), "y": 1e36 * np.sin(np.arange(20.0))}
    context = real.register(table, target="y")
    with pytest.raises(chorale_client.InvalidArgumentError) as caught:
        context.sample({"x": [1.0]}, paths=2, dtype="float32")
    assert caught.value.field == "float32_values"
    assert np.isfinite(context.sample({"x": [1.0]}, paths=2).values).all()
    context.delete()
