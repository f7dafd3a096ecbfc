"""Attention inside each of many small sets: the cells of a row, or a column and its points."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

MOST_KEYS = 128  # of a set that the kernels below take; they hold all of them at once


def attend_sets_plainly(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """q [S, n, E], k and v [S, k, E] -> [S, n, E]. Spelt out: the plain path, and the reference."""

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    q, k, v = split(q), split(k), split(v)
    with torch.autocast(q.device.type, enabled=False):  # softmax in the type of the scores
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        attended = torch.softmax(scores, dim=-1) @ v
    return attended.transpose(1, 2).flatten(-2)


class FusedSetAttention(torch.autograd.Function):
    """The same in one kernel each way: the fused kernels of PyTorch work on tiles that are far
    larger than these sets, and the plain path moves each operand several times."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
        from models.research.training.set_attention_kernels import forward

        ctx.save_for_backward(q, k, v)
        ctx.heads = heads
        return forward(q, k, v, heads)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        from models.research.training.set_attention_kernels import backward

        return *backward(*ctx.saved_tensors, gradient.contiguous(), ctx.heads), None


def attend_sets(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """q [S, n, E], k and v [S, k, E] -> [S, n, E]."""
    if not (q.is_cuda and q.dtype == k.dtype == torch.bfloat16):
        return attend_sets_plainly(q, k, v, heads)
    if k.shape[1] <= MOST_KEYS:
        return FusedSetAttention.apply(q, k.contiguous(), v.contiguous(), heads)

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    out = F.scaled_dot_product_attention(split(q), split(k), split(v))
    return out.transpose(1, 2).flatten(-2)
