"""Tests the evaluation of imputation: where holes are, what is scored, and scikit-learn's draws."""

import unittest

import required_packages  # noqa: F401
import numpy as np
import pandas as pd

from models.research.evaluate import imputation


def example(rows=400):
    random = np.random.default_rng(1)
    x = random.standard_normal(rows)
    y = 2.0 * x + 0.5 * random.standard_normal(rows)
    kind = pd.Categorical(random.choice(["a", "b"], rows))
    return pd.DataFrame({"x0": x, "x1": kind, "y": y})


class ImputationTest(unittest.TestCase):
    def test_holes_depend_on_the_feature_and_their_share_is_right(self):
        data = example(4000)
        holes = imputation.holes_in_target(data, 0)
        missing = holes["y"].isna()
        above = data["x0"] > data["x0"].median()
        self.assertAlmostEqual(missing.mean(), 0.2, delta=0.02)
        self.assertAlmostEqual(missing[above].mean() / missing[~above].mean(), 3.0, delta=0.6)
        self.assertTrue(holes["x0"].notna().all())

    def test_holes_everywhere_are_in_numeric_columns(self):
        holes = imputation.holes_everywhere(example(4000), 0)
        self.assertTrue(holes["x1"].notna().all())
        for name in ("x0", "y"):
            self.assertAlmostEqual(holes[name].isna().mean(), 0.2, delta=0.02)

    def test_scores_of_draws_around_the_truth(self):
        data = example()

        def draws(with_holes, columns, seed):
            random = np.random.default_rng(seed)
            true = data["y"][with_holes["y"].isna()].to_numpy()
            return {"y": true + 0.1 * random.standard_normal((200, len(true)))}

        found = imputation.evaluate(data, imputation.holes_in_target, draws, 10)
        self.assertLess(found["rmse"], 0.02)
        self.assertEqual((found["held"], found["intervals"]), (10, 10))
        # The draws of a cell have a standard deviation of 0.1: 2 * 1.645 * 0.1 for a total.
        self.assertAlmostEqual(found["width"], 0.329 / data["y"].std(), delta=0.02)

    def test_cells_that_were_missing_before_are_not_scored(self):
        data = example()
        data.loc[:9, "y"] = np.nan
        found = imputation.evaluate(data, imputation.holes_in_target, imputation.by_mean, 2)
        self.assertTrue(np.isfinite(found["rmse"]))

    def test_scikit_learn_regresses_on_the_features(self):
        data = example()
        mean, point, drawn = (
            imputation.evaluate(data, imputation.holes_in_target, method, 3)
            for method in (imputation.by_mean, imputation.by_sklearn(1), imputation.by_sklearn(20))
        )
        self.assertLess(point["rmse"], 0.3)
        self.assertGreater(mean["rmse"], 0.9)
        self.assertGreater(drawn["width"], 0.0)


if __name__ == "__main__":
    unittest.main()
