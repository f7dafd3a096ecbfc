"""The reference architecture's encoder: the mean over features of a 1 -> D linear map."""

from __future__ import annotations

from torch import Tensor, nn

from models.research.training.model_config import ModelConfig
from models.research.training.row_encoders.cells import Cells


class FeatureMean(nn.Module):
    """It cannot tell features apart: here for parity with the golden models, not to be trained."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.x_embed = nn.Linear(1, config.d_model)

    def fit(self, cells: Cells, y: Tensor) -> None:
        return None

    def encode(self, state: None, cells: Cells) -> Tensor:
        return self.x_embed(cells.value.mean(dim=-1, keepdim=True))
