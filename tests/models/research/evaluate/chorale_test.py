"""Tests the scoring of a predictor that knows the truth, and the ranking of methods."""

import dataclasses
import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import baseline_runs, chorale, gaussian, references, report, scores, synthetic
from models.research.evaluate.baselines import BASELINES
from models.research.evaluate.cells import Cell
from models.research.evaluate.report import MODEL


class PerfectPredictor:
    """Knows the Gaussian process behind the data."""

    def __init__(self, kernel):
        self._kernel = kernel

    def mixture(self, context_x, context_y, target_x, is_categorical=None):
        mean, covariance = gaussian.condition(self._kernel, context_x, context_y, target_x)
        return np.ones((len(mean), 1)), mean[:, None], np.sqrt(np.diag(covariance))[:, None]

    def joint_log_density(
        self, context_x, context_y, target_x, target_y, orders, is_categorical=None
    ):
        mean, covariance = gaussian.condition(self._kernel, context_x, context_y, target_x)
        return np.array(
            [
                gaussian.log_density(mean[order], covariance[np.ix_(order, order)], target_y[order])
                for order in orders
            ]
        )


def _perfect_results(name, sizes, draws):
    """Perfect answers and quick baselines on Gaussian-process data, as if of a real table."""
    results = {}
    predictor = PerfectPredictor(synthetic.GP_PROCESSES[name][0])
    for size in sizes:
        splits = [synthetic.gp_split(name, size, draw) for draw in range(draws)]
        methods = {MODEL: baseline_runs.columns(chorale.score(predictor, s) for s in splits)}
        for method in ("constant", "bayesian_ridge", "gaussian_process"):
            methods[method] = baseline_runs.columns(
                scores.marginal(BASELINES[method](s), s) for s in splits
            )
        results[Cell("tables", "engel", size)] = methods
    return results


class ChoraleTest(unittest.TestCase):
    def test_perfect_predictor_reaches_the_exact_density(self):
        for cell in (Cell("gp", "matern32_d2_noise0.3", "16"), Cell("forecast", "season", "32")):
            split = cell.split(0)
            exact = references.exact(split)
            found = chorale.score(PerfectPredictor(split.kernel), split)
            for score in ("joint_16", "independent_16", "log_density", "crps", "rmse"):
                self.assertAlmostEqual(found[score], exact[score], places=6)

    def test_orders_do_not_matter_to_a_consistent_predictor(self):
        split = synthetic.gp_split("rbf_d1_noise0.1", "16", 0)
        found = chorale.score(PerfectPredictor(split.kernel), split)
        self.assertAlmostEqual(found["joint_16"], found["mixed_16"], places=6)

    def test_joint_beats_independent_on_average(self):
        cell = Cell("forecast", "rough", "16")
        gains = []
        for draw in range(30):
            found = references.exact(cell.split(draw))
            gains.append(found["joint_16"] - found["independent_16"])
        self.assertGreater(np.mean(gains), 0.5)

    def test_fitted_process_is_close_to_the_exact_one_and_not_better(self):
        cell = Cell("gp", "rbf_d2_noise0.3", "64")
        gaps = []
        for draw in range(8):
            split = cell.split(draw)
            gaps.append(references.fitted(split)["joint_16"] - references.exact(split)["joint_16"])
        self.assertLess(np.mean(gaps), 0.02)
        self.assertGreater(np.mean(gaps), -0.3)

    def test_series_process_answers_in_units_of_y(self):
        split = Cell("series", "nile", "16").split(3)
        found = references.series_gaussian_process(split)
        larger = references.series_gaussian_process(
            dataclasses.replace(split, context_y=10 * split.context_y, target_y=10 * split.target_y)
        )
        for score in ("joint_16", "independent_16"):
            self.assertAlmostEqual(larger[score], found[score] - np.log(10), places=4)
        self.assertAlmostEqual(larger["rmse"], 10 * found["rmse"], places=3)


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.results = _perfect_results("rbf_d2_noise0.3", ("16", "64"), 8)

    def test_perfect_predictor_ranks_first(self):
        for score, _, larger_is_better in report.RANKED:
            ranks = report.ranks(self.results, score, larger_is_better)
            np.testing.assert_array_equal(ranks[MODEL], 1)
            np.testing.assert_allclose(sum(ranks.values()), 1 + 2 + 3 + 4)

    def test_page_names_the_winner_and_the_gains(self):
        page = report.page(self.results, "Title")
        self.assertIn("| chorale | 1.00 (2) | 1.00 (2) | 1.00 (2) |", page)
        self.assertIn("Joint densities of the model", page)

    def test_ranks_by_hand(self):
        def columns(value):
            return {"crps": [value, value]}

        cells = {
            Cell("tables", "a", "16"): {"x": columns(0.1), "y": columns(0.3), "z": columns(0.3)}
        }
        ranks = report.ranks(cells, "crps", False)
        self.assertEqual([ranks[name][0] for name in "xyz"], [1.0, 2.5, 2.5])
        ranks = report.ranks(cells, "crps", True)
        self.assertEqual([ranks[name][0] for name in "xyz"], [3.0, 1.5, 1.5])

    def test_gap_to_the_known_truth_is_nil_for_the_truth(self):
        cell = Cell("gp", "rbf_d2_noise0.3", "16")
        splits = [cell.split(draw) for draw in range(3)]
        predictor = PerfectPredictor(splits[0].kernel)
        methods = {MODEL: baseline_runs.columns(chorale.score(predictor, s) for s in splits)}
        for name, method in baseline_runs.REFERENCES["gp"].items():
            methods[name] = baseline_runs.columns(method(s) for s in splits)
        line = next(
            line
            for line in report.page({cell: methods}, "Title").splitlines()
            if line.startswith("| 16 |")
        )
        self.assertRegex(line.split("|")[4].strip(), r"^[+-]0\.000 ± 0\.000$")


if __name__ == "__main__":
    unittest.main()
