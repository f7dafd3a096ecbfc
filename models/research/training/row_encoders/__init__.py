"""Row encoders by the name that config.json gives them.

A row encoder has two methods:
    fit(cells, y) -> state        once per context; cells of the context's rows, y [B, N] z-scored
    encode(state, cells) -> [B, R, D]   each row by itself, given the state
so that a row's encoding never depends on other targets or on what a path has sampled.
"""

from __future__ import annotations

from torch import nn

from models.research.training.model_config import ModelConfig
from models.research.training.row_encoders.cell_attention import CellAttention
from models.research.training.row_encoders.cells import Cells
from models.research.training.row_encoders.feature_mean import FeatureMean
from models.research.training.row_encoders.slot_mlp import SlotMlp

__all__ = ["Cells", "make_row_encoder"]

ROW_ENCODERS: dict[str, type[nn.Module]] = {
    "feature_mean": FeatureMean,
    "slot_mlp": SlotMlp,
    "cell_attention": CellAttention,
}


def make_row_encoder(config: ModelConfig) -> nn.Module:
    if config.row_encoder not in ROW_ENCODERS:
        raise ValueError(f"row_encoder {config.row_encoder!r}; known: {sorted(ROW_ENCODERS)}")
    return ROW_ENCODERS[config.row_encoder](config)
