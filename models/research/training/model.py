"""The whole model: row encoder and trunk."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.research.training.mixture import Mixture
from models.research.training.model_config import ModelConfig
from models.research.training.row_encoders import Cells, make_row_encoder
from models.research.training.row_encoders.cell_attention import AttentionBlock, CellAttention
from models.research.training.trunk import Layer, Trunk


class JointModel(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.row_encoder = make_row_encoder(config)
        self.trunk = Trunk(config)

    def forward(
        self, context: Cells, context_y: Tensor, rows: Cells, buffer_y: Tensor
    ) -> tuple[Mixture, Mixture]:
        """Teacher forcing, as in training.

        context [B, N, F] with y [B, N]; rows [B, m + q, F], of which the first m have buffer_y
        [B, m]. Returns the mixtures of the first m rows, each given the context and the rows before
        it, [B, m, M], and of the other q rows, given the context alone, [B, q, M].
        """
        m, total = buffer_y.shape[1], rows.value.shape[1]
        state = self.row_encoder.fit(context, context_y)
        both = Cells(
            torch.cat([context.value, rows.value], dim=1),
            torch.cat([context.missing, rows.missing], dim=1),
            context.categorical,
        )
        n = context_y.shape[1]
        encoded = self.row_encoder.encode(state, both)
        prefixes = torch.zeros(total, dtype=torch.long, device=buffer_y.device)
        prefixes[:m] = torch.arange(m, device=buffer_y.device)
        mixture = self.trunk(
            encoded[:, :n],
            context_y,
            encoded[:, n : n + m],
            buffer_y,
            encoded[:, n:],
            prefixes,
        )
        return Mixture(*(t[:, :m] for t in mixture)), Mixture(*(t[:, m:] for t in mixture))


def compile_model(model: JointModel) -> None:
    """Compiles the trunk's layers, and of the row encoder what is done to each cell by itself: its
    attention comes in too many shapes. Modules of one kind share the compiled code."""
    torch._dynamo.config.recompile_limit = 64  # modules differ in the types of what they get
    for kind, names in (
        (Layer, ("begin", "pass_on", "finish")),
        (AttentionBlock, ("project_query", "project_memory", "project_self", "finish")),
        (CellAttention, ("embed_cells", "embed_target", "weighted_sum", "join")),
    ):
        for name in names:
            compiled = torch.compile(getattr(kind, name), dynamic=True)
            for module in model.modules():
                if isinstance(module, kind):
                    setattr(module, name, compiled.__get__(module))
