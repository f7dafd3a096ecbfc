"""Reads contexts into keys and values, and query rows and sample paths against kept ones.

Symbols: L layers, H heads of width d, D = H d; G contexts side by side, each with N rows, C blocks
of S query rows, P sample paths. A kept key has a weight w: it acts as w keys would,
p_j = w_j exp(q k_j) / sum_i w_i exp(q k_i), so that l, the sum of exponentials, keeps the mass of
keys that were dropped. The buffer of a path has weight 1 a key and is merged exactly, by the
log-sum-exp of both parts.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from models.research.training.mixture import Mixture
from models.research.training.model import JointModel
from models.research.training.prior.inputs import MAX_CODES
from models.research.training.prior.scaling import (
    TargetScaling,
    dictionary_places,
    scale_cells,
)
from models.research.training.row_encoders import Cells
from models.research.training.sampling import by_head
from models.research.training.trunk import MARKER_BUFFER, MARKER_CONTEXT, Trunk

ASKED_AT_ONCE = 1024  # rows of a context whose attention is added up at once


class Rows(NamedTuple):
    """Contexts and their query rows, after the row encoder."""

    context: Tensor  # [G, N, D]
    y: Tensor  # [G, N] z-scored
    targets: Tensor  # [G, C, S, D]
    mean: Tensor  # [G] float64, of y
    std: Tensor  # [G]
    cells: Tensor  # [G, N, F] standardised columns, 0 where missing
    target_cells: Tensor  # [G, C * S, F]


class Kept(NamedTuple):
    """Keys and values that all later rows attend to."""

    k: Tensor  # [L, G, H, M, d]
    v: Tensor  # [L, G, H, M, d]
    log_w: Tensor  # [L, G, H, M] logarithm of the weight; 0 in today's form


def read_rows(
    model: JointModel, x: Tensor, y: Tensor, target_x: Tensor, categorical: Tensor
) -> Rows:
    """x [G, N, F], y [G, N] and target_x [G, C, S, F] in float64, NaN is missing; categorical
    [F] bool. Columns and y are scaled over each context, as the server does it."""
    dtype = model.trunk.ar_tokens.dtype
    groups, rows = y.shape
    flags = categorical.expand(groups, -1)
    both = torch.cat([x, target_x.flatten(1, 2)], dim=1)
    cells = scale_cells(dictionary_places(both, flags, rows, MAX_CODES), flags, rows)
    cells = Cells(cells.value.to(dtype), cells.missing, cells.categorical)
    scaling = TargetScaling.fit(y)
    z = scaling.context.to(dtype)
    state = model.row_encoder.fit(cells.rows(0, rows), z)
    encoded = model.row_encoder.encode(state, cells)
    return Rows(
        encoded[:, :rows],
        z,
        encoded[:, rows:].unflatten(1, target_x.shape[1:3]),
        scaling.mean[:, 0],
        scaling.std[:, 0],
        cells.value[:, :rows],
        cells.value[:, rows:],
    )


def received(q: Tensor, k: Tensor) -> Tensor:
    """Attention that each key receives from all rows of its context: q (scaled) and k
    [G, H, N, d] -> [G, H, N], the mean over rows."""
    total = torch.zeros_like(k[..., 0])
    for part in q.split(ASKED_AT_ONCE, dim=2):
        total += torch.softmax(part @ k.transpose(-1, -2), dim=-1).sum(dim=2)
    return total / q.shape[2]


def encode(
    trunk: Trunk, rows: Tensor, y: Tensor, log_w: Tensor | None = None, *, sums: bool = False
) -> tuple[Kept, Tensor]:
    """Keys and values of contexts [G, N, D] with y [G, N], whose rows may have weights, [G, N] as
    logarithms. With `sums` what each key receives from the context's own rows, [L, G, H, N], else
    nothing."""
    x = trunk.embedder.with_y(rows, y, MARKER_CONTEXT)
    keys, values, sums_of_layers = [], [], []
    for layer in trunk.backbone.layers:
        x, qkv = layer.begin(x)
        q, k, v = (by_head(part, trunk.heads) for part in qkv.chunk(3, dim=-1))
        keys.append(k)
        values.append(v)
        if sums:
            sums_of_layers.append(received(q * q.shape[-1] ** -0.5, k))
        if log_w is None:
            attended = F.scaled_dot_product_attention(q, k, v)
        else:
            weights = log_w[:, None].expand(-1, trunk.heads, -1)
            attended, _ = attend(q * q.shape[-1] ** -0.5, k, v, weights)
        x = layer.finish(x, attended.transpose(1, 2).flatten(-2))
    k = torch.stack(keys)
    found = torch.stack(sums_of_layers) if sums else k.new_empty(0)
    weights = torch.zeros_like(k[..., 0])
    if log_w is not None:
        weights = weights + log_w[:, None]
    return Kept(k, torch.stack(values), weights), found


def attend(q: Tensor, k: Tensor, v: Tensor, log_w: Tensor) -> tuple[Tensor, Tensor]:
    """q [G, H, n, d], already divided by the root of d, over k and v [G, H, M, d] of log-weight
    [G, H, M] -> output [G, H, n, d] and log-sum-exp [G, H, n, 1]."""
    scores = q @ k.transpose(-1, -2)
    scores += log_w[:, :, None]
    most = scores.amax(dim=-1, keepdim=True)
    scores.sub_(most).exp_()
    total = scores.sum(dim=-1, keepdim=True)
    return scores @ v / total, most + total.log()


class Reader:
    """Query rows of G contexts, [G, C, S, D], over the kept keys of each."""

    def __init__(self, trunk: Trunk, kept: Kept, targets: Tensor):
        self.trunk, self.kept, self.targets = trunk, kept, targets

    def over_kept(self, index: int, q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q [G, B, n, D] -> q by head and scaled [G, B, H, n, d], output of that shape, and
        log-sum-exp [G, B, H, n, 1]."""
        q = by_head(q, self.trunk.heads) * (q.shape[-1] // self.trunk.heads) ** -0.5
        blocks = q.shape[1]
        tokens = q.transpose(1, 2).flatten(2, 3)  # [G, H, B n, d]
        out, lse = attend(tokens, *(part[index] for part in self.kept))

        def by_block(x: Tensor) -> Tensor:
            return x.unflatten(2, (blocks, -1)).transpose(1, 2)

        return q, by_block(out), by_block(lse)

    @staticmethod
    def merge(
        q: Tensor, out: Tensor, lse: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Adds the buffer's keys k and v [G, B, H, m, d] to the output of queries q
        [G, B, H, n, d]; hidden [n, m] bool. Returns the output and the share of attention that the
        buffer gets [G, B, H, n, 1]."""
        scores = q @ k.transpose(-1, -2)
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        of_buffer = scores.logsumexp(dim=-1, keepdim=True)
        total = torch.logaddexp(lse, of_buffer)
        out = out * torch.exp(lse - total) + torch.exp(scores - total) @ v
        return out, torch.exp(of_buffer - total)

    def head(self, x: Tensor) -> Mixture:
        mixture: Mixture = self.trunk.head(self.trunk.backbone.norm(x))
        return mixture

    def alone(self) -> Mixture:
        """Of each query row given the context alone: [G, C, S, components]."""
        x = self.trunk.embedder.without_y(self.targets)
        for index, layer in enumerate(self.trunk.backbone.layers):
            x, qkv = layer.begin(x)
            _, out, _ = self.over_kept(index, qkv.chunk(3, dim=-1)[0])
            x = layer.finish(x, out.transpose(2, 3).flatten(-2))
        return self.head(x)

    def along(self, y: Tensor) -> tuple[Mixture, Tensor]:
        """Of each query row given the context and the rows before it in its block, whose y
        [G, C, S] are z-scored. Also the buffer's share of attention [G]: the mean over layers,
        heads, blocks and all query rows but the first."""
        embed, size = self.trunk.embedder, y.shape[-1]
        known = embed.with_y(self.targets, y.to(self.targets.dtype), MARKER_BUFFER)
        known = known + self.trunk.ar_tokens[:size]
        x = torch.cat([known, embed.without_y(self.targets)], dim=2)
        place = torch.arange(size, device=x.device)
        seen = torch.cat([place + 1, place])  # a buffer token sees itself
        hidden = place >= seen[:, None]
        shares = []
        for index, layer in enumerate(self.trunk.backbone.layers):
            x, qkv = layer.begin(x)
            q, k, v = qkv.chunk(3, dim=-1)
            q, out, lse = self.over_kept(index, q)
            k, v = (by_head(part[:, :, :size], self.trunk.heads) for part in (k, v))
            out, share = self.merge(q, out, lse, k, v, hidden)
            shares.append(share[:, :, :, size + 1 :].mean(dim=(1, 2, 3, 4)))
            x = layer.finish(x, out.transpose(2, 3).flatten(-2))
        return self.head(x[:, :, size:]), torch.stack(shares).mean(dim=0)

    def row_of_paths(self, step: int, paths: int) -> Tensor:
        """[G, C P, D]."""
        return self.targets[:, :, step, None].expand(-1, -1, paths, -1).flatten(1, 2)

    def sample(self, u: Tensor, e: Tensor) -> Tensor:
        """Values drawn one by one, each given those before it on its path: [G, C, P, T], z-scored.
        u [T, G or 1, C, P, components] standard Gumbel and e [T, G or 1, C, P] normal numbers, so
        that all contexts draw alike."""
        steps, _, blocks, paths, _ = u.shape
        embed, heads, groups = self.trunk.embedder, self.trunk.heads, len(self.targets)
        width = self.targets.shape[-1] // heads
        buffer = self.targets.new_empty(
            len(self.trunk.backbone.layers), 2, groups, blocks * paths, heads, steps, width
        )
        drawn: list[Tensor] = []
        for step in range(steps):
            x = embed.without_y(self.row_of_paths(step, paths))[:, :, None]
            if step > 0:
                y = drawn[-1].flatten(1, 2).to(x.dtype)
                row = self.row_of_paths(step - 1, paths)
                known = embed.with_y(row, y, MARKER_BUFFER)
                known = known + self.trunk.ar_tokens[step - 1]
                x = torch.cat([known[:, :, None], x], dim=2)
            for index, layer in enumerate(self.trunk.backbone.layers):
                x, qkv = layer.begin(x)
                q, k, v = qkv.chunk(3, dim=-1)
                q, out, lse = self.over_kept(index, q)
                if step > 0:
                    for place, part in enumerate((k, v)):
                        buffer[index, place, ..., step - 1, :] = by_head(part, heads)[..., 0, :]
                    out, _ = self.merge(q, out, lse, *buffer[index, ..., :step, :])
                x = layer.finish(x, out.transpose(2, 3).flatten(-2))
            mixture = self.head(x[:, :, -1].unflatten(1, (blocks, paths)))
            chosen = (mixture.log_weight + u[step]).argmax(dim=-1, keepdim=True)
            mean, std = (part.gather(-1, chosen)[..., 0] for part in mixture[1:])
            drawn.append(mean + std * e[step])
        return torch.stack(drawn, dim=-1)
