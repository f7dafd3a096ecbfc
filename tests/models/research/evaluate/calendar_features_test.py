"""The arithmetic of the evaluation of calendar features."""

import datetime
import unittest

import required_packages  # noqa: F401

import numpy as np

from models.research.evaluate import calendar_features


class CalendarFeaturesTest(unittest.TestCase):
    def test_parts_of_a_moment(self):
        part = calendar_features.parts([datetime.datetime(2024, 2, 29, 18, 30)])
        self.assertEqual(part["weekday"], [3])
        self.assertEqual(part["weekday name"], ["Thu"])
        self.assertEqual((part["hour"], part["day"], part["month"]), ([18.5], [29], [2]))

    def test_forms_have_their_columns(self):
        random = np.random.default_rng(1)
        moments, others, y, known = calendar_features.daily("yearly monthend", (60,), random)
        self.assertEqual((len(moments), len(y), known), (74, 74, 60))
        columns = calendar_features.columns_of("day", ("day",), moments, others)
        self.assertEqual(list(columns), ["date", "day"])
        self.assertEqual(columns["date"][0], moments[0].date().isoformat())
        self.assertNotIn("date", calendar_features.columns_of("hand", ("index",), moments, others))

    def test_effects_are_in_the_tables(self):
        for kind, name in (("weekday", "weekday"), ("monthend", "day")):
            random = np.random.default_rng(2)
            moments, _, y, rows = calendar_features.irregular(kind, (730, 600), random)
            value = np.array(calendar_features.parts(moments)[name])[:rows]
            affected = value >= (5 if kind == "weekday" else 28)
            self.assertGreater(y[:rows][affected].mean() - y[:rows][~affected].mean(), 1)

    def test_crps(self):
        samples, y = np.array([[0.0, 1.0], [2.0, 5.0]]), np.array([1.0, 1.0])
        pairs = np.abs(samples[:, None] - samples[None, :]).mean(axis=(0, 1)) / 2
        expected = np.abs(samples - y).mean(axis=0) - pairs
        np.testing.assert_allclose(calendar_features.crps(samples, y), expected)


if __name__ == "__main__":
    unittest.main()
