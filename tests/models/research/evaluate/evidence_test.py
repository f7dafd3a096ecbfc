"""Tests the marginal likelihood of the Gaussian-process baseline against scikit-learn's."""

import unittest

import required_packages  # noqa: F401
import numpy as np
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor

from models.research.evaluate.baselines import evidence

FAMILIES = [evidence.Family(shape, own) for shape in ("rbf", "matern32") for own in (False, True)]


def _case(family):
    random = np.random.default_rng(3)
    theta = 0.5 * random.normal(size=family.lengths(4) + 3)
    return theta, random.normal(size=(25, 4)), random.normal(size=25)


class EvidenceTest(unittest.TestCase):
    def test_value_is_that_of_scikit_learn(self):
        for family in FAMILIES:
            theta, x, y = _case(family)
            regressor = GaussianProcessRegressor(family.kernel(theta), optimizer=None).fit(x, y)
            self.assertAlmostEqual(
                evidence.log_likelihood(family, theta, x, y)[0],
                regressor.log_marginal_likelihood_value_,
                places=6,
            )

    def test_gradient_is_that_of_finite_differences(self):
        for family in FAMILIES:
            theta, x, y = _case(family)
            gradient = evidence.log_likelihood(family, theta, x, y)[1]

            def value(theta, family=family, x=x, y=y):
                return evidence.log_likelihood(family, theta, x, y)[0]

            np.testing.assert_allclose(gradient, approx_fprime(theta, value, 1e-6), atol=1e-4)

    def test_fit_finds_the_column_that_matters(self):
        random = np.random.default_rng(0)
        x = random.normal(size=(120, 3))
        y = np.sin(2 * x[:, 1]) + 0.1 * random.normal(size=120)
        theta = evidence.fit(evidence.Family("rbf", True), x, y / y.std())
        length, noise = np.exp(theta[1:4]), np.exp(theta[-1])
        self.assertEqual(length.argmin(), 1)
        self.assertGreater(np.delete(length, 1).min(), 5 * length[1])
        self.assertAlmostEqual(noise, 0.01 / y.var(), delta=0.01)


if __name__ == "__main__":
    unittest.main()
