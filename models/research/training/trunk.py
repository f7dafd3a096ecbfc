"""The trunk that the server runs per path: one token a row, context, buffer and target rules.

Keys of each kind of token:
    a context row attends to all context rows;
    buffer token i attends to the context and to buffer tokens 0..i;
    a target attends to the context and to the buffer tokens before its own row, never to a target.
Names of parameters are those of the safetensors file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.research.training.base_free import as_matrix
from models.research.training.mixture import Mixture
from models.research.training.model_config import ModelConfig
from models.research.training.query_attention import Sizes, TwoPartAttention

MARKER_TARGET, MARKER_CONTEXT, MARKER_BUFFER = 0, 1, 2


def attend(q: Tensor, k: Tensor, v: Tensor, heads: int, visible: Tensor | None = None) -> Tensor:
    """Softmax attention. q [B, S, W], k and v [B, N, W], visible [S, N] bool -> [B, S, W]."""

    def split(x: Tensor) -> Tensor:  # [B, heads, rows, W / heads]
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    out = F.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=visible)
    return out.transpose(1, 2).flatten(-2)


def visibility(buffer: int, prefixes: Tensor, context: int) -> Tensor:
    """Which keys the buffer tokens and then the targets see: [buffer + targets, context + buffer].

    prefixes [targets]: how many buffer tokens each target sees.
    """
    position = torch.arange(buffer, device=prefixes.device)
    seen = torch.cat([position + 1, prefixes])  # a buffer token sees itself
    width = -(-(context + buffer) // 8) * 8  # rows must start aligned for the attention kernel
    visible = torch.ones(len(seen), width, dtype=torch.bool, device=prefixes.device)
    visible[:, context : context + buffer] = position[None, :] < seen[:, None]
    return visible[:, : context + buffer]


class FeatureAttention(nn.Module):
    """Attention over the single feature token of a row: its softmax is 1, so it is Wo Wv."""

    def __init__(self, width: int):
        super().__init__()
        self.v_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.out_proj.weight @ self.v_proj.weight)


class RowAttention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)


class TokenShape(NamedTuple):
    """Tokens of a batch in one matrix: the rows of C contexts, then the queries of B paths."""

    contexts: int  # C, B or 1
    context: int  # N
    paths: int  # B
    queries: int  # S: buffer tokens, then targets
    buffer: int  # m

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[C N + B S, D] -> [C, N, D] and [B, S, D]."""
        rows, width = self.contexts * self.context, x.shape[-1]
        return (
            x[:rows].view(self.contexts, self.context, width),
            x[rows:].view(self.paths, self.queries, width),
        )


def attend_plainly(qkv: Tensor, shape: TokenShape, visible: Tensor, heads: int) -> Tensor:
    """Attention of all tokens: qkv [C N + B S, 3 D], visible [S, N + m] -> [C N + B S, D]."""
    (context_q, q), (context_k, k), (context_v, v) = map(shape.split, qkv.chunk(3, dim=-1))
    context = attend(context_q, context_k, context_v, heads)
    k = torch.cat([context_k.expand(shape.paths, -1, -1), k[:, : shape.buffer]], dim=1)
    v = torch.cat([context_v.expand(shape.paths, -1, -1), v[:, : shape.buffer]], dim=1)
    queries = attend(q, k, v, heads, visible)
    return torch.cat([context.flatten(0, 1), queries.flatten(0, 1)])


class Layer(nn.Module):
    """One block, over all tokens of a batch in one matrix, so that what is done to each token by
    itself is done once and a compiler sees few sizes. The attention, which is not, is between
    `begin` and `finish`."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        width = config.d_model
        self.attn_features = FeatureAttention(width)
        self.attn_rows = RowAttention(width)
        self.ff = nn.Sequential(
            nn.Linear(width, config.d_ff), nn.GELU(), nn.Linear(config.d_ff, width)
        )
        self.norm1 = nn.LayerNorm(width, config.layer_norm_eps)
        self.norm2 = nn.LayerNorm(width, config.layer_norm_eps)
        self.norm3 = nn.LayerNorm(width, config.layer_norm_eps)

    def begin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[tokens, D] -> the same after the features' attention, and queries, keys and values
        [tokens, 3 D]."""
        x = self.norm1(x + self.attn_features(x))
        rows = self.attn_rows
        weight = torch.cat([rows.q_proj.weight, rows.k_proj.weight, rows.v_proj.weight])
        return x, F.linear(x, weight)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = self.norm2(x + self.attn_rows.out_proj(attended))
        return self.norm3(x + self.ff(x))

    def pass_on(self, x: Tensor, attended: Tensor, after: Layer) -> tuple[Tensor, Tensor]:
        """`finish`, and `begin` of the layer after this one: what is compiled together saves
        moving x. Of the class, since those of the modules may be compiled themselves."""
        return Layer.begin(after, Layer.finish(self, x, attended))


class Backbone(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d_model, config.layer_norm_eps)


