"""Importance of the keys of a context, and memory sets that are filled chunk by chunk.

Two phases for each chunk of rows: its rows attend to the chunk and to the set so far, and the set
is then chosen anew from both. The same R rows are asked beside every chunk, so that nothing
accumulates and early rows have no advantage.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.evaluate.memory_model import Kept, Rows, attend
from models.research.evaluate.memory_policies import Chosen, Policy, Scored, ask
from models.research.training.sampling import by_head
from models.research.training.trunk import MARKER_CONTEXT, Trunk


def as_kept(chosen: list[Chosen], layers: int) -> Kept:
    """Choices of one context [L H, M, ...] side by side -> [L, G, H, M, ...]."""
    parts = zip(*(part[:3] for part in chosen), strict=True)
    stacked = (torch.stack(part, dim=1).unflatten(0, (layers, -1)) for part in parts)
    return Kept(*(part.transpose(1, 2) for part in stacked))


def measure(trunk: Trunk, kept: Kept, ids: Tensor, asked: Tensor, asked_ids: Tensor) -> Scored:
    """What R rows [R, D], asked as query rows, give to the keys of one context, [L, 1, H, N, ...]
    of rows `ids` [L, H, N]; each is masked from its own key."""
    x = trunk.embedder.without_y(asked)
    found: list[tuple[Tensor, ...]] = []
    for index, layer in enumerate(trunk.backbone.layers):
        x, qkv = layer.begin(x)
        q = by_head(qkv.chunk(3, dim=-1)[0], trunk.heads)
        q = q * q.shape[-1] ** -0.5
        hidden = ids[index][:, None] == asked_ids[:, None]
        k, v, log_w = (part[index, 0] for part in kept)
        mass, effect, lse, out = ask(q, k, v, log_w, hidden)
        found.append((mass, effect, q, lse, out))
        x = layer.finish(x, out.transpose(0, 1).flatten(-2))
    k, v, log_w = (part[:, 0].flatten(0, 1) for part in kept)
    mass, effect, q, lse, out = (torch.cat(part) for part in zip(*found, strict=True))
    return Scored(k, v, log_w, ids.flatten(0, 1), mass, effect, q, lse, out, asked_ids)


def unmeasured(kept: Kept, ids: Tensor) -> Scored:
    """For policies that need no importance: the keys of one context, without it."""
    k, v, log_w = (part[:, 0].flatten(0, 1) for part in kept)
    none = k.new_empty(0)
    of_rows = ids.flatten(0, 1)
    return Scored(k, v, log_w, of_rows, none, none, none, none, none, none.long())


def encode_after(trunk: Trunk, kept: Kept | None, rows: Tensor, y: Tensor) -> Kept:
    """Keys of a set [L, 1, H, M, ...] and of a chunk of rows [1, n, D] after it."""
    x = trunk.embedder.with_y(rows, y, MARKER_CONTEXT)
    found = []
    for index, layer in enumerate(trunk.backbone.layers):
        x, qkv = layer.begin(x)
        q, k, v = (by_head(part, trunk.heads) for part in qkv.chunk(3, dim=-1))
        log_w = torch.zeros_like(k[..., 0])
        if kept is not None:
            before = (part[index] for part in kept)
            k, v, log_w = (
                torch.cat(pair, dim=2) for pair in zip(before, (k, v, log_w), strict=True)
            )
        found.append((k, v, log_w))
        out, _ = attend(q * q.shape[-1] ** -0.5, k, v, log_w)
        x = layer.finish(x, out.transpose(1, 2).flatten(-2))
    return Kept(*(torch.stack(part) for part in zip(*found, strict=True)))


def fill_in_chunks(
    trunk: Trunk,
    rows: Rows,
    order: Tensor,  # [N] in which the rows come
    asked: Tensor | None,  # [R] numbers of the rows that are asked; None: `policy` needs none
    chunk: int,
    count: int,
    policy: Policy,
    random: torch.Generator,
) -> Chosen:
    """The set of M keys per layer and head that is left after all chunks of one context."""
    layers, heads = len(trunk.backbone.layers), trunk.heads
    chosen = None
    for part in order.split(chunk):
        kept = None if chosen is None else as_kept([chosen], layers)
        kept = encode_after(trunk, kept, rows.context[:, part], rows.y[:, part])
        ids = part.expand(layers, heads, -1)
        if chosen is not None:
            ids = torch.cat([chosen.ids.unflatten(0, (layers, heads)), ids], dim=2)
        if asked is None:
            scored = unmeasured(kept, ids)
        else:
            scored = measure(trunk, kept, ids, rows.context[0, asked], asked)
        chosen = policy(scored, min(count, scored.k.shape[1]), random)
    if chosen is None:
        raise ValueError("a context needs at least one row")
    return chosen
