"""Seasons are found where there are some, with their period, and nowhere else; the phase goes on after the
context."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

try:
    import numpy as np

    from models.research.training.prior.phase_column import (
        LEVEL,
        _chance,
        find_season,
    )
    from models.research.training.prior.running_index import find_indices
except ImportError:
    np = None

VECTORS = Path(__file__).resolve().parents[3] / "golden" / "seasons.json"


def seasonal(rows: int, period: float, seed: int = 0, noise: float = 0.3) -> np.ndarray:
    """[rows]: two harmonics, a trend and noise."""
    t = np.arange(rows)
    angle = 2 * np.pi * t / period
    y = np.sin(angle + 1) + 0.5 * np.cos(2 * angle) + 0.02 * t
    return y + noise * np.random.default_rng(seed).standard_normal(rows)


def index(rows: int) -> np.ndarray:
    return np.arange(rows, dtype=np.float64)[:, None]


def season(x: np.ndarray, y: np.ndarray, categorical: tuple[int, ...] = (), beside_others: bool = True):
    kinds = np.isin(np.arange(x.shape[1]), categorical)
    return find_season(x, y, kinds, beside_others)


@unittest.skipIf(np is None, "NumPy is not installed")
class PhaseColumnTest(unittest.TestCase):
    def test_finds_whole_and_other_periods(self) -> None:
        for rows, period in ((40, 6), (64, 12), (128, 24), (256, 7)):
            found = season(index(rows), seasonal(rows, period))
            self.assertEqual(found.period, period)
            self.assertLessEqual(found.chance, LEVEL)
        for rows, period in ((64, 5.4), (256, 30.44)):
            found = season(index(rows), seasonal(rows, period))
            self.assertAlmostEqual(found.period / period, 1, delta=0.01)

    def test_phase_goes_on_beyond_the_context(self) -> None:
        found = season(index(64), seasonal(64, 12))
        rows = index(100)[60:]
        np.testing.assert_allclose(found.phase(rows), rows[:, 0] % 12, atol=2e-6)
        self.assertTrue(np.isnan(found.phase(np.array([[np.nan]])))[0])

    def test_unit_and_order_of_the_rows_do_not_matter(self) -> None:
        x, y = index(96), seasonal(96, 8)
        expected = season(x, y)
        order = np.random.default_rng(1).permutation(96)
        for other_x, other_y in ((x[order], y[order]), (1990 + x / 10, 1e6 - 300 * y), (x * 86_400, y)):
            found = season(other_x, other_y)
            self.assertEqual(found.period, expected.period)
            self.assertAlmostEqual(np.log(found.chance), np.log(expected.chance), delta=1e-4)
        # 1990 + 1.2 is not quite twelve tenths later; the phase is 0 there all the same.
        phase = season(1990 + x / 10, y).phase(1990 + x / 10)
        np.testing.assert_allclose(phase, np.arange(96) % 8, atol=1e-5)

    def test_same_bits_every_time(self) -> None:
        x, y = index(200), seasonal(200, 9.7)
        first, second = season(x, y), season(x, y)
        self.assertEqual((first.period, first.chance), (second.period, second.chance))
        self.assertEqual(first.phase(x).tobytes(), second.phase(x).tobytes())

    def test_wave_without_noise(self) -> None:
        self.assertEqual(season(index(64), np.sin(2 * np.pi * np.arange(64) / 12)).period, 12)

    def test_one_day_of_the_week(self) -> None:
        y = 3.0 * (np.arange(140) % 7 == 5) + np.random.default_rng(2).standard_normal(140)
        self.assertAlmostEqual(season(index(140), y).period, 7, delta=0.02)

    def test_season_that_repeats_after_two_of_its_waves(self) -> None:
        t = np.arange(160)
        y = 2 * np.sin(2 * np.pi * t / 8) + np.sin(4 * np.pi * t / 8) + 1.2 * (t // 8 % 2)
        y = y + 0.2 * np.random.default_rng(3).standard_normal(160)
        self.assertEqual(season(index(160), y).period, 16)

    def test_a_season_under_a_random_walk(self) -> None:
        walk = np.random.default_rng(4).standard_normal(200).cumsum()
        self.assertEqual(season(index(200), walk + 3 * seasonal(200, 12)).period, 12)

    def test_series_without_a_season(self) -> None:
        random = np.random.default_rng(5)
        makers = {
            "noise": lambda rows: random.standard_normal(rows),
            "random walk": lambda rows: random.standard_normal(rows).cumsum(),
            "heavy tails": lambda rows: random.standard_t(2, rows),
            "counts": lambda rows: random.poisson(0.5, rows).astype(float),
        }
        for name, make in makers.items():
            found = sum(season(index(rows), make(rows)) is not None for rows in (16, 40, 120) for _ in range(20))
            self.assertLessEqual(found, 2, name)
        for y in (np.zeros(50), np.full(50, 1e300), np.arange(50.0), np.arange(50.0) ** 2):
            self.assertIsNone(season(index(50), y))

    def test_fewer_than_two_and_a_half_periods_are_none(self) -> None:
        found = season(index(64), seasonal(64, 30, noise=0.05))
        self.assertTrue(found is None or found.period < 27)

    def test_only_a_running_index_counts(self) -> None:
        y, random = seasonal(64, 8), np.random.default_rng(6)
        self.assertIsNone(season(index(15), seasonal(15, 4, noise=0)))
        self.assertIsNone(season(random.standard_normal((64, 1)), y))
        self.assertIsNone(season(index(64) // 2, y))
        twice = np.append(np.arange(64), [20, 20, 63])
        self.assertEqual(season(index(64)[twice], y[twice]).period, 8)
        self.assertIsNone(season(index(64)[np.append(twice, 5)], y[np.append(twice, 5)]))
        self.assertIsNone(season(index(64), y, categorical=(0,)))
        self.assertIsNone(season(np.zeros((64, 0)), y))
        hidden = index(64)
        hidden[3] = np.nan
        self.assertIsNone(season(hidden, y))
        # A few rows that are left out do not matter.
        kept = np.delete(np.arange(64), [10, 31, 50])
        self.assertEqual(season(index(64)[kept], y[kept]).period, 8)
        two = np.column_stack([random.standard_normal(64), index(64)])
        self.assertEqual([each.column for each in find_indices(two, np.zeros(2, bool))], [1])

    def test_a_season_that_another_column_tells(self) -> None:
        y, x = seasonal(120, 12), index(120)
        month = np.column_stack([x, x % 12])
        for categorical in ((), (1,)):
            self.assertIsNone(season(month, y, categorical))
            self.assertEqual(season(month, y, categorical, beside_others=False).period, 12)
        driver = np.column_stack([x, seasonal(120, 12, noise=0)])
        self.assertIsNone(season(driver, 2 * driver[:, 1] + np.random.default_rng(7).standard_normal(120)))
        other = np.column_stack([x, x % 5, np.random.default_rng(8).standard_normal(120)])
        other[::7, 2] = np.nan
        self.assertEqual(season(other, y).period, 12)
        many = np.column_stack([x, np.random.default_rng(9).standard_normal((120, 100))])
        self.assertIsNone(season(many, y))

    def test_an_index_with_long_gaps_is_none(self) -> None:
        x = index(64)
        self.assertEqual(season(x, seasonal(64, 8)).period, 8)
        x[40:] += 300
        self.assertIsNone(season(x, seasonal(64, 8)))

    def test_a_plain_sine(self) -> None:
        for rows in (36, 48, 60, 72):
            found = 0
            for seed in range(20):
                y = 10 * np.sin(2 * np.pi * (np.arange(rows) + seed) / 12)
                one = season(index(rows), y + np.random.default_rng(seed).standard_normal(rows))
                found += one is not None and abs(one.period / 12 - 1) < 0.03
            self.assertGreaterEqual(found, 18, rows)

    def test_rows_at_one_place_are_one(self) -> None:
        random = np.random.default_rng(14)
        rows = np.concatenate([np.arange(96), [40, 40, 77]])
        x = np.column_stack([rows.astype(float), random.standard_normal(99), rows % 5])
        y = seasonal(96, 8)[rows] + 0.7 * random.standard_normal(99)
        expected = season(x, y)
        self.assertEqual(expected.period, 8)
        for _ in range(5):
            order = random.permutation(99)
            self.assertEqual(season(x[order], y[order]).chance, expected.chance)

    def test_dates_of_one_day_of_a_month_count_months(self) -> None:
        t = np.arange(60)
        for day in (0, 1, 15, 28):  # 0 is the last of the month before
            dates = (np.datetime64("2015-01") + t).astype("datetime64[D]").astype(np.float64) + day - 1
            years = []
            for seed in range(10):
                y = 10 * np.sin(2 * np.pi * (t + seed) / 12) + 0.5 * t
                y = y + np.random.default_rng(seed).standard_normal(60)
                found = find_season(dates[:, None], y, np.zeros(1, bool), is_date=np.ones(1, bool))
                self.assertEqual(found.index.step, 1)
                self.assertAlmostEqual(found.period, 12, delta=0.1)
                years += [found] if found.period == 12 else []
            self.assertGreaterEqual(len(years), 9, day)
            np.testing.assert_allclose(years[0].phase(dates[:, None]), t % 12, atol=2e-6)

    def test_smooth_curves(self) -> None:
        for rows in (16, 24, 36, 60, 100, 250):
            t, u = np.arange(rows), np.arange(rows) / rows
            for y in (
                np.exp(0.1 * t),
                np.exp(-5 * u),
                1 / (1 + np.exp(-10 * (u - 0.5))),
                np.rint(1000 / (1 + np.exp(-10 * (u - 0.5)))),
                u**9,
                1 / (t + 10),
                np.sqrt(t),
                np.log(t + 10),
                t / (t + 5),
                np.exp(-(((u - 0.5) / 0.15) ** 2)),
            ):
                self.assertIsNone(season(index(rows), y), rows)

    def test_waves_with_hardly_any_noise(self) -> None:
        for noise in (0, 1e-6, 1e-4, 1e-2):
            for rows in (36, 60, 100):
                t = np.arange(rows)
                y = 10 * np.sin(2 * np.pi * (t / 12 + 0.1)) + 0.5 * t
                found = season(index(rows), y + noise * np.random.default_rng(rows).standard_normal(rows))
                self.assertAlmostEqual(found.period, 12, delta=0.1)

    def test_several_series(self) -> None:
        store, t = np.repeat(np.arange(3.0), 48), np.tile(np.arange(48.0), 3)
        y = 100 * store + 10 * np.sin(2 * np.pi * (t / 12 + 0.3 * store))
        y = y + np.random.default_rng(10).standard_normal(len(t))
        for kinds in ((0,), ()):
            found = season(np.column_stack([store, t]), y, kinds)
            self.assertEqual((found.period, found.index.column, len(found.index.series)), (12, 1, 3))
        self.assertIsNone(season(t[:, None], y))  # nothing tells the series
        late = np.column_stack([store, t + 20 * store])
        self.assertEqual(season(late, y, (0,)).period, 12)

    def test_days_may_be_missing(self) -> None:
        day = np.arange(150)
        y = np.array([0, 5, -3, 8, -10, 4, 1])[day % 7] + np.random.default_rng(11).standard_normal(150)
        for gone in (day % 7 > 4, np.random.default_rng(12).uniform(size=150) < 0.4):
            self.assertEqual(season(day[~gone, None].astype(float), y[~gone]).period, 7)

    def test_random_features_count_no_time(self) -> None:
        random = np.random.default_rng(13)
        for rows in (16, 64, 256):
            for _ in range(100):
                x = np.column_stack([random.standard_normal((rows, 3)), random.integers(0, 4, rows)])
                self.assertEqual(find_indices(x, np.array([False, False, False, True])), [])

    def test_vectors_that_the_server_is_held_to(self) -> None:
        vectors = json.loads(VECTORS.read_text())
        self.assertGreaterEqual(len(vectors), 40)
        for vector in vectors:
            with self.subTest(vector["name"]):
                x = np.array([column["cells"] for column in vector["columns"]], dtype=np.float64).T
                kinds = np.array([column["categorical"] for column in vector["columns"]])
                dates = np.array([column.get("date", False) for column in vector["columns"]])
                found = find_season(x, np.array(vector["y"]), kinds, is_date=dates)
                expected = vector["season"]
                self.assertEqual(found is None, expected is None)
                if found is None:
                    continue
                self.assertEqual(found.index[:3], (expected["column"], expected["first"], expected["step"]))
                self.assertAlmostEqual(found.period / expected["period"], 1, delta=1e-12)
                asked = np.zeros((len(vector["request"]), x.shape[1]))
                asked[:, found.index.column] = np.array(vector["request"], dtype=np.float64)
                phases = np.array(vector["request_phases"], dtype=np.float64)
                np.testing.assert_allclose(found.phase(asked), phases, rtol=0, atol=1e-6)

    def test_chance_is_that_of_a_beta_distribution(self) -> None:
        for freedom, ratio in ((6, 0.3), (25, 0.7), (200, 0.9)):
            a = freedom / 2
            x = (np.arange(200_000) + 0.5) / 200_000 * ratio
            integral = (a * (a + 1) * x ** (a - 1) * (1 - x)).mean() * ratio
            self.assertAlmostEqual(_chance(ratio, freedom), integral, places=7)
        self.assertEqual(_chance(-1e-9, 10), 0.0)
        self.assertEqual(_chance(1.0, 10), 1.0)


if __name__ == "__main__":
    unittest.main()
