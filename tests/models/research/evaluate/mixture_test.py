"""Tests the scores of Gaussian mixtures by hand, by quadrature and by simulation."""

import math
import unittest

import required_packages  # noqa: F401
import numpy as np
from scipy.integrate import quad

from models.research.evaluate.mixture import Mixture

THREE = Mixture(
    np.array([[0.2, 0.5, 0.3]]), np.array([[-1.0, 0.3, 4.0]]), np.array([[0.5, 1.2, 0.1]])
)


class MixtureTest(unittest.TestCase):
    def test_density_of_a_standard_normal(self):
        mixture = Mixture.gaussian(np.zeros(2), np.ones(2))
        by_hand = [-0.5 * math.log(2 * math.pi), -0.5 * math.log(2 * math.pi) - 2.0]
        np.testing.assert_allclose(mixture.log_density(np.array([0.0, 2.0])), by_hand, atol=1e-12)

    def test_density_of_two_components_by_hand(self):
        mixture = Mixture(np.array([[0.25, 0.75]]), np.array([[0.0, 1.0]]), np.array([[1.0, 2.0]]))
        density = 0.25 * 0.3989422804 + 0.75 * 0.3989422804 / 2 * math.exp(-0.125)
        self.assertAlmostEqual(mixture.log_density(np.zeros(1))[0], math.log(density), places=9)

    def test_density_integrates_to_one_and_to_the_cdf(self):
        def density(y):
            return math.exp(THREE.log_density(np.array([y]))[0])

        whole, _ = quad(density, -20, 20, points=[3.5, 4.0, 4.5], limit=200)
        self.assertAlmostEqual(whole, 1.0, places=7)
        below, _ = quad(density, -20, 1.7, limit=200)
        self.assertAlmostEqual(THREE.cdf(np.array([1.7]))[0], below, places=7)

    def test_far_tail_is_finite(self):
        self.assertAlmostEqual(
            THREE.log_density(np.array([1e6]))[0], -0.5 * ((1e6 - 0.3) / 1.2) ** 2, delta=10
        )

    def test_crps_of_a_standard_normal_by_hand(self):
        # 2 phi(0) - 1 / sqrt(pi) at the centre (Gneiting and Raftery 2007).
        mixture = Mixture.gaussian(np.zeros(1), np.ones(1))
        by_hand = 2 / math.sqrt(2 * math.pi) - 1 / math.sqrt(math.pi)
        self.assertAlmostEqual(mixture.crps(np.zeros(1))[0], by_hand, places=12)

    def test_crps_by_quadrature(self):
        for y in (-3.0, 0.4, 3.9, 7.0):

            def squared(z, y=y):
                return (THREE.cdf(np.array([z]))[0] - (z >= y)) ** 2

            integral, _ = quad(squared, -15, 15, points=[y, 3.7, 4.0, 4.3], limit=400)
            self.assertAlmostEqual(THREE.crps(np.array([y]))[0], integral, places=6)

    def test_crps_of_a_sure_answer_is_the_absolute_error(self):
        mixture = Mixture.gaussian(np.array([2.0]), np.array([1e-9]))
        self.assertAlmostEqual(mixture.crps(np.array([-1.0]))[0], 3.0, places=7)

    def test_intervals_cover_what_they_say(self):
        random = np.random.default_rng(0)
        count = 40000
        component = random.choice(3, size=count, p=THREE.weight[0])
        y = random.normal(THREE.mean[0][component], THREE.std[0][component])
        many = Mixture(
            *(np.broadcast_to(part, (count, 3)) for part in (THREE.weight, THREE.mean, THREE.std))
        )
        for level in (0.5, 0.9):
            self.assertAlmostEqual(many.covers(y, level).mean(), level, delta=0.01)

    def test_too_narrow_intervals_cover_less(self):
        y = np.random.default_rng(0).normal(size=10000)
        narrow = Mixture.gaussian(np.zeros(10000), np.full(10000, 0.5))
        self.assertAlmostEqual(narrow.covers(y, 0.9).mean(), 0.589, delta=0.02)

    def test_point_is_the_mean(self):
        self.assertAlmostEqual(THREE.point()[0], -0.2 + 0.15 + 1.2)


if __name__ == "__main__":
    unittest.main()
