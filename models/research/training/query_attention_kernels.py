"""Kernels of query_attention.py: the part of the buffer, for a task and a head.

Tensors: qkv and its gradient [B, R, 3 W], out and its gradient [B, R, W], lse [B, heads, R].
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from models.research.training.query_attention import Sizes

ROWS = 64  # queries at a time


@triton.jit
def _merge(
    qkv_at, seen_at, out_at, lse_at, rows, context, buffer, scale,
    HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    task, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    width = HEADS * D
    query = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    query_in = query < rows - context
    seen = tl.load(seen_at + query, mask=query_in, other=0)
    if tl.max(seen, axis=0) > 0:
        lane = head * D + tl.arange(0, D)
        begin = task.to(tl.int64) * rows + context
        key = tl.arange(0, KEYS)
        key_in = (key < buffer)[:, None]
        places = (begin + key)[:, None] * (3 * width) + lane[None, :]
        k = tl.load(qkv_at + width + places, mask=key_in, other=0.0)
        v = tl.load(qkv_at + 2 * width + places, mask=key_in, other=0.0)
        places = (begin + query)[:, None] * (3 * width) + lane[None, :]
        q = tl.load(qkv_at + places, mask=query_in[:, None], other=0.0)
        visible = key[None, :] < seen[:, None]
        scores = tl.where(visible, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        lse_places = (task.to(tl.int64) * HEADS + head) * rows + context + query
        lse = tl.load(lse_at + lse_places, mask=query_in, other=0.0)
        top = tl.maximum(lse, tl.max(scores, axis=1))
        p = tl.exp(scores - top[:, None])
        kept = tl.exp(lse - top)
        total = kept + tl.sum(p, axis=1)
        places = (begin + query)[:, None] * width + lane[None, :]
        out = tl.load(out_at + places, mask=query_in[:, None], other=0.0).to(tl.float32)
        out = (out * kept[:, None] + tl.dot(p.to(v.dtype), v)) / total[:, None]
        tl.store(out_at + places, out.to(v.dtype), mask=query_in[:, None])
        tl.store(lse_at + lse_places, top + tl.log(total), mask=query_in)


@triton.jit
def _back(
    gradient_at, qkv_at, seen_at, out_at, lse_at, change_at, rows, context, buffer, chunks, scale,
    HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    task, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    width = HEADS * D
    lane = head * D + tl.arange(0, D)
    begin = task.to(tl.int64) * rows + context
    key = tl.arange(0, KEYS)
    key_in = (key < buffer)[:, None]
    key_places = (begin + key)[:, None] * (3 * width) + lane[None, :]
    k = tl.load(qkv_at + width + key_places, mask=key_in, other=0.0)
    v = tl.load(qkv_at + 2 * width + key_places, mask=key_in, other=0.0)
    dk = tl.zeros((KEYS, D), tl.float32)
    dv = tl.zeros((KEYS, D), tl.float32)
    for chunk in range(chunks):
        query = chunk * ROWS + tl.arange(0, ROWS)
        query_in = query < rows - context
        seen = tl.load(seen_at + query, mask=query_in, other=0)
        if tl.max(seen, axis=0) > 0:
            places = (begin + query)[:, None] * (3 * width) + lane[None, :]
            q = tl.load(qkv_at + places, mask=query_in[:, None], other=0.0)
            of_out = (begin + query)[:, None] * width + lane[None, :]
            g = tl.load(gradient_at + of_out, mask=query_in[:, None], other=0.0)
            out = tl.load(out_at + of_out, mask=query_in[:, None], other=0.0)
            lse_places = (task.to(tl.int64) * HEADS + head) * rows + context + query
            lse = tl.load(lse_at + lse_places, mask=query_in, other=0.0)
            visible = key[None, :] < seen[:, None]
            scores = tl.where(visible, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
            p = tl.exp(scores - lse[:, None])
            dp = tl.dot(g, tl.trans(v))
            shared = tl.sum(g.to(tl.float32) * out.to(tl.float32), axis=1)
            ds = (p * (dp - shared[:, None]) * scale).to(v.dtype)
            dv += tl.dot(tl.trans(p.to(v.dtype)), g)
            dk += tl.dot(tl.trans(ds), q)
            dq = tl.load(change_at + places, mask=query_in[:, None], other=0.0).to(tl.float32)
            dq += tl.dot(ds, k)
            tl.store(change_at + places, dq.to(v.dtype), mask=query_in[:, None])
    tl.store(change_at + width + key_places, dk.to(v.dtype), mask=key_in)
    tl.store(change_at + 2 * width + key_places, dv.to(v.dtype), mask=key_in)


def constants(qkv: Tensor, sizes: Sizes) -> dict[str, int]:
    keys = max(16, 1 << (sizes.buffer - 1).bit_length())  # 16: the least that tl.dot takes
    d = qkv.shape[-1] // (3 * sizes.heads)
    return {"HEADS": sizes.heads, "D": d, "ROWS": ROWS, "KEYS": keys}


def check_layout(qkv: Tensor, out: Tensor, lse: Tensor) -> None:
    if not (qkv.is_contiguous() and out.transpose(1, 2).is_contiguous() and lse.is_contiguous()):
        raise ValueError("the attention kernel gave its output in another layout")
    if lse.shape != out.shape[:3]:
        raise ValueError(f"log-sum-exps {tuple(lse.shape)} of outputs {tuple(out.shape)}")


def merge_buffer_fused(qkv: Tensor, seen: Tensor, sizes: Sizes, out: Tensor, lse: Tensor) -> None:
    """merge_buffer, of whole tensors: out [B, heads, R, d] and lse as the flash kernel gives them."""
    check_layout(qkv, out, lse)
    tasks, rows, _ = qkv.shape
    grid = (tasks * sizes.heads, triton.cdiv(len(seen), ROWS))
    _merge[grid](
        qkv, seen, out, lse, rows, sizes.context, sizes.buffer, out.shape[-1] ** -0.5,
        **constants(qkv, sizes),
    )  # fmt: skip


def back_over_buffer_fused(
    gradient: Tensor, qkv: Tensor, seen: Tensor, sizes: Sizes, out: Tensor, lse: Tensor,
    change: Tensor,
) -> None:  # fmt: skip
    """Adds to `change` [B, R, 3 W] the gradient of the queries, and puts that of the buffer's keys
    and values there."""
    check_layout(qkv, out, lse)
    tasks, rows, _ = qkv.shape
    _back[(tasks * sizes.heads,)](
        gradient.contiguous(), qkv, seen, out, lse, change, rows, sizes.context, sizes.buffer,
        triton.cdiv(len(seen), ROWS), out.shape[-1] ** -0.5, **constants(qkv, sizes),
    )  # fmt: skip
