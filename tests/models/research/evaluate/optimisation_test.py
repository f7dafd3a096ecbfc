"""Tests the comparison of optimisers: the function, the candidates, and what is counted."""

import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import optimisation


class OptimisationTest(unittest.TestCase):
    def test_the_minima_of_the_function(self):
        points = np.array([[-np.pi, 12.275], [np.pi, 2.275], [9.42478, 2.475]])
        np.testing.assert_allclose(optimisation.branin(points), optimisation.MINIMUM, atol=1e-5)

    def test_candidates_are_in_the_domain_and_half_of_them_are_near_the_best(self):
        random = np.random.default_rng(1)
        points = optimisation.uniform(random, 50)
        values = optimisation.branin(points)
        batches = optimisation.candidates(points, values, random, 2000)
        self.assertEqual(batches.shape, (2000, 4, 2))
        self.assertTrue(((batches >= optimisation.LOW) & (batches <= optimisation.HIGH)).all())
        best = points[np.argsort(values)[:4]]
        steps = (batches[:, :, None] - best) / (optimisation.HIGH - optimisation.LOW)
        near = (np.abs(steps) < 3 * optimisation.NEAR).all(axis=-1).any(axis=-1).mean()
        self.assertGreater(near, 0.5)
        self.assertLess(near, 0.75)

    def test_a_method_that_knows_the_minimum_has_no_regret(self):
        def knows(points, values, random):
            return np.full((4, 2), [np.pi, 2.275])

        regrets, seconds = optimisation.run(knows, 0, 3)
        self.assertEqual((len(regrets), len(seconds)), (4, 3))
        self.assertGreater(regrets[0], 0.1)
        np.testing.assert_allclose(regrets[1:], 0.0, atol=1e-5)

    def test_random_batches_depend_on_the_seed_alone(self):
        one, again, other = (optimisation.run(optimisation.at_random, s, 5)[0] for s in (1, 1, 2))
        np.testing.assert_array_equal(one, again)
        self.assertTrue((np.diff(one) <= 0.0).all())
        self.assertFalse((one == other).all())


if __name__ == "__main__":
    unittest.main()
