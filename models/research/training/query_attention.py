"""The trunk's attention in two parts: all tokens over the context, by a flash kernel, and the
queries over the buffer tokens that each sees, by a small masked one, which also merges the parts.

A softmax over the keys of both parts is the sum of the parts' outputs, each with its share of the
sum of exponentials. Going back, a part is the flash kernel's own gradient, if that is given the
merged output and the merged log-sum-exp.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

aten = torch.ops.aten


class Sizes(NamedTuple):
    """Tokens of a task in this order: context, buffer, targets. Each kind may be empty but the
    first."""

    context: int  # N
    buffer: int  # m
    heads: int


def by_head(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """[B, R, 3 W] -> three views [B, heads, R, W / heads]."""
    q, k, v = qkv.unflatten(-1, (3, heads, -1)).unbind(2)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def over_context(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, tuple]:
    """Output, log-sum-exp [B, heads, R], and what the way back needs besides."""
    if q.is_cuda:
        out, lse, *rest, _ = aten._scaled_dot_product_flash_attention(q, k, v)
        return out, lse, tuple(rest)
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    return out, lse, ()


def back_over_context(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, rest: tuple
) -> tuple[Tensor, Tensor, Tensor]:
    if q.is_cuda:
        *lengths, seed, offset = rest
        return aten._scaled_dot_product_flash_attention_backward(
            gradient, q, k, v, out, lse, *lengths, 0.0, False, seed, offset
        )
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, q, k, v, out, lse, 0.0, False
    )


def scores_over_buffer(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    """[B, heads, S, m]; seen [S]: how many buffer tokens each query sees."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    unseen = torch.arange(k.shape[2], device=k.device) >= seen[:, None]
    return scores.masked_fill(unseen, float("-inf"))


def merge_buffer(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, out: Tensor, lse: Tensor) -> None:
    """Adds the part of the buffer to `out` [B, heads, S, d] and `lse` [B, heads, S], in place."""
    scores = scores_over_buffer(q, k, seen)
    total = torch.logaddexp(lse, torch.logsumexp(scores, dim=-1))
    part = torch.exp(scores - total[..., None]) @ v
    out.mul_(torch.exp(lse - total)[..., None]).add_(part)
    lse.copy_(total)


def back_over_buffer(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, seen: Tensor, out: Tensor, lse: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v through the buffer's part, `out` and `lse` being merged."""
    p = torch.exp(scores_over_buffer(q, k, seen) - lse[..., None])
    dp = gradient @ v.transpose(-1, -2)
    ds = p * (dp - (gradient * out).sum(dim=-1, keepdim=True)) * q.shape[-1] ** -0.5
    return ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ gradient


class TwoPartAttention(torch.autograd.Function):
    """qkv [B, R, 3 W], seen [S] int32, S = R - N: how many buffer tokens each query sees;
    -> [B, R, W]."""

    @staticmethod
    def forward(ctx, qkv: Tensor, seen: Tensor, sizes: Sizes) -> Tensor:
        n, m, heads = sizes
        q, k, v = by_head(qkv, heads)
        out, lse, ctx.rest = over_context(q, k[:, :, :n], v[:, :, :n])
        if m > 0 and qkv.is_cuda:
            from models.research.training.query_attention_kernels import merge_buffer_fused

            merge_buffer_fused(qkv, seen, sizes, out, lse)
        elif m > 0:
            k, v = k[:, :, n : n + m], v[:, :, n : n + m]
            merge_buffer(q[:, :, n:], k, v, seen, out[:, :, n:], lse[:, :, n:])
        ctx.save_for_backward(qkv, seen, out, lse)
        ctx.sizes = sizes
        return out.transpose(1, 2).flatten(-2)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        qkv, seen, out, lse = ctx.saved_tensors
        n, m, heads = ctx.sizes
        q, k, v = by_head(qkv, heads)
        by_heads = gradient.unflatten(-1, (heads, -1)).transpose(1, 2)
        dq, dk, dv = back_over_context(
            by_heads, q, k[:, :, :n], v[:, :, :n], out, lse, ctx.rest
        )
        change = torch.empty_like(qkv)
        to_q, to_k, to_v = by_head(change, heads)
        to_q.copy_(dq)
        to_k[:, :, :n].copy_(dk)
        to_v[:, :, :n].copy_(dv)
        change[:, n + m :, qkv.shape[-1] // 3 :] = 0.0  # nobody attends to a target
        if m > 0 and qkv.is_cuda:
            from models.research.training.query_attention_kernels import back_over_buffer_fused

            back_over_buffer_fused(gradient, qkv, seen, ctx.sizes, out, lse, change)
        elif m > 0:
            rows, keys = slice(n, None), slice(n, n + m)
            dq, dk, dv = back_over_buffer(
                by_heads[:, :, rows], q[:, :, rows], k[:, :, keys], v[:, :, keys], seen,
                out[:, :, rows], lse[:, :, rows],
            )  # fmt: skip
            to_q[:, :, rows].add_(dq)
            to_k[:, :, keys].copy_(dk)
            to_v[:, :, keys].copy_(dv)
        return change, None, None
