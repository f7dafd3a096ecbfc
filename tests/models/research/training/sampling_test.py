"""Paths drawn row by row see what teacher forcing shows; snapped values are those of the context."""

from __future__ import annotations

import tempfile
import unittest

try:
    import numpy as np
    import torch

    from models.research.training import sampling
    from models.research.training.model import JointModel
    from models.research.training.model_config import default_config
    from models.research.training.predictor import Predictor
    from models.research.training.weight_file import save_weights
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class SamplingTest(unittest.TestCase):
    TABLES, ROWS, TARGETS, PATHS = 3, 12, 5, 4

    @classmethod
    def setUpClass(cls) -> None:
        torch.manual_seed(4)
        config = default_config("cell_attention")
        config.n_layers, config.d_model, config.n_heads, config.d_ff = 2, 32, 2, 48
        with tempfile.TemporaryDirectory() as folder:
            config.save(folder)
            save_weights(JointModel(config).state_dict(), folder, torch.float32)
            predictor = Predictor(folder, dtype=torch.float64)
        random = np.random.default_rng(1)
        x = random.normal(size=(cls.TABLES, cls.ROWS + cls.TARGETS, 3))
        y = random.poisson(1.0, (cls.TABLES, cls.ROWS)).astype(np.float64)
        known = x[:, : cls.ROWS]
        cls.contexts = [predictor.encode(a, b) for a, b in zip(known, y, strict=True)]
        cls.target_x = list(x[:, cls.ROWS :])
        cls.y = y
        with torch.inference_mode():
            cls.tables = sampling.Tables(predictor, cls.contexts, cls.target_x)

    @torch.inference_mode()
    def test_each_row_is_given_those_before_it(self) -> None:
        drawn = sampling.sample(self.tables, self.PATHS, seed=2)
        self.assertEqual(drawn.shape, (self.TABLES, self.PATHS, self.TARGETS))
        paths, y = sampling.Paths(self.tables, self.PATHS), None
        steps = []
        for step in range(self.TARGETS):
            steps.append(paths.next(y))
            y = drawn[:, :, step]
        for index, (context, x) in enumerate(zip(self.contexts, self.target_x, strict=True)):
            rows = context.encode(x).expand(self.PATHS, -1, -1)
            expected = context.along(rows, drawn[index])
            for step, mixture in enumerate(steps):
                for part, of_all in zip(mixture, expected, strict=True):
                    torch.testing.assert_close(part[index], of_all[:, step])

    @torch.inference_mode()
    def test_alone_is_the_first_step_of_each(self) -> None:
        alone = self.tables.alone()
        for index, (context, x) in enumerate(zip(self.contexts, self.target_x, strict=True)):
            expected = context.alone(context.encode(x))
            torch.testing.assert_close(alone.mean[index], expected.mean)

    def test_draws_follow_their_mixture(self) -> None:
        mixture = sampling.Mixture(
            torch.log(torch.tensor([[0.2, 0.8]])).expand(20_000, -1),
            torch.tensor([[-3.0, 1.0]]).expand(20_000, -1),
            torch.tensor([[0.1, 0.5]]).expand(20_000, -1),
        )
        y = sampling.draw(mixture, torch.Generator().manual_seed(1))
        self.assertAlmostEqual((y < -2).double().mean().item(), 0.2, delta=0.01)
        self.assertAlmostEqual(y[y > -2].mean().item(), 1.0, delta=0.02)
        self.assertAlmostEqual(y[y > -2].std().item(), 0.5, delta=0.02)

    def test_snapped_paths_have_values_of_the_context(self) -> None:
        drawn = self.tables.in_units(sampling.sample(self.tables, self.PATHS, 3, snaps=True))
        for values, known in zip(drawn, self.y, strict=True):
            self.assertLess(np.abs(values[..., None] - known).min(axis=-1).max(), 1e-9)

    def test_values_that_occur_once_draw_nothing_in(self) -> None:
        snap = sampling.Snap(torch.tensor([[0.0, 0.0, 0.0, 5.0, 7.0, 9.0], [0, 0, 1, 1, 2, 2]]).double())
        y = torch.tensor([[0.4, 2.0, 5.4, 8.5], [-3.0, 0.7, 1.4, 9.0]]).double()
        expected = torch.tensor([[0.0, 0.0, 5.4, 8.5], [0.0, 1.0, 1.0, 2.0]]).double()
        torch.testing.assert_close(snap(y), expected)


if __name__ == "__main__":
    unittest.main()
