"""The golden files of the default model: what the training code says, about the tables meant."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[3] / "golden"

try:
    import numpy as np
    import torch
    from safetensors import safe_open

    sys.path.insert(0, str(GOLDEN))
    import make_default_model
    from models.research.training.predictor import Predictor
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch, pandas or statsmodels is not installed")
class DefaultModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.tables = make_default_model.golden_tables()
        cls.files = {
            name: safe_open(GOLDEN / "default_model" / f"{name}.safetensors", "numpy")
            for name in cls.tables
        }

    def test_files_are_of_the_model_that_is_shipped(self) -> None:
        digest = make_default_model.model_digest(make_default_model.MODEL)
        for name, file in self.files.items():
            with self.subTest(name):
                self.assertEqual(file.metadata()["model_digest"], digest, "make them again")

    def test_files_hold_the_tables(self) -> None:
        for name, file in self.files.items():
            table = self.tables[name]
            for field in ("context_x", "context_y", "target_x", "target_y"):
                with self.subTest(name, field=field):
                    np.testing.assert_array_equal(file.get_tensor(field), getattr(table, field))

    def test_the_training_code_says_so(self) -> None:
        predictor = Predictor(make_default_model.MODEL, dtype=torch.float64)
        for name, file in self.files.items():
            path_y = file.get_tensor("path_y")
            found = make_default_model.expected(predictor, self.tables[name], path_y)
            for tensor, values in found.items():
                with self.subTest(name, tensor=tensor):
                    np.testing.assert_allclose(
                        values, file.get_tensor(tensor), rtol=1e-6, atol=1e-6
                    )

    def test_float32_is_close_to_float64(self) -> None:
        predictor = Predictor(make_default_model.MODEL, dtype=torch.float32)
        for name, table in self.tables.items():
            file = self.files[name]
            weight, mean, std = predictor.mixture(
                table.context_x, table.context_y, table.target_x, table.is_categorical
            )
            unit = table.context_y.std()
            parts = (("weight", weight, 1), ("mean", mean, unit), ("std", std, unit))
            for part, values, scale in parts:
                with self.subTest(name, part=part):
                    expected = file.get_tensor(f"alone_{part}")
                    np.testing.assert_allclose(values / scale, expected / scale, atol=1e-4, rtol=0)

    def test_there_are_categories_missing_cells_and_an_unknown_category(self) -> None:
        missing = [np.isnan(file.get_tensor("target_x")).sum() for file in self.files.values()]
        unread = [np.isnan(file.get_tensor("target_cells")).sum() for file in self.files.values()]
        self.assertGreater(max(missing), 0)
        self.assertGreater(max(np.subtract(unread, missing)), 0)
        context = [np.isnan(file.get_tensor("context_x")).sum() for file in self.files.values()]
        self.assertGreaterEqual(np.count_nonzero(context), 2)
        categorical = [table.is_categorical.any() for table in self.tables.values()]
        self.assertGreaterEqual(sum(categorical), 2)


if __name__ == "__main__":
    unittest.main()
