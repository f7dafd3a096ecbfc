"""Tests the made-up tables with frequent values, and how predictions of them are scored."""

import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import spikes


class TablesTest(unittest.TestCase):
    def test_they_have_the_mean_that_they_are_said_to_have(self):
        for name, kind in spikes.KINDS.items():
            u = np.random.default_rng(1).standard_normal(200_000)
            mean = kind.mean(u)
            y = kind.draw(np.random.default_rng(2), mean)
            slope = np.polyfit(mean, y, 1)[0]
            with self.subTest(name):
                self.assertAlmostEqual(y.mean() / mean.mean(), 1.0, delta=0.03)
                self.assertAlmostEqual(slope, 1.0, delta=0.1)
                self.assertTrue(((y >= kind.low) & (y <= kind.high)).all())

    def test_a_table_is_the_same_again_and_its_truth_follows_its_context(self):
        first, again = (spikes.table("Poisson 1", False, 100, 3) for _ in range(2))
        np.testing.assert_array_equal(first.context_y, again.context_y)
        self.assertEqual(len(first.target_y), spikes.TARGETS)
        self.assertAlmostEqual(first.truth, first.context_y.mean())
        other = spikes.table("Poisson 1", True, 100, 3)
        self.assertGreater(np.corrcoef(other.context_x[:, 0], other.context_y)[0, 1], 0.2)

    def test_a_feature_that_is_mostly_zero(self):
        x, y, mean = spikes.mostly_zero(4000, 0.05, 1)
        self.assertAlmostEqual((x[:, 0] > 0).mean(), 0.05, delta=0.015)
        self.assertAlmostEqual((y - mean).std(), 1.0, delta=0.05)
        np.testing.assert_allclose(mean, x[:, 0] + 3 * x[:, 1])

        class LeastSquares:
            def mixture(self, context_x, context_y, target_x):
                fit = np.linalg.lstsq(context_x, context_y, rcond=None)[0]
                return np.ones((len(target_x), 1)), (target_x @ fit)[:, None], None

        for error in spikes.error_where_not_zero(LeastSquares(), 0.2, 3):
            self.assertLess(error, 0.6)
        self.assertEqual(spikes.features_page(LeastSquares(), 2).count("%"), len(spikes.NOT_ZERO))

    def test_shares_of_what_is_not_zero(self):
        for share in (1.5, 30):
            tables = [spikes.table(f"{share:g} % not zero", False, 1000, n) for n in range(20)]
            found = 100 * np.mean([t.context_y > 0 for t in tables])
            self.assertAlmostEqual(found / share, 1.0, delta=0.15)


class ScoresTest(unittest.TestCase):
    def test_who_knows_the_truth_is_right(self):
        """Draws of the process itself."""
        kind = spikes.KINDS["Poisson 1"]
        tables = [spikes.table("Poisson 1", False, 1000, n) for n in range(40)]
        random, shape = np.random.default_rng(3), (spikes.PATHS, spikes.TARGETS)
        draws = np.stack([random.poisson(t.truth, shape) for t in tables])
        mean = np.array([np.full(spikes.TARGETS, t.truth) for t in tables])
        found = spikes.score(kind, tables, mean, dict.fromkeys(spikes.WAYS, draws))
        self.assertAlmostEqual(found["mean"], 1.0)
        self.assertAlmostEqual(found["raw mean"], 1.0, delta=0.03)
        self.assertGreater(found["raw cover 90%"], 0.9)
        self.assertAlmostEqual(found["raw sums"], 0.9, delta=0.12)
        self.assertEqual(found["raw outside"], 0.0)
        wrong = spikes.score(kind, tables, 2 * mean, dict.fromkeys(spikes.WAYS, draws + 1))
        self.assertAlmostEqual(wrong["mean"], 2.0)
        self.assertEqual(wrong["raw sums"], 0.0)

    def test_intervals_hold_values_at_their_ends(self):
        draws = np.array([0.0] * 99 + [5.0])[:, None]
        self.assertTrue(spikes.covers(draws, np.zeros(1), 0.9).all())
        self.assertFalse(spikes.covers(draws, np.full(1, 5.0), 0.9).any())

    def test_the_page_has_every_kind_and_cell(self):
        names = ["mean", *(f"{way} {what}" for way in spikes.WAYS for what in ("mean", "cover 50%", "cover 90%"))]
        names += [f"{way} {what}" for way in spikes.WAYS for what in ("sums", "outside")]
        found = dict.fromkeys(names, 0.5)
        page = spikes.page({("normal", False, 100): found, ("normal", False, 300): found})
        self.assertIn("| normal | tells nothing | 0.50 |", page)
        self.assertEqual(page.count("| normal, "), 2)


if __name__ == "__main__":
    unittest.main()
