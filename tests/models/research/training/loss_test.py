"""The loss of tasks whose target has a frequent value: no narrower than it has to be, and weighed."""

from __future__ import annotations

import unittest

try:
    import torch

    from models.research.training.loss import SPIKE_WIDTH, LossParts, batch_loss, widened
    from models.research.training.mixture import Mixture
    from models.research.training.model import JointModel
    from models.research.training.model_config import default_config
    from models.research.training.prior.generator import raw_tasks, scale_tasks
    from models.research.training.prior.randomness import Randomness
    from models.research.training.prior.tasks import CATEGORIES, BatchShape
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class LossTest(unittest.TestCase):
    SHAPE = BatchShape(4, 30, 8, 24, 2)

    def batch(self, *categories: str):
        made = [raw_tasks(Randomness(1, 0, 0, "cpu"), 4, self.SHAPE, name) for name in categories]
        return scale_tasks(made, self.SHAPE)

    def test_only_components_of_frequent_values_are_widened(self) -> None:
        batch = self.batch("gp", "spiked")
        std = torch.full((8, 5, 3), 1e-3)
        wide = widened(Mixture(std, std, std), batch).std
        torch.testing.assert_close(wide[:4], std[:4])
        torch.testing.assert_close(wide[4:], torch.full((4, 5, 3), SPIKE_WIDTH), atol=1e-4, rtol=0)

    def test_a_task_counts_by_its_weight(self) -> None:
        torch.manual_seed(1)
        config = default_config("cell_attention")
        config.n_layers = 1
        model = JointModel(config)

        def loss(batch) -> float:
            return batch_loss(model, batch, LossParts(torch.device("cpu"))).item()

        both = self.batch("gp", "tree")
        ones = torch.ones(4)
        first = loss(both._replace(weight=torch.cat([ones, 0 * ones])))
        second = loss(both._replace(weight=torch.cat([0 * ones, ones])))
        self.assertAlmostEqual(first, loss(self.batch("gp")), places=4)
        self.assertAlmostEqual(second, loss(self.batch("tree")), places=4)
        mixed = loss(both._replace(weight=torch.cat([3 * ones, ones])))
        self.assertAlmostEqual(mixed, 0.75 * first + 0.25 * second, places=2)

    def test_each_category_has_its_place_in_the_summary(self) -> None:
        parts = LossParts(torch.device("cpu"))
        torch.manual_seed(1)
        config = default_config("cell_attention")
        config.n_layers = 1
        batch_loss(JointModel(config), self.batch(*CATEGORIES), parts)
        for name in CATEGORIES:
            self.assertIn(f"{name}_path", parts.summary())


if __name__ == "__main__":
    unittest.main()
