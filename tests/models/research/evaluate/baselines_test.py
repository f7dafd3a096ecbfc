"""Tests that each baseline learns what it should, and copes with what tables hold."""

import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import scores
from models.research.evaluate.baselines import BASELINES
from models.research.evaluate.baselines.design_matrix import design_matrices
from models.research.evaluate.cells import Cell
from models.research.evaluate.split import Split

NOISE = 0.2


def _split(context, targets=400):
    """y depends on a number and a category; another number is irrelevant; a tenth is missing."""
    random = np.random.default_rng(0)
    rows = context + targets
    x = np.stack(
        [
            random.normal(size=rows),
            random.integers(3, size=rows).astype(float),
            random.normal(size=rows),
        ],
        axis=1,
    )
    y = x[:, 0] + np.array([-1.0, 0.0, 2.0])[x[:, 1].astype(int)] + NOISE * random.normal(size=rows)
    x[random.uniform(size=rows) < 0.1, 2] = np.nan
    return Split(
        x[:context], y[:context], x[context:], y[context:], np.array([False, True, False]), (8,)
    )


class BaselinesTest(unittest.TestCase):
    def test_all_but_the_floor_learn(self):
        split = _split(150)
        found = {
            name: scores.marginal(predict(split), split) for name, predict in BASELINES.items()
        }
        floor = found.pop("constant")
        for name, score in found.items():
            with self.subTest(name):
                self.assertLess(score["rmse"], 0.4 * floor["rmse"])
                self.assertGreater(score["log_density"], floor["log_density"] + 0.6)
                self.assertLess(score["crps"], 0.5 * floor["crps"])

    def test_linear_methods_are_near_the_truth(self):
        split = _split(150)
        truth = -0.5 * np.log(2 * np.pi * NOISE**2) - 0.5
        for name in ("bayesian_ridge", "gaussian_process"):
            score = scores.marginal(BASELINES[name](split), split)
            self.assertAlmostEqual(score["log_density"], truth, delta=0.1)
            self.assertAlmostEqual(score["cover_90"], 0.9, delta=0.05)

    def test_intervals_are_calibrated(self):
        split = _split(150)
        for name, predict in BASELINES.items():
            with self.subTest(name):
                score = scores.marginal(predict(split), split)
                self.assertAlmostEqual(score["cover_50"], 0.5, delta=0.13)
                self.assertAlmostEqual(score["cover_90"], 0.9, delta=0.07)

    def test_sixteen_rows_and_many_columns(self):
        random = np.random.default_rng(1)
        x, y = random.normal(size=(80, 30)), random.normal(size=80)
        split = Split(x[:16], y[:16], x[16:], y[16:], np.zeros(30, dtype=bool), (8,))
        for name, predict in BASELINES.items():
            with self.subTest(name):
                score = scores.marginal(predict(split), split)
                self.assertGreater(score["log_density"], -2.5)

    def test_ridge_is_not_far_too_sure_with_fewer_rows_than_columns(self):
        for draw in range(3):
            split = Cell("tables", "autos", "16").split(draw)
            score = scores.marginal(BASELINES["bayesian_ridge"](split), split)
            self.assertGreater(score["log_density"], -2.5)

    def test_gradient_boosting_fits_noise_that_varies(self):
        random = np.random.default_rng(2)
        x = random.uniform(size=(900, 1))
        y = random.normal(size=900) * np.where(x[:, 0] > 0.5, 1.0, 0.1)
        split = Split(x[:500], y[:500], x[500:], y[500:], np.zeros(1, dtype=bool), (8,))
        std = BASELINES["gradient_boosting"](split).std[:, 0]
        loud = split.target_x[:, 0] > 0.5
        self.assertGreater(std[loud].mean(), 4 * std[~loud].mean())

    def test_random_forest_finds_two_modes(self):
        random = np.random.default_rng(3)
        x = random.normal(size=(500, 1))
        y = np.sign(random.normal(size=500)) + 0.05 * random.normal(size=500)
        split = Split(x[:400], y[:400], x[400:], y[400:], np.zeros(1, dtype=bool), (8,))
        mixture = BASELINES["random_forest"](split)
        middle = mixture.log_density(np.zeros(100)).mean()
        self.assertGreater(mixture.log_density(split.target_y).mean(), middle + 2)


class DesignMatrixTest(unittest.TestCase):
    def test_columns_by_hand(self):
        nan = np.nan
        context = np.array([[1.0, 0.0, 7.0], [nan, 1.0, 7.0], [3.0, 2.0, 7.0], [2.0, 2.0, 7.0]])
        target = np.array([[nan, nan, 9.0]])
        split = Split(context, np.zeros(4), target, np.zeros(1), np.array([False, True, False]), ())
        seen, asked = design_matrices(split)
        # The number and its indicator, scaled; three categories. The constant column is dropped.
        self.assertEqual(seen.shape, (4, 5))
        np.testing.assert_allclose(seen[:, 0], np.array([-1, 0, 1, 0]) * np.sqrt(2), atol=1e-12)
        np.testing.assert_array_equal(seen[:, 2:], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
        np.testing.assert_allclose(asked[0, [0, 1]], [0.0, seen[1, 1]])
        np.testing.assert_array_equal(asked[0, 2:], 0)

    def test_features_that_never_vary(self):
        split = Split(
            np.full((5, 2), 3.0),
            np.arange(5.0),
            np.full((2, 2), 4.0),
            np.zeros(2),
            np.zeros(2, dtype=bool),
            (),
        )
        for predict in BASELINES.values():
            self.assertTrue(np.isfinite(predict(split).log_density(split.target_y)).all())


if __name__ == "__main__":
    unittest.main()
