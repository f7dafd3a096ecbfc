"""Tests exact conditioning of Gaussian processes against densities of the whole."""

import unittest

import required_packages  # noqa: F401
import numpy as np
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from models.research.evaluate import gaussian

KERNELS = (
    ConstantKernel(1.5) * RBF(0.7) + WhiteKernel(0.04),
    ConstantKernel(0.8) * Matern(1.3, nu=1.5) + WhiteKernel(0.2),
)


def _data(count):
    random = np.random.default_rng(count)
    return random.normal(size=(count, 2)), random.normal(size=count)


class GaussianTest(unittest.TestCase):
    def test_joint_density_is_that_of_all_over_that_of_the_context(self):
        for kernel in KERNELS:
            x, y = _data(20)
            whole = multivariate_normal(np.zeros(20), kernel(x)).logpdf(y)
            context = multivariate_normal(np.zeros(12), kernel(x[:12])).logpdf(y[:12])
            mean, covariance = gaussian.condition(kernel, x[:12], y[:12], x[12:])
            self.assertAlmostEqual(
                gaussian.log_density(mean, covariance, y[12:]), whole - context, places=6
            )

    def test_joint_density_is_the_product_of_its_steps(self):
        x, y = _data(15)
        mean, covariance = gaussian.condition(KERNELS[0], x[:10], y[:10], x[10:])
        steps = 0.0
        for i in range(10, 15):
            step = gaussian.condition(KERNELS[0], x[:i], y[:i], x[i : i + 1])
            steps += gaussian.log_density(*step, y[i : i + 1])
        self.assertAlmostEqual(gaussian.log_density(mean, covariance, y[10:]), steps, places=6)

    def test_marginals_are_those_of_scikit_learn(self):
        x, y = _data(20)
        for kernel in KERNELS:
            regressor = GaussianProcessRegressor(kernel, optimizer=None).fit(x[:12], y[:12])
            expected = regressor.predict(x[12:], return_std=True)
            mean, covariance = gaussian.condition(kernel, x[:12], y[:12], x[12:])
            np.testing.assert_allclose(mean, expected[0], atol=1e-7)
            np.testing.assert_allclose(np.sqrt(np.diag(covariance)), expected[1], atol=1e-7)

    def test_samples_have_the_covariance_of_the_kernel(self):
        x, random = _data(3)[0], np.random.default_rng(1)
        draws = np.stack([gaussian.sample(KERNELS[0], x, random) for _ in range(20000)])
        np.testing.assert_allclose(np.cov(draws.T), KERNELS[0](x), atol=0.06)


if __name__ == "__main__":
    unittest.main()
