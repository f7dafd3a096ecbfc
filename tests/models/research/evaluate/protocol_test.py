"""Tests that every method gets the same rows, and that no target row leaks into a context."""

import dataclasses
import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import protocol, scores, series, synthetic
from models.research.evaluate.cells import PARTS, of_part
from models.research.evaluate.tables import Table


def _numbered(rows):
    """A table whose first feature and target both number the rows; the second is a category."""
    number = np.arange(rows, dtype=np.float64)
    x = np.stack([number, number % 30], axis=1)
    return Table("numbered", x, np.array([False, True]), number)


class TableSplitTest(unittest.TestCase):
    def test_same_draw_twice_is_the_same(self):
        first, second = (protocol.split(_numbered(300), "64", 3) for _ in range(2))
        for field in dataclasses.fields(first):
            np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))

    def test_draws_differ(self):
        first, second = (protocol.split(_numbered(300), "64", draw) for draw in (0, 1))
        self.assertFalse(np.array_equal(first.context_y, second.context_y))

    def test_context_and_targets_share_no_row(self):
        for size in protocol.sizes(300):
            split = protocol.split(_numbered(300), size, 0)
            self.assertFalse(set(split.context_y) & set(split.target_y))
            self.assertEqual(len(set(split.context_y)), len(split.context_y))
            np.testing.assert_array_equal(split.target_x[:, 0], split.target_y)

    def test_contexts_are_nested_and_targets_the_same(self):
        small, large = (protocol.split(_numbered(400), size, 5) for size in ("64", "all"))
        np.testing.assert_array_equal(small.context_y, large.context_y[:64])
        np.testing.assert_array_equal(small.target_y, large.target_y)
        self.assertEqual(len(large.context_y), 400 - protocol.TARGETS)

    def test_sizes_that_fit(self):
        self.assertEqual(protocol.sizes(31), [])
        self.assertEqual(protocol.sizes(51), ["16"])
        self.assertEqual(protocol.sizes(80), ["16", "64", "all"])
        self.assertEqual(protocol.sizes(272), ["16", "64", "256", "all"])

    def test_fewer_targets_where_fewer_rows_are_left(self):
        self.assertEqual(len(protocol.split(_numbered(51), "16", 0).target_y), 35)

    def test_large_tables_are_cut(self):
        split = protocol.split(_numbered(6000), "all", 0)
        self.assertEqual(len(split.context_y), protocol.MAX_CONTEXT)

    def test_categories_outside_the_context_are_missing(self):
        split = protocol.split(_numbered(300), "16", 0)
        known = np.unique(split.context_y % 30)
        np.testing.assert_array_equal(np.unique(split.context_x[:, 1]), np.arange(len(known)))
        unseen = ~np.isin(split.target_y % 30, known)
        self.assertTrue(unseen.any())
        np.testing.assert_array_equal(np.isnan(split.target_x[:, 1]), unseen)
        np.testing.assert_array_equal(
            known[split.target_x[~unseen, 1].astype(int)], split.target_y[~unseen] % 30
        )

    def test_fingerprint_follows_the_content(self):
        table = _numbered(50)
        changed = dataclasses.replace(table, y=table.y + (np.arange(50) == 7))
        self.assertNotEqual(protocol.fingerprint(table), protocol.fingerprint(changed))


class CellTest(unittest.TestCase):
    def test_cells_are_deterministic_and_finite(self):
        for part in PARTS:
            cell = of_part(part)[0]
            first, second = cell.split(1), cell.split(1)
            np.testing.assert_array_equal(first.target_y, second.target_y)
            self.assertTrue(np.isfinite(first.context_y).all())
            self.assertEqual(len(first.context_y), cell.rows())
            self.assertEqual(cell.fingerprint(), cell.fingerprint())

    def test_every_part_has_cells_of_other_data(self):
        every = [cell for part in PARTS for cell in of_part(part)]
        self.assertEqual(len(set(every)), len(every))

    def test_series_windows_cover_the_series_in_time_order(self):
        length = len(series.load("nile"))
        first, last = (series.split("nile", "16", draw) for draw in (0, 19))
        self.assertEqual(first.context_x[0, 0], 0)
        self.assertEqual(last.target_x[-1, 0], length - 1)
        self.assertTrue(first.ordered)
        np.testing.assert_array_equal(
            np.diff(np.concatenate([last.context_x, last.target_x])[:, 0]), 1
        )

    def test_forecast_targets_follow_the_context(self):
        split = synthetic.forecast_split("rough", "32", 0)
        np.testing.assert_array_equal(split.target_x[:, 0], np.arange(32, 48))


class BlockTest(unittest.TestCase):
    def test_blocks_are_disjoint_and_full(self):
        split = protocol.split(_numbered(300), "64", 0)
        blocks = scores.blocks(split, 16)
        self.assertEqual(len(blocks), scores.MAX_BLOCKS)
        self.assertEqual(len(set(np.concatenate(blocks))), 16 * scores.MAX_BLOCKS)
        self.assertEqual(scores.blocks(synthetic.forecast_split("rough", "8", 0), 17), [])

    def test_orders_are_permutations_the_same_each_time(self):
        split = protocol.split(_numbered(300), "64", 4)
        orders = scores.orders(split, 8)
        self.assertEqual(orders.shape, (scores.ORDERS, 8))
        np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(8), (16, 1)))
        np.testing.assert_array_equal(orders, scores.orders(split, 8))

    def test_series_are_scored_in_time_order(self):
        orders = scores.orders(synthetic.forecast_split("rough", "8", 0), 16)
        np.testing.assert_array_equal(orders, np.arange(16)[None])

    def test_log_mean_exp_over_orders_by_hand(self):
        mean, mixed = scores.of_joint(np.log([1.0, 3.0]), 2)
        self.assertAlmostEqual(mean, np.log(3.0) / 4)
        self.assertAlmostEqual(mixed, np.log(2.0) / 2)


if __name__ == "__main__":
    unittest.main()
