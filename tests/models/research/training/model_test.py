"""What the model must not depend on: later targets, other targets, the order of columns."""

from __future__ import annotations

import unittest

try:
    import torch

    from models.research.training.model import JointModel
    from models.research.training.model_config import ModelConfig, default_config
    from models.research.training.row_encoders import Cells
except ImportError:
    torch = None


def small_config(row_encoder: str) -> ModelConfig:
    config = default_config(row_encoder)
    config.n_layers, config.d_model, config.n_heads, config.d_ff = 2, 32, 2, 48
    config.buffer_size, config.num_components = 8, 4
    return config


def random_cells(rows: int, features: int) -> Cells:
    missing = torch.rand(2, rows, features) < 0.2
    value = torch.randn(2, rows, features, dtype=torch.float64).masked_fill(missing, 0.0)
    return Cells(value, missing, torch.rand(2, features) < 0.3)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class ModelTest(unittest.TestCase):
    CONTEXT, BUFFER, OTHERS, FEATURES = 11, 6, 3, 5

    def setUp(self) -> None:
        torch.manual_seed(3)

    def forward(self, model: JointModel, context: Cells, y, rows: Cells, buffer_y):
        with torch.inference_mode():
            return model(context, y, rows, buffer_y)

    def task(self) -> tuple[Cells, torch.Tensor, Cells, torch.Tensor]:
        context = random_cells(self.CONTEXT, self.FEATURES)
        rows = random_cells(self.BUFFER + self.OTHERS, self.FEATURES)
        rows = rows._replace(categorical=context.categorical)
        y = torch.randn(2, self.CONTEXT, dtype=torch.float64)
        return context, y, rows, torch.randn(2, self.BUFFER, dtype=torch.float64)

    def models(self):
        for name in ("slot_mlp", "cell_attention"):
            model = JointModel(small_config(name)).double().eval()
            if name == "cell_attention":
                torch.nn.init.normal_(model.row_encoder.direct.weight)  # 0 before training
            yield name, model

    def test_a_target_sees_the_rows_before_it_and_no_others(self) -> None:
        context, y, rows, buffer_y = self.task()
        for name, model in self.models():
            before, alone = self.forward(model, context, y, rows, buffer_y)
            for place in range(self.BUFFER):
                changed = buffer_y.clone()
                changed[:, place] += 1.0
                after, alone_after = self.forward(model, context, y, rows, changed)
                same = (after.mean == before.mean).flatten(2).all(dim=2)
                with self.subTest(encoder=name, place=place):
                    self.assertTrue(same[:, : place + 1].all())
                    self.assertFalse(same[:, place + 1 :].any())
                    self.assertTrue(torch.equal(alone.mean, alone_after.mean))

    def test_step_by_step_is_teacher_forced(self) -> None:
        context, y, rows, buffer_y = self.task()
        for name, model in self.models():
            forced, _ = self.forward(model, context, y, rows, buffer_y)
            state = model.row_encoder.fit(context, y)
            encoded = model.row_encoder.encode(state, rows)
            for place in range(self.BUFFER):
                step = model.trunk(
                    model.row_encoder.encode(state, context),
                    y,
                    encoded[:, :place],
                    buffer_y[:, :place],
                    encoded[:, place : place + 1],
                    torch.tensor([place]),
                )
                with self.subTest(encoder=name, place=place):
                    torch.testing.assert_close(step.mean[:, 0], forced.mean[:, place])

    def test_step_zero_is_an_independent_target(self) -> None:
        context, y, rows, buffer_y = self.task()
        for _, model in self.models():
            path, _ = self.forward(model, context, y, rows, buffer_y)
            _, alone = self.forward(model, context, y, rows, buffer_y[:, :0])
            torch.testing.assert_close(path.mean[:, 0], alone.mean[:, 0])

    def test_order_of_context_rows_does_not_matter(self) -> None:
        context, y, rows, buffer_y = self.task()
        order = torch.randperm(self.CONTEXT)
        shuffled = Cells(context.value[:, order], context.missing[:, order], context.categorical)
        for name, model in self.models():
            first, _ = self.forward(model, context, y, rows, buffer_y)
            second, _ = self.forward(model, shuffled, y[:, order], rows, buffer_y)
            with self.subTest(encoder=name):
                torch.testing.assert_close(first.mean, second.mean)

    def test_columns_differ_by_their_identities_alone(self) -> None:
        """cell_attention: permuting the columns together with their identities changes nothing;
        permuting them alone does."""
        context, y, rows, buffer_y = self.task()
        model = JointModel(small_config("cell_attention")).double().eval()
        first, _ = self.forward(model, context, y, rows, buffer_y)
        order = torch.tensor([3, 0, 4, 1, 2])

        def permuted(cells: Cells) -> Cells:
            return Cells(*(t[..., order] for t in cells))

        moved, _ = self.forward(model, permuted(context), y, permuted(rows), buffer_y)
        self.assertGreater((moved.mean - first.mean).abs().max().item(), 1e-6)
        with torch.no_grad():
            identity = model.row_encoder.column_id
            identity[: len(order)] = identity[order].clone()
        both, _ = self.forward(model, permuted(context), y, permuted(rows), buffer_y)
        torch.testing.assert_close(both.mean, first.mean)

    def test_a_row_is_encoded_alone(self) -> None:
        context, y, rows, _ = self.task()
        for name, model in self.models():
            encoder = model.row_encoder
            state = encoder.fit(context, y)
            together = encoder.encode(state, rows)
            for place in range(rows.value.shape[1]):
                alone = encoder.encode(state, rows.rows(place, place + 1))
                with self.subTest(encoder=name, place=place):
                    torch.testing.assert_close(alone[:, 0], together[:, place])

    def test_a_missing_cell_is_not_a_mean_cell(self) -> None:
        context, y, rows, _ = self.task()
        for name, model in self.models():
            state = model.row_encoder.fit(context, y)
            value = rows.value.clone()
            value[:, :, 0] = 0.0
            missing = rows.missing.clone()
            missing[:, :, 0] = False
            present = model.row_encoder.encode(state, Cells(value, missing, rows.categorical))
            missing[:, :, 0] = True
            absent = model.row_encoder.encode(state, Cells(value, missing, rows.categorical))
            with self.subTest(encoder=name):
                self.assertGreater((present - absent).abs().amin(dim=1).max().item(), 1e-6)

    def test_a_gate_opens_its_column(self) -> None:
        """cell_attention: where all gates are shut the sum of cells is nothing; where one is open
        it is that column's cell."""
        context, y, rows, _ = self.task()
        encoder = JointModel(small_config("cell_attention")).double().eval().row_encoder
        embedded = encoder.embed(rows)
        gates = torch.zeros(2, self.FEATURES, embedded.shape[-1], dtype=torch.float64)
        self.assertEqual(encoder.weighted_sum(embedded, gates).abs().max().item(), 0.0)
        gates[:, 3] = 2.0
        torch.testing.assert_close(encoder.weighted_sum(embedded, gates), 2.0 * embedded[:, 3])
        state = encoder.fit(context, y)
        closed = encoder.encode(state, rows)
        torch.nn.init.normal_(encoder.direct.weight)
        opened = encoder.encode(state, rows)
        self.assertGreater((opened - closed).abs().amax(dim=2).min().item(), 1e-3)

    def test_a_hundred_features(self) -> None:
        context, rows = random_cells(9, 100), random_cells(4, 100)
        rows = rows._replace(categorical=context.categorical)
        y, buffer_y = torch.randn(2, 9).double(), torch.randn(2, 2).double()
        for _, model in self.models():
            path, alone = self.forward(model, context, y, rows, buffer_y)
            self.assertTrue(torch.isfinite(path.mean).all() and torch.isfinite(alone.mean).all())


if __name__ == "__main__":
    unittest.main()
