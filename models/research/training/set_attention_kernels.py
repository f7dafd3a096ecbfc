"""Kernels of set_attention.py. A tile holds several sets whole, or one set's keys and, chunk by
chunk, its queries; what belongs to another set is masked."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 64  # rows of a tile of several sets
CHUNKS = 8  # of queries, that one program takes


@triton.jit
def _forward(
    q_at, k_at, v_at, out_at, q_stride, sets, n, keys, sets_in_tile, chunks, scale,
    HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    head, tile = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    first = (tile * sets_in_tile).to(tl.int64)
    here = tl.minimum(sets - tile * sets_in_tile, sets_in_tile)
    lane = head * D + tl.arange(0, D)
    key = tl.arange(0, KEYS)
    key_in = key < here * keys
    key_places = (first * keys + key)[:, None] * (HEADS * D) + lane[None, :]
    k = tl.load(k_at + key_places, mask=key_in[:, None], other=0.0)
    v = tl.load(v_at + key_places, mask=key_in[:, None], other=0.0)
    for chunk in range(chunks):
        row = (tl.program_id(1) * chunks + chunk) * ROWS + tl.arange(0, ROWS)
        row_in = row < here * n
        of_set = (first + row // n) * q_stride + (row % n) * (HEADS * D)
        q = tl.load(q_at + of_set[:, None] + lane[None, :], mask=row_in[:, None], other=0.0)
        seen = ((row // n)[:, None] == (key // keys)[None, :]) & key_in[None, :]
        scores = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, -1e30)
        p = tl.where(seen, tl.exp(scores - tl.max(scores, axis=1)[:, None]), 0.0)
        p = p / tl.maximum(tl.sum(p, axis=1), 1e-30)[:, None]
        out = tl.dot(p.to(v.dtype), v)
        places = (first * n + row)[:, None] * (HEADS * D) + lane[None, :]
        tl.store(out_at + places, out.to(v.dtype), mask=row_in[:, None])


@triton.jit
def _backward(
    q_at, k_at, v_at, g_at, dq_at, dk_at, dv_at, q_stride, sets, n, keys, sets_in_tile, chunks,
    scale, HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    head, tile = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    first = (tile * sets_in_tile).to(tl.int64)
    here = tl.minimum(sets - tile * sets_in_tile, sets_in_tile)
    lane = head * D + tl.arange(0, D)
    key = tl.arange(0, KEYS)
    key_in = key < here * keys
    key_places = (first * keys + key)[:, None] * (HEADS * D) + lane[None, :]
    k = tl.load(k_at + key_places, mask=key_in[:, None], other=0.0)
    v = tl.load(v_at + key_places, mask=key_in[:, None], other=0.0)
    dk = tl.zeros((KEYS, D), tl.float32)
    dv = tl.zeros((KEYS, D), tl.float32)
    for chunk in range(chunks):
        row = (tl.program_id(1) * chunks + chunk) * ROWS + tl.arange(0, ROWS)
        row_in = row < here * n
        of_set = (first + row // n) * q_stride + (row % n) * (HEADS * D)
        q = tl.load(q_at + of_set[:, None] + lane[None, :], mask=row_in[:, None], other=0.0)
        places = (first * n + row)[:, None] * (HEADS * D) + lane[None, :]
        g = tl.load(g_at + places, mask=row_in[:, None], other=0.0)
        seen = ((row // n)[:, None] == (key // keys)[None, :]) & key_in[None, :]
        scores = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, -1e30)
        p = tl.where(seen, tl.exp(scores - tl.max(scores, axis=1)[:, None]), 0.0)
        p = p / tl.maximum(tl.sum(p, axis=1), 1e-30)[:, None]
        dp = tl.dot(g, tl.trans(v))
        ds = p * (dp - tl.sum(p * dp, axis=1)[:, None]) * scale
        p, ds = p.to(v.dtype), ds.to(v.dtype)
        dv += tl.dot(tl.trans(p), g)
        dk += tl.dot(tl.trans(ds), q)
        tl.store(dq_at + places, tl.dot(ds, k).to(v.dtype), mask=row_in[:, None])
    key_places += tl.program_id(1).to(tl.int64) * sets * keys * (HEADS * D)
    tl.store(dk_at + key_places, dk.to(dk_at.dtype.element_ty), mask=key_in[:, None])
    tl.store(dv_at + key_places, dv.to(dv_at.dtype.element_ty), mask=key_in[:, None])


class Plan(NamedTuple):
    rows: int  # of a tile, or of a chunk
    keys: int
    sets_in_tile: int
    chunks: int
    parts: int  # programs that share the queries of one set


def power_of_two(least: int) -> int:
    return max(16, 1 << (least - 1).bit_length())  # 16: the least that tl.dot takes


def make_plan(n: int, keys: int) -> Plan:
    if max(n, keys) <= TILE:
        sets = TILE // max(n, keys)
        return Plan(power_of_two(sets * n), power_of_two(sets * keys), sets, 1, 1)
    rows = min(64 if keys > 64 else 128, power_of_two(n))
    chunks = -(-n // rows)
    parts = -(-chunks // CHUNKS)
    return Plan(rows, power_of_two(keys), 1, -(-chunks // parts), parts)


def launch(kernel, tensors: list[Tensor], q: Tensor, keys: int, heads: int, plan: Plan) -> None:
    sets, n, width = q.shape
    grid = (heads * -(-sets // plan.sets_in_tile), plan.parts)
    kernel[grid](
        *tensors, q.stride(0), sets, n, keys, plan.sets_in_tile, plan.chunks,
        (width // heads) ** -0.5, HEADS=heads, D=width // heads, ROWS=plan.rows, KEYS=plan.keys,
    )  # fmt: skip


def rows_in_order(q: Tensor) -> Tensor:
    """As the kernels read it: any stride between sets, 0 among them, and none inside."""
    return q if q.stride()[1:] == (q.shape[2], 1) else q.contiguous()


def forward(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    q = rows_in_order(q)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    launch(_forward, [q, k, v, out], q, k.shape[1], heads, make_plan(q.shape[1], k.shape[1]))
    return out


def backward(
    q: Tensor, k: Tensor, v: Tensor, gradient: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    q = rows_in_order(q)
    plan = make_plan(q.shape[1], k.shape[1])
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    kind = k.dtype if plan.parts == 1 else torch.float32
    dk, dv = (torch.empty(plan.parts, *k.shape, dtype=kind, device=k.device) for _ in range(2))
    launch(_backward, [q, k, v, gradient, dq, dk, dv], q, k.shape[1], heads, plan)
    if plan.parts == 1:
        return dq, dk[0], dv[0]
    return dq, dk.sum(dim=0).to(k.dtype), dv.sum(dim=0).to(k.dtype)