class Embedder(nn.Module):
    """What a token has beside its row's encoding: its y and the marker of its kind."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.y_embed = nn.Linear(1, config.d_model)
        self.marker_embed = nn.Embedding(3, config.d_model)

    def with_y(self, encoding: Tensor, y: Tensor, marker: int) -> Tensor:
        # Outer product in float32: autocast would round y to bf16.
        y_part = y[..., None].float() * self.y_embed.weight[:, 0] + self.y_embed.bias
        return encoding + y_part + self.marker_embed.weight[marker]

    def without_y(self, encoding: Tensor) -> Tensor:
        return encoding + self.marker_embed.weight[MARKER_TARGET]


class MixtureHead(nn.Module):
    def __init__(self, config: ModelConfig):
        super().__init__()
        m = config.num_components
        self.std_min, self.std_max = config.std_min, config.std_max
        self.head = nn.Sequential(
            nn.Linear(config.d_model, config.d_ff), nn.GELU(), nn.Linear(config.d_ff, 3 * m)
        )
        # Components start spread over the bulk of a z-scored y.
        self.mean_bias = nn.Parameter(torch.linspace(-2.0, 2.0, m))
        self.std_bias = nn.Parameter(torch.full((m,), -0.5))
        self.weight_bias = nn.Parameter(torch.zeros(m))
        # Training sets a bound on the loss's gradient in the head's raw outputs: a target far off a
        # narrow component would else outweigh all others.
        self.gradient_limit: float | None = None

    def forward(self, x: Tensor) -> Mixture:
        first, gelu, last = self.head
        hidden = gelu(first(x))
        if self.training:
            raw = last(hidden)
        else:  # as the server does it: a narrow component magnifies every rounding
            raw = F.linear(hidden.double(), last.weight.double(), last.bias.double())
        limit = self.gradient_limit
        if limit is not None and raw.requires_grad:
            raw.register_hook(lambda gradient: gradient.clamp(-limit, limit))
        raw = raw.unflatten(-1, (-1, 3))
        std = F.softplus(raw[..., 1] + self.std_bias).clamp(max=self.std_max) + self.std_min
        return Mixture(
            log_weight=torch.log_softmax(raw[..., 2] + self.weight_bias, dim=-1),
            mean=raw[..., 0] + self.mean_bias,
            std=std,
        )


class Trunk(nn.Module):
    """Embeds tokens, runs the layers, predicts mixtures at the targets."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.embedder = Embedder(config)
        self.ar_tokens = nn.Parameter(0.02 * torch.randn(config.buffer_size, config.d_model))
        self.backbone = Backbone(config)
        self.head = MixtureHead(config)
        self.heads = config.n_heads
        self.two_parts = False  # attention in two parts, which training on a GPU takes

    def run_layers(self, x: Tensor, attention: Callable[[Tensor], Tensor]) -> Tensor:
        """x [tokens, D]; attention of all tokens, [tokens, 3 D] -> [tokens, D]."""
        layers = self.backbone.layers
        x, qkv = layers[0].begin(x)
        for layer, after in zip(layers, layers[1:]):
            x, qkv = layer.pass_on(x, attention(qkv), after)
        return layers[-1].finish(x, attention(qkv))

    def run_together(self, known: Tensor, queries: Tensor, m: int, prefixes: Tensor) -> Tensor:
        """Each path has a context of its own: known [B, N, D], queries [B, S, D] -> queries."""
        seen = torch.cat([torch.arange(1, m + 1, device=prefixes.device), prefixes]).int()
        tokens = torch.cat([known, queries], dim=1)
        sizes = Sizes(known.shape[1], m, self.heads)

        def attention(qkv: Tensor) -> Tensor:
            qkv = qkv.view(*tokens.shape[:2], -1)
            return as_matrix(TwoPartAttention.apply(qkv, seen, sizes))

        return self.run_layers(as_matrix(tokens), attention).view(tokens.shape)[:, sizes.context :]

    def run_apart(self, known: Tensor, queries: Tensor, m: int, prefixes: Tensor) -> Tensor:
        """The plain way; known [C, N, D]."""
        shape = TokenShape(*known.shape[:2], *queries.shape[:2], m)
        visible = visibility(m, prefixes, shape.context)
        x = torch.cat([as_matrix(known), as_matrix(queries)])
        x = self.run_layers(x, lambda qkv: attend_plainly(qkv, shape, visible, self.heads))
        return shape.split(x)[1]

    def forward(
        self,
        context: Tensor,  # [C, N, D] encodings; C is B, or 1 where all share one context
        context_y: Tensor,  # [C, N]
        buffer: Tensor,  # [B, m, D] encodings, m <= K
        buffer_y: Tensor,  # [B, m]
        targets: Tensor,  # [B, T, D] encodings
        prefixes: Tensor,  # [T] int: buffer tokens that each target sees
    ) -> Mixture:  # [B, T, M]
        m = buffer.shape[1]
        known = self.embedder.with_y(context, context_y, MARKER_CONTEXT)
        buffered = self.embedder.with_y(buffer, buffer_y, MARKER_BUFFER) + self.ar_tokens[:m]
        queries = torch.cat([buffered, self.embedder.without_y(targets)], dim=1)
        together = self.two_parts and len(known) == len(queries)
        run = self.run_together if together else self.run_apart
        queries = run(known, queries, m, prefixes)
        # Standard deviations down to std_min need more digits than bf16 has.
        with torch.autocast(queries.device.type, enabled=False):
            return self.head(self.backbone.norm(queries[:, m:].to(self.ar_tokens.dtype)))
