"""Tests the comparison with and without the column of a season's phase: what is scored, and how it is counted."""

import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import seasons
from models.research.evaluate.cells import Cell


class KnowsThePhase:
    """Means by phase where the last column is one, else the mean of all; alone and jointly the same."""

    def mixture(self, context_x, context_y, target_x, is_categorical=None):
        count, mean, std = len(target_x), context_y.mean(), context_y.std()
        means = np.full(count, mean)
        if context_x.shape[1] > 1:
            near = np.abs(context_x[:, -1] - target_x[:, -1][:, None]) < 0.5
            means, std = (near * context_y).sum(axis=1) / near.sum(axis=1), std / 2
        return np.ones((count, 1)), means[:, None], np.full((count, 1), std)

    def joint_log_density(self, context_x, context_y, target_x, target_y, orders, is_categorical=None):
        _, mean, std = self.mixture(context_x, context_y, target_x)
        z = (target_y - mean[:, 0]) / std[:, 0]
        density = (-0.5 * z**2 - np.log(std[:, 0]) - 0.5 * np.log(2 * np.pi)).sum()
        return np.full(len(orders), density)


class SeasonsTest(unittest.TestCase):
    def test_a_season_is_scored_without_and_with_its_phase(self):
        found = seasons.score(KnowsThePhase(), Cell("forecast", "season", "128"), "as it is", 0)
        self.assertEqual(found["period"], 12)
        self.assertGreater(found["with"]["joint_16"], found["without"]["joint_16"])
        self.assertLess(found["with"]["rmse"], found["without"]["rmse"])

    def test_no_season_is_not_scored(self):
        self.assertIsNone(seasons.score(None, Cell("forecast", "trend", "64"), "as it is", 0))
        self.assertIsNone(seasons.score(None, Cell("tables", "engel", "64"), "as it is", 0))

    def test_a_column_that_tells_the_season(self):
        cell = Cell("series", "co2", "64")
        self.assertEqual(seasons.ways(cell), list(seasons.WAYS))
        self.assertIsNone(seasons.season_of(cell.split(3)))
        self.assertEqual(seasons.season_of(cell.split(3), beside_others=False).period, 12)
        alone = seasons.index_alone(cell.split(3))
        self.assertEqual(alone.context_x.shape[1], 1)
        self.assertEqual(seasons.season_of(alone).period, 12)
        self.assertEqual(seasons.ways(Cell("series", "nile", "64")), ["as it is"])

    def test_line_counts_draws_without_a_season_as_equal(self):
        row = {"period": 7.0, "without": {"crps": 0.5}, "with": {"crps": 0.3}}
        np.testing.assert_allclose(seasons.differences([row, None], "crps"), [-0.2, 0.0])
        self.assertIsNone(seasons.differences([row, None], "joint_16"))
        self.assertIn("| a | 1 of 2 | 7.00 |  |  | -0.1000 ± 0.1000 |  |", seasons.line("a", [row, None]))
        self.assertEqual(seasons.line("b", [None]).count("|"), 8)

    def test_alarms_are_rare(self):
        self.assertLessEqual(sum(seasons.alarms(kind, 64, 20) for kind in seasons.NULLS), 5)


if __name__ == "__main__":
    unittest.main()
