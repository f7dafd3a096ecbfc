"""How much a run does per second, in tasks and in the model's floating-point operations."""

from __future__ import annotations

import time

from models.research.training.model_config import ModelConfig
from models.research.training.prior.tasks import BatchShape


def forward_flops(config: ModelConfig, shape: BatchShape) -> float:
    """Multiplications and additions of one forward pass; matrix products and attention alone."""
    d, n = config.d_model, shape.context
    tokens = shape.rows + shape.buffer
    row = 6 * d * d + 2 * d * config.d_ff  # folded feature attention, Q, K, V, O, feed-forward
    queries = shape.buffer * 2 + shape.independent
    attention = n * n + queries * (n + shape.buffer)
    trunk = config.n_layers * 2 * (tokens * row + 2 * d * attention)
    return shape.tasks * (trunk + encoder_flops(config, shape))


def encoder_flops(config: ModelConfig, shape: BatchShape) -> float:
    e, rows, f, n = config.encoder_width, shape.rows, shape.features, shape.context
    if config.row_encoder == "slot_mlp":
        return 2 * rows * (4 * f * e + e * e + e * config.d_model)
    points, pooled = config.encoder_induced_points, config.encoder_pooled_tokens
    block = 8 * e * e  # Q, K, V, O and a feed-forward layer of twice the width
    per_row = f * (17 * e + 6 * e * e + 2 * e * points)  # reading the column
    per_row += config.encoder_row_layers * f * (block + 2 * e * f)
    per_row += f * e + e * config.d_model  # the gated sum
    per_row += f * 2 * e * e + pooled * (6 * e * e + 2 * e * f + e * config.d_model)
    per_context_cell = 2 * e * e + 2 * e * points
    return 2 * (rows * per_row + n * f * per_context_cell)


class Throughput:
    def __init__(self, config: ModelConfig, world: int):
        self.config, self.world = config, world
        self.begin = time.monotonic()
        self.tasks = self.steps = 0
        self.flops = 0.0

    def add(self, shape: BatchShape) -> None:
        self.steps += 1
        self.tasks += shape.tasks
        self.flops += 3 * forward_flops(self.config, shape)  # backward is twice forward

    def summary(self) -> dict[str, float]:
        """Of all processes together, which have batches of equal cost on average."""
        seconds = time.monotonic() - self.begin
        return {
            "steps_per_second": round(self.steps / seconds, 2),
            "tasks_per_second": round(self.world * self.tasks / seconds, 1),
            "teraflops": round(self.world * self.flops / seconds / 1e12, 2),
        }
