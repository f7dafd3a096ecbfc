"""Pictures: what they show is read back from them, and they can be saved."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import chorale_client
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from chorale_client._plots import _density, _mean_and_spread
from samples_test import make


@pytest.fixture(autouse=True)
def close() -> Iterator[None]:
    yield
    plt.close("all")


def joint(rows: int = 6, paths: int = 400) -> chorale_client.Samples:
    """Rows with the means 0, 10, 20, ... that share half of their variance."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(paths, 1)) + rng.normal(size=(paths, rows))
    samples: chorale_client.Samples = make(
        values + 10.0 * np.arange(rows), [f"r{i}" for i in range(rows)]
    )
    return samples


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize(
    "draw",
    [
        lambda s: s.plot(),
        lambda s: s.plot(sort=True, paths=3),
        lambda s: s.plot_marginals(),
        lambda s: s.plot_pairs(),
        lambda s: s.plot_sum(),
        lambda s: s.plot_calibration(np.full(len(s), 5.0)),
    ],
)
@pytest.mark.parametrize("rows", [1, 6, 70])
def test_all_can_be_saved(draw: Any, rows: int, tmp_path: pathlib.Path) -> None:
    axes = draw(joint(rows, paths=50))
    axes.figure.savefig(tmp_path / "plot.png", dpi=30)
    assert (tmp_path / "plot.png").stat().st_size > 0
    _, given = plt.subplots()
    samples = joint(rows, paths=50)
    assert samples.plot(ax=given) is given


def test_the_fan_shows_medians_and_paths() -> None:
    samples = joint()
    axes = samples.plot(paths=4)
    *paths, median = axes.get_lines()
    assert len(paths) == 4
    assert np.array_equal(paths[2].get_ydata(), samples.values[2])
    assert np.array_equal(median.get_ydata(), np.median(samples.values, axis=0))
    assert texts(axes) == ["90 %", "50 %", "paths", "median"]
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"r{i}" for i in range(6)]
    reverse = make(samples.values[:, ::-1], [f"r{i}" for i in range(6)])
    labels = [label.get_text() for label in reverse.plot(sort=True).get_xticklabels()]
    assert labels == [f"r{i}" for i in reversed(range(6))]


def test_long_labels_do_not_run_into_each_other() -> None:
    dates = pd.date_range("2024-01-01", periods=120)
    axes = make(np.zeros((3, 120)), dates).plot()
    labels = axes.get_xticklabels()
    assert len(labels) <= 24
    assert labels[0].get_text() == "2024-01-01"
    assert labels[0].get_rotation() == 45


def test_marginals_show_the_rows_that_are_asked_for() -> None:
    samples = joint(15)
    assert len(samples.plot_marginals().get_yticks()) == 12
    axes = samples.plot_marginals(["r3", "r1"])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["r3", "r1"]


def test_pairs_show_correlations() -> None:
    samples = joint()
    axes = samples.plot_pairs(["r0", "r1"])
    shown = [text.get_text() for cell in axes.child_axes for text in cell.texts]
    assert shown == [f"r = {samples.corr()[0, 1]:.2f}"]
    assert len(axes.child_axes) == 3


def test_the_sum_says_how_far_it_spreads() -> None:
    samples = joint()
    axes = samples.plot_sum()
    alone, together = texts(axes)
    assert alone == f"as if independent: {_mean_and_spread(samples.independent().sum())}"
    assert together == f"joint: {_mean_and_spread(samples.sum())}"
    assert axes.get_xlabel() == "sum of y over 6 rows"
    assert samples.plot_sum(["r1"]).get_xlabel() == "sum of y over 1 rows"


@pytest.mark.parametrize(
    ("draws", "text"),
    [
        ([98_000.0, 99_000.0], "98,500 ± 710"),
        ([0.0123, 0.0125], "0.01240 ± 0.00014"),
        ([5.0, 5.0], "5"),
    ],
)
def test_numbers_are_as_long_as_they_say_something(draws: list[float], text: str) -> None:
    assert _mean_and_spread(np.array(draws)) == text


def test_calibration_counts_the_values_in_each_interval() -> None:
    paths = np.arange(1.0, 101.0)[:, None] + np.zeros(4)  # 1 to 100 in each row
    samples = make(paths, list("abcd"))
    axes = samples.plot_calibration([50.5, 25.5, 75.5, np.nan])  # in the middle; at two quartiles
    covered = next(line for line in axes.get_lines() if line.get_label() == "3 known values")
    share = dict(zip(np.round(covered.get_xdata(), 2), covered.get_ydata(), strict=True))
    assert share[0.49] == pytest.approx(1 / 3)
    assert share[0.51] == 1
    with pytest.raises(chorale_client.InvalidArgumentError, match="all values are missing"):
        samples.plot_calibration([np.nan] * 4)


def test_smoothed_densities_are_densities() -> None:
    draws = np.random.default_rng(0).normal(3, 2, size=4000)
    grid = np.linspace(-8, 14, 500)
    density = _density(draws, grid)
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=0.01)
    normal = np.exp(-0.5 * ((grid - 3) / 2) ** 2) / (2 * np.sqrt(2 * np.pi))
    assert np.abs(density - normal).max() < 0.02
    assert np.isfinite(_density(np.zeros(9), np.linspace(-1, 1, 50))).all()
