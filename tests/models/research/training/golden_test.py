"""The trunk reproduces what golden models expect, and step by step = teacher-forced."""

from __future__ import annotations

import unittest
from pathlib import Path

try:
    import torch
    from safetensors.torch import load_file

    from models.research.training.row_encoders import Cells
    from models.research.training.weight_file import load_model
except ImportError:
    torch = None

GOLDEN = Path(__file__).resolve().parents[3] / "golden"


@unittest.skipIf(torch is None, "PyTorch is not installed")
class GoldenTest(unittest.TestCase):
    def check(self, name: str, dtype: torch.dtype) -> None:
        folder = GOLDEN / name
        expected = load_file(folder / "expected.safetensors")
        model = load_model(folder, dtype)

        def cells(x: torch.Tensor) -> Cells:
            value = x.to(dtype)[None]
            return Cells(
                value,
                torch.zeros_like(value, dtype=torch.bool),
                torch.zeros(1, value.shape[-1], dtype=torch.bool),
            )

        y_target = expected["y_target"].to(dtype)  # [B, T]
        paths, count = y_target.shape
        encode = model.row_encoder.encode
        context = encode(None, cells(expected["x_context"]))
        targets = encode(None, cells(expected["x_target"])).expand(paths, -1, -1)
        context_y = expected["y_context"].to(dtype)[None]
        capacity = min(count, model.config.buffer_size)
        place = torch.arange(capacity)
        with torch.inference_mode():
            alone = model.trunk(
                context,
                context_y,
                targets[:1, :0],
                y_target[:1, :0],
                targets[:1],
                torch.zeros(count, dtype=torch.long),
            )
            path = model.trunk(
                context,
                context_y,
                targets[:, :capacity],
                y_target[:, :capacity],
                targets[:, :capacity],
                place,
            )
        density = path.log_density(expected["y_target"][:, :capacity])
        for ours, theirs in (
            (alone.mean[0], expected["point_mean"]),
            (alone.std[0], expected["point_std"]),
            (alone.log_weight[0].exp(), expected["point_weight"]),
            (path.mean, expected["mean"][:, :capacity]),
            (path.std, expected["std"][:, :capacity]),
            (path.log_weight.exp(), expected["weight"][:, :capacity]),
            (density, expected["log_density"][:, :capacity]),
        ):
            self.assertTrue(torch.isfinite(ours).all())
            # Relative where a far-off target has a log-density of hundreds.
            torch.testing.assert_close(ours.double(), theirs, atol=1e-4, rtol=1e-6)

    def test_base_float64(self) -> None:
        self.check("golden_base", torch.float64)

    def test_base_float32(self) -> None:
        self.check("golden_base", torch.float32)

    def test_tiny_float64(self) -> None:
        self.check("golden_tiny", torch.float64)


if __name__ == "__main__":
    unittest.main()
