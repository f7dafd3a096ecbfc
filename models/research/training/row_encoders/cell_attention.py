"""Attention in columns, then in rows.

fit, per column: I learned points attend to the context's cells, each of which carries its value and
its row's y, and so summarise the column's distribution and its relation to y. One attention among
the columns lets each know the others. encode, per row: a cell attends to the I points of its
column, gets its column's identity, attends to the other cells of its row; P learned tokens pool the
cells, and a linear map makes them one D-vector. Every attention is the same block. Beside that goes
the sum of the cells as they were embedded, each times a gate that is its column's: a distance
between rows in which each column has its weight then needs nothing of the attention.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.research.training.base_free import as_matrix
from models.research.training.model_config import ModelConfig
from models.research.training.row_encoders.cells import (
    FREQUENCIES,
    VALUE_FEATURES,
    Cells,
    value_feature_scales,
    value_features,
)
from models.research.training.set_attention import attend_sets


class AttentionBlock(nn.Module):
    """x += Wo attend(Wq LN1(x), Wk LN1(m), Wv LN1(m));  x += W2 gelu(W1 LN2(x) + b1) + b2.
    The memory m is x itself when none is given. What is done to each row by itself is in functions
    of a [rows, E] matrix, so that a compiler sees one dynamic size."""

    def __init__(self, width: int, heads: int, eps: float):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps)
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width, eps)
        self.ff = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def project_query(self, x: Tensor) -> Tensor:
        return self.q_proj(self.norm1(x))

    def project_memory(self, m: Tensor) -> tuple[Tensor, Tensor]:
        m = self.norm1(m)
        return self.k_proj(m), self.v_proj(m)

    def project_self(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.norm1(x)
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out_proj(attended)
        return x + self.ff(self.norm2(x))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """x [S, n, E], or [n, E] the same in all sets, memory [S, k, E] -> [S, n, E]; S sets, each
        attending inside itself."""
        if memory is None:
            flat = as_matrix(x)
            q, k, v = (t.view(x.shape) for t in self.project_self(flat))
        else:
            q = self.project_query(as_matrix(x)).view(x.shape)
            x, q = (t.expand(len(memory), -1, -1) for t in (x, q))
            flat = as_matrix(x)
            k, v = (t.view(memory.shape) for t in self.project_memory(as_matrix(memory)))
        attended = attend_sets(q, k, v, self.heads)
        return self.finish(flat, as_matrix(attended)).view(x.shape)


class ColumnStates(NamedTuple):
    points: Tensor  # [B, F, I, E]
    gates: Tensor  # [B, F, E]


class CellAttention(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        width, eps = config.encoder_width, config.layer_norm_eps

        def block() -> AttentionBlock:
            return AttentionBlock(width, config.encoder_heads, eps)

        def learned(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape))

        self.cell = nn.Linear(VALUE_FEATURES + 2, width)  # value features, missing, categorical
        self.target = nn.Linear(VALUE_FEATURES, width, bias=False)
        self.column_id = learned(config.max_features, width)
        self.points = learned(config.encoder_induced_points, width)
        self.pooled = learned(config.encoder_pooled_tokens, width)
        self.summarise = block()
        self.mix_columns = block()
        self.read_column = block()
        self.row_layers = nn.ModuleList(block() for _ in range(config.encoder_row_layers))
        self.pool = block()
        self.gate = nn.Linear(width, width)
        self.direct = nn.Linear(width, config.d_model, bias=False)
        self.out_norm = nn.LayerNorm(width, eps)
        self.out = nn.Linear(config.encoder_pooled_tokens * width, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, eps)
        self.register_buffer("frequencies", torch.tensor(FREQUENCIES), persistent=False)
        scales = value_feature_scales()
        with torch.no_grad():
            self.direct.weight.zero_()
            self.cell.weight.normal_(std=0.5)
            self.cell.weight[:, :VALUE_FEATURES] *= scales
            self.target.weight.normal_(std=0.5)
            self.target.weight *= scales

    def embed_cells(self, value: Tensor, missing: Tensor, categorical: Tensor) -> Tensor:
        """[n, 1] each -> [n, E], in float32."""
        with torch.autocast(value.device.type, enabled=False):
            features = torch.cat(
                [
                    value_features(value[:, 0], self.frequencies) * ~missing,
                    missing.to(value.dtype),
                    categorical.to(value.dtype),
                ],
                dim=-1,
            )
            return self.cell(features)

    def embed_target(self, y: Tensor) -> Tensor:
        """[n, 1] -> [n, E], in float32."""
        with torch.autocast(y.device.type, enabled=False):
            return self.target(value_features(y[:, 0], self.frequencies))

    def embed(self, cells: Cells) -> Tensor:
        """[B, F, R, E], columns first: the column stage comes first."""
        value, missing = (t.transpose(1, 2)[..., None] for t in cells[:2])
        categorical = cells.categorical[:, :, None, None].expand_as(missing)
        flat = self.embed_cells(as_matrix(value), as_matrix(missing), as_matrix(categorical))
        return flat.view(*value.shape[:3], -1)

    def fit(self, cells: Cells, y: Tensor) -> ColumnStates:
        embedded = self.embed(cells)
        b, f, n, width = embedded.shape
        embedded = embedded + self.embed_target(as_matrix(y[..., None])).view(b, 1, n, width)
        points = self.summarise(self.points, embedded.view(b * f, n, width))
        points = points.view(b, f, -1, width)
        column = points.mean(dim=2) + self.column_id[:f]
        column = self.mix_columns(column)
        return ColumnStates(points + column[:, :, None], self.gate(column))

    def encode(self, state: ColumnStates, cells: Cells) -> Tensor:
        """[B, R, F] cells -> [B, R, D]."""
        embedded = self.embed(cells)
        b, f, r, width = embedded.shape
        read = self.read_column(
            embedded.view(b * f, r, width), state.points.reshape(b * f, -1, width)
        )
        x = read.view(b, f, r, width) + self.column_id[:f, None]
        x = x.transpose(1, 2).reshape(b * r, f, width)
        for layer in self.row_layers:
            x = layer(x)
        pooled = self.pool(self.pooled, x).flatten(-2)
        summed = self.weighted_sum(embedded, state.gates)
        return self.join(as_matrix(pooled), as_matrix(summed)).view(b, r, -1)

    def join(self, pooled: Tensor, summed: Tensor) -> Tensor:
        """Of rows: what was pooled [rows, P E] and the gated sum [rows, E] -> [rows, D]."""
        found = self.out(self.out_norm(pooled.unflatten(-1, self.pooled.shape)).flatten(-2))
        return self.norm(found + self.direct(summed))

    def weighted_sum(self, embedded: Tensor, gates: Tensor) -> Tensor:
        """Of a row's cells [B, F, R, E], each times its column's gate [B, F, E] -> [B, R, E]."""
        return (embedded * gates[:, :, None]).sum(dim=1)
