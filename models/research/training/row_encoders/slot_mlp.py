"""A multilayer perceptron over padded feature slots: feature f takes slot f."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.research.training.model_config import ModelConfig
from models.research.training.row_encoders.cells import Cells, soft_clip

CELL_FEATURES = 4  # clipped value, missing, categorical, slot in use


class SlotMlp(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.slots = config.max_features
        hidden = config.encoder_width
        self.inputs = nn.Linear(self.slots * CELL_FEATURES, hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, config.layer_norm_eps)
        # Most slots are empty most of the time: start as if some sixteen were full.
        with torch.no_grad():
            self.inputs.weight.mul_((self.slots / 16) ** 0.5)

    def fit(self, cells: Cells, y: Tensor) -> None:
        return None

    def encode(self, state: None, cells: Cells) -> Tensor:
        """[B, R, F] cells -> [B, R, D]."""
        categorical = cells.categorical[:, None, :].expand_as(cells.value).float()
        features = torch.stack(
            [
                soft_clip(cells.value),
                cells.missing.to(cells.value.dtype),
                categorical,
                torch.ones_like(cells.value),
            ],
            dim=-1,
        )
        used = cells.value.shape[-1] * CELL_FEATURES
        # In float32: the first layer decides how finely values are told apart.
        with torch.autocast(features.device.type, enabled=False):
            x = F.linear(features.flatten(-2), self.inputs.weight[:, :used], self.inputs.bias)
        x = self.hidden(F.gelu(x))
        return self.norm(self.out(F.gelu(x)))
