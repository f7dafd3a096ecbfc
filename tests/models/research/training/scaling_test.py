"""Columns are scaled by their bulk: hand numbers, the vectors that the server is held to as well, and
no other bits than those of plain z-scoring where nothing lies outside the bulk."""

from __future__ import annotations

import json
import math
import unittest
from pathlib import Path

try:
    import numpy as np
    import torch

    from models.research.training.predictor import Table
    from models.research.training.prior.scaling import (
        PLAIN,
        RULE,
        ColumnScaling,
        ScalingRule,
        TargetScaling,
        find_bulk,
        masked_statistics,
        nearest,
        scale_cells,
        scale_target,
        squash,
    )
except ImportError:
    torch = None

VECTORS = Path(__file__).resolve().parents[3] / "golden" / "robust_scale.json"
NAN = float("nan")


def numbers(cells: list) -> torch.Tensor:
    """[N], NaN for null."""
    return torch.tensor([NAN if x is None else x for x in cells], dtype=torch.float64)


def column(cells: list) -> torch.Tensor:
    """[N, 1]."""
    return numbers(cells)[:, None]


def bulk_of(cells: list):
    return find_bulk(column(cells), -2)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class BulkTest(unittest.TestCase):
    def test_median_and_range_of_the_middle_half(self) -> None:
        bulk = bulk_of([5.0, 1.0, NAN, 2.0, 10.0])  # 1 2 5 10: quartiles 1.75 and 6.25
        self.assertEqual(bulk.median.item(), 3.5)
        self.assertAlmostEqual(bulk.scale.item(), 4.5 / 1.349)
        self.assertEqual(bulk_of([5.0, 1.0, 10.0]).median.item(), 5.0)
        self.assertFalse(bulk.all_but_constant.item() or bulk.constant.item())

    def test_the_others_set_the_scale_beside_an_atom(self) -> None:
        bulk = bulk_of([0.0] * 95 + [-3.0, 5.0, 10.0, 20.0, 50.0])  # quartiles 5 and 20, median 10
        self.assertAlmostEqual(bulk.scale.item(), 15 / 1.349)
        self.assertEqual((bulk.median.item(), bulk.low.item(), bulk.high.item()), (0.0, 0.0, 10.0))
        self.assertTrue(bulk.has_atom.item())
        self.assertFalse(bulk.all_but_constant.item())
        found = bulk.distance(column([-3.0, 0.0, 7.0, 10.0, 25.0]))[:, 0].tolist()
        for distance, expected in zip(found, [0.2698, 0, 0, 0, 1.349]):
            self.assertAlmostEqual(distance, expected)

    def test_up_to_three_atoms_are_set_aside(self) -> None:
        cells = [0.0] * 180 + [1.0] * 40 + [2.0] * 10 + [3.0, 4.0, 6.0]
        bulk = bulk_of(cells)  # 3, 4, 6: quartiles 3.5 and 5
        self.assertAlmostEqual(bulk.scale.item(), 1.5 / 1.349)
        self.assertEqual((bulk.low.item(), bulk.high.item()), (0.0, 4.0))
        bulk = bulk_of([0.0] * 700 + [1.0] * 160 + [2.0] * 40 + [3.0] * 9 + [4.0, 5.0])
        self.assertEqual(bulk.scale.item(), float("inf"))

    def test_two_values_have_nothing_far_outside(self) -> None:
        bulk = bulk_of([2.0] * 199 + [4.0, NAN])
        self.assertEqual(bulk.scale.item(), float("inf"))
        self.assertTrue(bulk.all_but_constant.item())
        self.assertFalse(bulk.constant.item())
        self.assertEqual(squash(column([1e9]), bulk, 8.0).item(), 1e9)

    def test_the_others_set_the_deviation_beside_an_atom(self) -> None:
        amounts = column([0.0] * 96 + [10.0, 20.0, 30.0, 40.0])
        scaling = ColumnScaling.fit(amounts, torch.tensor([False]))
        self.assertAlmostEqual(scaling.mean.item(), 1.0)
        self.assertAlmostEqual(scaling.std.item(), math.sqrt(125.0))
        far = column([0.0] * 60 + [1000.0, 1000.5, 1001.0, 1002.0] * 5)
        scaling = ColumnScaling.fit(far, torch.tensor([False]))
        self.assertGreater(scaling.std.item(), 400.0)  # that of all

    def test_constant_and_empty(self) -> None:
        for cells in ([7.0], [7.0, NAN, 7.0], [NAN, NAN]):
            bulk = bulk_of(cells)
            self.assertTrue(bulk.constant.item())
            self.assertFalse(bulk.all_but_constant.item())
            self.assertEqual(bulk.scale.item(), float("inf"))

    def test_squash(self) -> None:
        bulk = bulk_of([-1.349, -0.6745, 0.0, 0.6745, 1.349])
        self.assertAlmostEqual(bulk.scale.item(), 1.0)
        x = column([0.3, 4.9, -8.0, 8.5, -108.0, 1e300, NAN])
        found = squash(x, bulk, 8.0)[:, 0].tolist()
        self.assertEqual(found[:3], [0.3, 4.9, -8.0])
        self.assertAlmostEqual(found[3], 8 + math.log1p(0.5))
        self.assertAlmostEqual(found[4], -8 - math.log1p(100))
        self.assertAlmostEqual(found[5], 8 + 300 * math.log(10))
        self.assertTrue(math.isnan(found[6]))

    def test_nearest(self) -> None:
        bulk = bulk_of([0.0, NAN, 10.0, 4.0, 0.0])
        x = column([-1e9, 0.0, 2.0, 2.1, 6.9, 7.0, 7.1, 1e9, NAN])
        found = nearest(x, bulk, -2)[:, 0].tolist()
        self.assertEqual(found[:8], [0.0, 0.0, 0.0, 4.0, 4.0, 4.0, 10.0, 10.0])
        self.assertTrue(math.isnan(found[8]))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class VectorsTest(unittest.TestCase):
    def close(self, found: torch.Tensor, expected: list, missing: torch.Tensor | None = None) -> None:
        expected = numbers(expected)
        if missing is not None:
            self.assertEqual(missing.tolist(), torch.isnan(expected).tolist())
            expected = torch.nan_to_num(expected)
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-13)

    def test_all(self) -> None:
        vectors = json.loads(VECTORS.read_text())
        self.assertGreater(len(vectors), 20)
        for vector in vectors:
            with self.subTest(vector["name"]):
                if vector["kind"] == "target":
                    self.check_target(vector)
                else:
                    self.check_feature(vector)

    def check_target(self, vector: dict) -> None:
        rule = RULE._replace(target=vector["k"])
        scaling = TargetScaling.fit(numbers(vector["context"]), rule)
        self.close(scaling.context, vector["context_values"])
        self.close(scaling.values(numbers(vector["request"])), vector["request_values"])
        self.close(scaling.mean, [vector["mean"]])
        self.close(scaling.std, [vector["std"]])

    def check_feature(self, vector: dict) -> None:
        context, request = column(vector["context"]), column(vector["request"])
        categorical = torch.tensor([vector["kind"] == "categorical"])
        scaling = ColumnScaling.fit(context, categorical, RULE._replace(features=vector["k"]))
        self.assertEqual(scaling.says_nothing.item(), vector["left_out"])
        both = torch.cat([context, request])[None]
        cells = scale_cells(both, categorical[None], len(context))
        expected = vector["context_values"] + vector["request_values"]
        found = torch.cat([scaling.context, scaling.values(request)])[:, 0]
        self.close(found, expected, cells.missing[0, :, 0])
        if vector["k"] == RULE.features:
            value = torch.nan_to_num(numbers(expected)).float()
            torch.testing.assert_close(cells.value[0, :, 0], value)
        if not vector["left_out"]:
            bulk = scaling.bulk
            self.close(scaling.mean[0], [vector["mean"]])
            self.close(scaling.std[0], [vector["std"]])
            self.close(bulk.median[0], [vector["median"]])
            self.close(bulk.scale[0], [vector["scale"] or float("inf")])
            snaps = vector["constant_in_bulk"] and vector["kind"] == "numeric"
            self.assertEqual(scaling.snaps.item(), snaps)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class BitsTest(unittest.TestCase):
    """Against plain z-scoring, in both precisions and both layouts."""

    def tables(self):
        for seed in range(6):
            torch.manual_seed(seed)
            for dtype in (torch.float32, torch.float64):
                x = torch.rand(3, 90, 7, dtype=dtype) * 10 - 2
                x[:, :, 3] = (x[:, :, 3] > 4).to(dtype)
                x[1, ::7, 2] = NAN
                yield x

    def test_features(self) -> None:
        for x in self.tables():
            context = x[:, :60]
            mean, std = masked_statistics(context, ~torch.isnan(context), dim=1)
            plain = torch.where(torch.isnan(x), 0.0, (x - mean) / std).float()
            cells = scale_cells(x, torch.zeros(3, 7, dtype=torch.bool), 60)
            self.assertTrue(torch.equal(cells.value, plain))
            self.assertTrue(torch.equal(cells.missing, torch.isnan(x)))

    def test_features_of_a_single_table(self) -> None:
        for x in self.tables():
            table = x[0]
            mean, std = masked_statistics(table, ~torch.isnan(table), dim=0)
            scaling = ColumnScaling.fit(table, torch.zeros(7, dtype=torch.bool))
            self.assertTrue(torch.equal(scaling.mean, mean) and torch.equal(scaling.std, std))

    def test_target(self) -> None:
        for x in self.tables():
            y = x[:, :, 0]
            mean, std = masked_statistics(y[:, :60], torch.ones(3, 60, dtype=torch.bool), dim=1)
            found, found_std = scale_target(y, 60)
            self.assertTrue(torch.equal(found, ((y - mean) / std).float()))
            self.assertTrue(torch.equal(found_std, std))

    def test_the_plain_rule_changes_nothing_at_all(self) -> None:
        x = column([0.0] * 50 + [1e9, NAN])
        mean, std = masked_statistics(x, ~torch.isnan(x), dim=0)
        scaling = ColumnScaling.fit(x, torch.tensor([False]), PLAIN)
        self.assertTrue(torch.equal(scaling.mean, mean) and torch.equal(scaling.std, std))
        request = column([5.0, -1e10, NAN])
        expected = torch.where(torch.isnan(request), 0.0, (request - mean) / std)
        self.assertTrue(torch.equal(scaling.values(request), expected))
        constant = ColumnScaling.fit(column([2.0, 2.0]), torch.tensor([False]), PLAIN)
        self.assertEqual(constant.values(column([4.0])).item(), 1.0)

    def test_a_far_cell_changes_little(self) -> None:
        x = torch.randn(40, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        x[5] = 1e6
        bent = ColumnScaling.fit(x, torch.tensor([False]))
        plain = ColumnScaling.fit(x, torch.tensor([False]), PLAIN)
        others = torch.arange(40) != 5
        self.assertLess(plain.context[others].std().item(), 1e-4)
        self.assertGreater(bent.context[others].std().item(), 0.2)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class BatchTest(unittest.TestCase):
    def test_columns_that_say_nothing(self) -> None:
        """They stay in a batch: constant is 0, empty is missing, in all rows."""
        x = torch.randn(1, 9, 4)
        x[0, :5, 1] = 3.0
        x[0, :5, 2] = NAN
        x[0, :5, 3] = 3.0
        x[0, 2, 3] = x[0, 7, 3] = x[0, 7, 1] = NAN
        cells = scale_cells(x, torch.tensor([[False, False, False, False]]), 5)
        self.assertTrue((cells.value[0, :, 1:] == 0).all())
        self.assertTrue((cells.value[0, :, 0] != 0).all())
        self.assertFalse(cells.missing[0, :, :2].any())
        self.assertTrue(cells.missing[0, :, 2].all())
        self.assertEqual(cells.missing[0, :, 3].nonzero()[:, 0].tolist(), [2, 7])

    def test_known_values_of_targets_are_linear(self) -> None:
        y = torch.tensor([[-1.0, -0.5, 0.0, 0.5, 1.0, 0.2, 500.0, 400.0, -300.0]], dtype=torch.float64)
        values, std = scale_target(y, 7)
        step = values[0, 7] - values[0, 8]
        self.assertAlmostEqual(step.item() * std.item(), 700.0, places=2)
        self.assertLess(values[0, 6].item(), 3.0)

    def test_of_a_few_errors(self) -> None:
        """One in 50 values may be one, if it is far from all others."""
        for rows, far, drawn_in in ((51, 1, True), (51, 2, False), (100, 2, True), (120, 3, False)):
            y = torch.linspace(-1, 1, rows, dtype=torch.float64)
            y[-far:] = torch.tensor([1e4, 1e5, -1e6])[:far]
            scaling = TargetScaling.fit(y)
            with self.subTest(rows=rows, far=far):
                self.assertEqual(scaling.std.item() < 1, drawn_in)

    def test_a_heavy_tail_stays(self) -> None:
        y = torch.exp(torch.linspace(-5, 8, 80, dtype=torch.float64))
        scaling = TargetScaling.fit(y)
        self.assertEqual(scaling.mean.item(), y.mean().item())
        wrong = torch.cat([y, torch.tensor([1e7], dtype=torch.float64)])
        self.assertLess(TargetScaling.fit(wrong).context.max().item(), 1.1 * scaling.context.max().item())

    def test_squashing_of_targets(self) -> None:
        y = torch.arange(51, dtype=torch.float64)
        y[-2:] = 1e4
        for errors, changed in ((1, True), (50, False)):
            scaling = TargetScaling.fit(y, ScalingRule.squashing(8.0, 5.0, errors))
            self.assertEqual(scaling.std.item() < 100, changed)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TableTest(unittest.TestCase):
    def cells(self, x, request, categorical=None):
        table = Table(np.array(x), np.arange(len(x), dtype=float), categorical)
        kind = torch.device("cpu"), torch.float64
        return table.context_cells(*kind), table.cells(np.array(request), *kind)

    def test_columns_that_say_nothing_are_left_out(self) -> None:
        x = [[1.0, 5.0, NAN, 0.0], [2.0, 5.0, NAN, 0.0], [4.0, 5.0, NAN, 0.0]]
        context, request = self.cells(x, [[1.0, 9.0, 3.0, NAN]], [False, False, False, True])
        self.assertEqual(context.value.shape, (1, 3, 1))
        self.assertEqual(request.value[0, 0, 0], context.value[0, 0, 0])
        self.assertEqual(request.categorical.tolist(), [[False]])

    def test_one_column_is_kept(self) -> None:
        context, request = self.cells([[5.0, 1.0], [5.0, 1.0]], [[6.0, 1.0], [NAN, 1.0]])
        for cells in (context, request):
            self.assertEqual(cells.value.tolist(), [[[0.0], [0.0]]])
            self.assertFalse(cells.missing.any())


if __name__ == "__main__":
    unittest.main()
