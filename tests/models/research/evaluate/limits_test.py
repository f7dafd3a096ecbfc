"""Tests the figures of sizes against a method that knows the function, and whose they are."""

import pathlib
import re
import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import limits
from models.research.evaluate.__main__ import weights_line

DEFAULT = pathlib.Path(__file__).resolve().parents[4] / "models" / "default"


class KnowsTheFunction:
    """Of columns in their order; of others it makes something else."""

    def mixture(self, context_x, context_y, target_x, is_categorical=None):
        x = target_x
        mean = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + np.abs(x[:, 3]) - 0.5 * x[:, 4]
        one = np.ones((len(x), 1))
        return one, mean[:, None], limits.NOISE * one


class LimitsTest(unittest.TestCase):
    def test_the_truth_has_the_density_of_the_noise(self):
        expected = -0.5 * np.log(2 * np.pi * np.e * limits.NOISE**2)
        for rows, more in ((256, 0), (512, 94)):
            found = limits.log_density(KnowsTheFunction(), rows, more)
            self.assertAlmostEqual(found, expected, delta=0.1)

    def test_orders_of_columns_are_seen(self):
        spread, scale = limits.spread_over_orders(KnowsTheFunction())
        self.assertTrue(0.3 < spread < scale)

    def test_page_has_a_figure_for_every_size(self):
        page = limits.page(KnowsTheFunction())
        self.assertEqual(len(re.findall(r"0\.\d{3} \|", page)), 11)

    def test_the_report_beside_the_default_model_is_of_its_weights(self):
        self.assertIn(weights_line(DEFAULT), (DEFAULT / "evaluation.md").read_text())


if __name__ == "__main__":
    unittest.main()
