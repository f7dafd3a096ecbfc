"""Damaged and heavy-tailed tables are what they are said to be, and the page says what was found."""

import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import heavy_tails
from models.research.evaluate.damage import DAMAGES, FAR
from models.research.evaluate.split import Split

try:
    import torch

    from models.research.evaluate import corruption, corruption_report
    from models.research.evaluate.corruption_rules import BEFORE, NOW, RULES
    from models.research.training.model import JointModel
    from models.research.training.model_config import default_config
    from models.research.training.prior.scaling import PLAIN, RULE
except ImportError:
    torch = None


def plain_split(rows: int = 40) -> Split:
    random = np.random.default_rng(5)
    x, target_x = random.normal(size=(rows, 6)), random.normal(size=(9, 6))
    x[:, 5] = random.integers(0, 3, rows)
    target_x[:, 5] = random.integers(0, 3, 9)
    x[3, 0] = np.nan
    categorical = np.array([False] * 5 + [True])
    return Split(x, random.normal(size=rows), target_x, random.normal(size=9), categorical, ())


class DamageTest(unittest.TestCase):
    def test_one_in_a_hundred_numbers_of_the_context(self):
        split = plain_split()
        for name, change in (("x times 1000", 1000.0), ("x with the other sign", -1.0)):
            found = DAMAGES[name](split, np.random.default_rng(1))
            changed = (found.context_x != split.context_x) & ~np.isnan(split.context_x)
            self.assertEqual(changed.sum(), 2, name)  # of 199
            self.assertFalse(changed[:, 5].any())
            np.testing.assert_array_equal(found.context_x[changed], change * split.context_x[changed])
            np.testing.assert_array_equal(found.target_x, split.target_x)

    def test_in_the_request_too(self):
        found = DAMAGES["x -9999, in the request too"](plain_split(), np.random.default_rng(1))
        self.assertEqual((found.context_x == -9999).sum(), 2)
        self.assertEqual((found.target_x == -9999).sum(), 1)  # at least

    def test_constant_columns(self):
        found = DAMAGES["three constant columns"](plain_split(), np.random.default_rng(1))
        self.assertEqual(found.context_x.shape[1], 9)
        self.assertTrue((found.context_x[:, 6:] == found.context_x[0, 6:]).all())
        self.assertGreater(found.target_x[:, 6:].std(axis=0).min(), 1)
        self.assertEqual(len(found.is_categorical), 9)

    def test_one_y(self):
        split = plain_split()
        found = DAMAGES["one y"](split, np.random.default_rng(1))
        change = found.context_y - split.context_y
        self.assertEqual(np.count_nonzero(change), 1)
        self.assertAlmostEqual(np.abs(change).max(), FAR)


class HeavyTailsTest(unittest.TestCase):
    def test_conditional_means_are_those_of_the_targets(self):
        for kind in ("y: lognormal 1", "both: lognormal 1", "y: 80 % zeros", "x: student 2"):
            made = [heavy_tails.split(kind, 16, draw) for draw in range(30)]
            y = np.concatenate([split.target_y for split, _ in made])
            mean = np.concatenate([mean for _, mean in made])
            with self.subTest(kind):
                self.assertAlmostEqual(y.mean(), mean.mean(), delta=0.05 * y.std())
                above = mean > np.median(mean)
                self.assertAlmostEqual(y[above].mean(), mean[above].mean(), delta=0.07 * y.std())

    def test_tails(self):
        u = np.array([-1.0, 0.0, 3.0])
        np.testing.assert_allclose(heavy_tails.BENDS["lognormal 2"](u), np.exp(2 * u))
        np.testing.assert_allclose(heavy_tails.BENDS["student 2"](u)[1], 0, atol=1e-12)
        np.testing.assert_allclose(heavy_tails.BENDS["pareto 1.5"](u)[1], 2 ** (2 / 3))
        zeros = heavy_tails.BENDS["80 % zeros"](np.random.default_rng(0).normal(size=10000))
        self.assertAlmostEqual((zeros == 0).mean(), 0.8, delta=0.02)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class ScoresTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        config = default_config("cell_attention")
        config.n_layers, config.d_model, config.n_heads, config.d_ff = 1, 32, 2, 32

        class Predictor:
            model = JointModel(config).eval()
            device = torch.device("cpu")

        cls.predictor = Predictor()

    def test_together_as_each_by_itself(self):
        splits = [plain_split(), plain_split(30), DAMAGES["one y"](plain_split(), np.random.default_rng(2))]
        questions = [corruption.Question(s, rule) for s in splits for rule in (PLAIN, RULE)]
        found = corruption.predict_all(self.predictor, questions)
        self.assertEqual(len(found), 4)  # the rules differ for one split only
        for question in questions:
            alone = corruption.predict(self.predictor, [question])[0]
            np.testing.assert_allclose(found[question.key].mean, alone.mean, rtol=1e-4, atol=1e-5)

    def test_page(self):
        split = plain_split()
        draws = [(name, change(split, np.random.default_rng(1)), None) for name, change in DAMAGES.items()]
        found = {"tables/made_up/40": corruption.score_draws(self.predictor, 2 * draws)}
        heavy = [("clean", *heavy_tails.split("y: pareto 1.5", 64, draw)) for draw in range(2)]
        found["heavy/y: pareto 1.5/64"] = corruption.score_draws(self.predictor, heavy)
        clean = found["tables/made_up/40"]["clean"]
        self.assertEqual(clean[BEFORE], clean[NOW])
        constant = found["tables/made_up/40"]["three constant columns"]
        self.assertEqual(constant[NOW], clean[NOW])
        self.assertNotEqual(constant[BEFORE], clean[BEFORE])
        page = corruption_report.page(found, corruption.SCORES)
        for rule in RULES:
            self.assertIn(f"| {rule} |", page)
        self.assertIn("| made_up | 40 |", page)


if __name__ == "__main__":
    unittest.main()
