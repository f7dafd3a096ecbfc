"""Tests that the real tables are read as their sources say, and are fit for densities."""

import unittest

import required_packages  # noqa: F401
import numpy as np
import pandas as pd

from models.research.evaluate import protocol, tables


class TablesTest(unittest.TestCase):
    def test_every_table_is_complete_where_it_must_be(self):
        for name in tables.SOURCES:
            with self.subTest(name):
                table = tables.load(name)
                self.assertTrue(np.isfinite(table.y).all())
                self.assertAlmostEqual(table.y.mean(), 0, places=9)
                self.assertAlmostEqual(table.y.std(), 1, places=9)
                self.assertEqual(table.x.shape, (len(table.y), len(table.is_categorical)))
                self.assertFalse(np.isinf(table.x).any())
                self.assertTrue(protocol.sizes(len(table.y)))

    def test_no_target_has_a_large_atom(self):
        for name in tables.SOURCES:
            with self.subTest(name):
                _, counts = np.unique(tables.load(name).y, return_counts=True)
                self.assertLess(counts.max() / counts.sum(), 0.1)

    def test_no_feature_is_a_copy_of_the_target(self):
        for name in tables.SOURCES:
            table = tables.load(name)
            for f in range(table.x.shape[1]):
                present = ~np.isnan(table.x[:, f])
                column = table.x[present, f]
                if np.ptp(column) > 0:
                    correlation = np.corrcoef(column, table.y[present])[0, 1]
                    self.assertLess(abs(correlation), 0.99, f"{name}, column {f}")

    def test_categories_and_missing_cells_are_there(self):
        every = [tables.load(name) for name in tables.SOURCES]
        self.assertGreaterEqual(sum(table.is_categorical.any() for table in every), 5)
        self.assertGreaterEqual(sum(np.isnan(table.x).any() for table in every), 3)
        for table in every:
            codes = table.x[:, table.is_categorical]
            codes = codes[~np.isnan(codes)]
            np.testing.assert_array_equal(codes, np.round(codes))


class ReadingTest(unittest.TestCase):
    def test_a_frame_by_hand(self):
        frame = pd.DataFrame(
            {
                "id": [1, 2, 3, 4],
                "size": [1.5, None, 2.5, 9.0],
                "kind": ["b", "a", None, "c"],
                "y": [1.0, 3.0, 5.0, None],
            }
        )
        source = tables.Source("t", lambda: frame, "y", "", "", leave_out=("id",))
        table = tables.from_frame(source, frame)
        np.testing.assert_array_equal(table.x, [[1.5, 1.0], [np.nan, 0.0], [2.5, np.nan]])
        np.testing.assert_array_equal(table.is_categorical, [False, True])
        np.testing.assert_allclose(table.y, np.array([-1.0, 0.0, 1.0]) * np.sqrt(1.5))

    def test_rounded_targets_become_continuous_and_stay_in_their_step(self):
        frame = pd.DataFrame({"x": range(600), "y": [float(i % 3) for i in range(600)]})
        source = tables.Source("t", lambda: frame, "y", "", "", rounding=1.0)
        y = tables.from_frame(source, frame).y
        self.assertEqual(len(np.unique(y)), 600)
        np.testing.assert_array_equal(y, tables.from_frame(source, frame).y)
        self.assertLess(y[0::3].max(), y[1::3].min())
        self.assertLess(y[1::3].max(), y[2::3].min())


if __name__ == "__main__":
    unittest.main()
