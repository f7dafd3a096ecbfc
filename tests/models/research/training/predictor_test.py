"""Predictions in the user's units: scaling, categories, and that units do not matter."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import torch

    from models.research.training.model import JointModel
    from models.research.training.model_config import default_config
    from models.research.training.predictor import Predictor, Table
    from models.research.training.weight_file import save_weights
except ImportError:
    torch = None

SEASONS = Path(__file__).resolve().parents[3] / "golden" / "seasons.json"


def tiny_predictor(folder: str) -> Predictor:
    torch.manual_seed(4)
    config = default_config("cell_attention")
    config.n_layers, config.d_model, config.n_heads, config.d_ff = 2, 32, 2, 48
    config.save(folder)
    save_weights(JointModel(config).state_dict(), folder, torch.float32)
    return Predictor(folder, dtype=torch.float64)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class PredictorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.predictor = tiny_predictor(cls.folder.name)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def setUp(self) -> None:
        random = np.random.default_rng(0)
        self.x, self.target_x = random.normal(size=(30, 3)), random.normal(size=(5, 3))
        self.x[3, 1] = self.target_x[2, 0] = np.nan
        self.x[:, 2] = random.integers(0, 4, 30)
        self.target_x[:, 2] = random.integers(0, 4, 5)
        self.y, self.target_y = random.normal(size=30), random.normal(size=5)
        self.categorical = np.array([False, False, True])

    def mixture(self, x, y, target_x):
        return self.predictor.mixture(x, y, target_x, self.categorical)

    def joint(self, x, y, target_x, target_y, orders):
        return self.predictor.joint_log_density(x, y, target_x, target_y, orders, self.categorical)

    def test_weights_sum_to_one(self) -> None:
        weight, mean, std = self.mixture(self.x, self.y, self.target_x)
        self.assertEqual(weight.shape, (5, 20))
        np.testing.assert_allclose(weight.sum(axis=1), 1.0, rtol=1e-9)
        self.assertTrue((std > 0).all() and np.isfinite(mean).all())

    def test_units_do_not_matter(self) -> None:
        """x and y in other units: means move along, densities carry the Jacobian."""
        x, target_x = self.x.copy(), self.target_x.copy()
        x[:, :2], target_x[:, :2] = 1000 * x[:, :2] - 7, 1000 * target_x[:, :2] - 7
        x[:, 2], target_x[:, 2] = 10 + 5 * x[:, 2], 10 + 5 * target_x[:, 2]
        _, mean, std = self.mixture(self.x, self.y, self.target_x)
        _, mean_moved, std_moved = self.mixture(x, 50 + 20 * self.y, target_x)
        np.testing.assert_allclose(mean_moved, 50 + 20 * mean, rtol=1e-6)
        np.testing.assert_allclose(std_moved, 20 * std, rtol=1e-6)
        orders = np.array([[0, 1, 2, 3, 4], [4, 2, 0, 1, 3]])
        before = self.joint(self.x, self.y, self.target_x, self.target_y, orders)
        after = self.joint(x, 50 + 20 * self.y, target_x, 50 + 20 * self.target_y, orders)
        np.testing.assert_allclose(after, before - 5 * np.log(20), rtol=1e-6)

    def test_one_target_has_its_mixture_density(self) -> None:
        weight, mean, std = self.mixture(self.x, self.y, self.target_x[:1])
        z = (self.target_y[0] - mean[0]) / std[0]
        density = np.sum(weight[0] * np.exp(-0.5 * z**2) / std[0] / np.sqrt(2 * np.pi))
        order = np.array([[0]])
        joint = self.joint(self.x, self.y, self.target_x[:1], self.target_y[:1], order)
        np.testing.assert_allclose(joint, [np.log(density)], rtol=1e-9)

    def test_orders_are_taken_row_by_row(self) -> None:
        order = np.array([3, 1, 4, 0, 2])
        permuted = self.joint(
            self.x, self.y, self.target_x[order], self.target_y[order], np.arange(5)[None]
        )
        chosen = self.joint(self.x, self.y, self.target_x, self.target_y, order[None])
        np.testing.assert_allclose(chosen, permuted, rtol=1e-9)
        given = self.joint(self.x, self.y, self.target_x, self.target_y, np.arange(5)[None])
        self.assertGreater(abs(given[0] - chosen[0]), 1e-9)

    def test_an_unknown_category_is_a_missing_cell(self) -> None:
        unknown, missing = self.target_x.copy(), self.target_x.copy()
        unknown[:, 2], missing[:, 2] = 99.0, np.nan
        _, first, _ = self.mixture(self.x, self.y, unknown)
        _, second, _ = self.mixture(self.x, self.y, missing)
        np.testing.assert_array_equal(first, second)
        _, known, _ = self.mixture(self.x, self.y, self.target_x)
        self.assertGreater(np.abs(known - first).max(), 1e-9)

    def test_the_phase_of_a_season_is_the_last_column(self) -> None:
        device, dtype = torch.device("cpu"), torch.float64
        for vector in json.loads(SEASONS.read_text()):
            with self.subTest(vector["name"]):
                x = np.array([column["cells"] for column in vector["columns"]], dtype=np.float64).T
                kinds = np.array([column["categorical"] for column in vector["columns"]])
                dates = np.array([column.get("date", False) for column in vector["columns"]])
                y, expected = np.array(vector["y"]), vector["season"]
                without = Table(x, y, kinds)
                table = Table(x, y, kinds, seasons=True, max_features=x.shape[1] + 1, is_date=dates)
                width = len(without.kept) + (expected is not None)
                self.assertEqual(table.context_cells(device, dtype).value.shape[2], width)
                full = Table(x, y, kinds, seasons=True, max_features=x.shape[1], is_date=dates)
                self.assertEqual(len(full.kept), len(without.kept))
                if expected is None:
                    continue
                asked = np.full((len(vector["request"]), x.shape[1]), np.nan)
                asked[:, expected["column"]] = np.array(vector["request"], dtype=np.float64)
                cells = table.cells(asked, device, dtype)
                values = np.array(vector["request_values"], dtype=np.float64)
                missing = cells.missing[0, :, -1].numpy()
                np.testing.assert_array_equal(missing, np.isnan(values))
                np.testing.assert_allclose(cells.value[0, ~missing, -1], values[~missing], atol=1e-6)
                self.assertFalse(cells.categorical[0, -1])

    def test_a_season_is_told_unless_the_configuration_or_the_user_says_no(self) -> None:
        vector = next(v for v in json.loads(SEASONS.read_text()) if v["name"] == "64 rows, period 12")
        x, y = np.array([vector["columns"][0]["cells"]]).T, np.array(vector["y"])
        asked, model = x[:12] + 64, self.predictor.model
        told = self.predictor.mixture(x, y, asked)[1]
        try:
            self.predictor.seasons = False
            forbidden = self.predictor.mixture(x, y, asked)[1]
            self.predictor.seasons = True
            model.config = dataclasses.replace(model.config, season_column="none")
            np.testing.assert_array_equal(self.predictor.mixture(x, y, asked)[1], forbidden)
        finally:
            self.predictor.seasons = True
            model.config = dataclasses.replace(model.config, season_column="phase")
        self.assertGreater(np.abs(told - forbidden).max(), 1e-9)

    def test_too_many_targets_for_the_buffer(self) -> None:
        with self.assertRaisesRegex(ValueError, "65 targets"):
            self.joint(self.x, self.y, np.zeros((65, 3)), np.zeros(65), np.arange(65)[None])


if __name__ == "__main__":
    unittest.main()
