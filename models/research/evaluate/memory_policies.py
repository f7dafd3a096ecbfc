"""Policies that choose the keys and values of an encoded context to keep, and their weights.

A policy chooses M of N keys for each of B = L H layers and heads. R rows of the table, asked as
query rows, each masked from its own key, measure a key: p is the attention that it receives from a
query, o the output of the query, v the value of the key.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from models.research.evaluate.memory_groups import GROUPINGS, Grouping, flat

FLOOR = 0.1  # share of the probability of being drawn that does not depend on the importance
RIDGE = 0.01  # of the mean diagonal, where values are fitted
FIT_STEPS = 50


class Scored(NamedTuple):
    """Keys to choose from, B = L H times over."""

    k: Tensor  # [B, N, d]
    v: Tensor  # [B, N, d]
    log_w: Tensor  # [B, N] weights that they have so far
    ids: Tensor  # [B, N] numbers of their rows, in random order
    mass: Tensor  # [B, N] the mean of p over the R queries
    effect: Tensor  # [B, N] the mean of (p / (1 - p))^2 |o - v|^2
    q: Tensor  # [B, R, d] the queries, scaled
    lse: Tensor  # [B, R] their log-sum-exp
    out: Tensor  # [B, R, d] their outputs o
    asked: Tensor  # [R] numbers of their rows
    context_mass: Tensor | None = None  # [B, N] what the context's own rows give


class Chosen(NamedTuple):
    k: Tensor  # [B, M, d]
    v: Tensor
    log_w: Tensor  # [B, M]
    ids: Tensor  # [B, M]


Policy = Callable[[Scored, int, torch.Generator], Chosen]


def ask(q: Tensor, k: Tensor, v: Tensor, log_w: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
    """R queries q [H, R, d] (scaled) over keys k and values v [H, N, d] of log-weight [H, N];
    hidden [H, R, N]: a query's own key. Returns mass and effect [H, N], log-sum-exp [H, R]
    and outputs [H, R, d].

    Dropping key j changes the output of a query by exactly p / (1 - p) (o - v_j), where o is the
    output with it (kvpress #285); the squares are summed by |o - v|^2 = |o|^2 - 2 o v + |v|^2.
    """
    scores = (q @ k.transpose(-1, -2) + log_w[:, None]).masked_fill_(hidden, float("-inf"))
    lse = scores.logsumexp(dim=-1)
    p = scores.sub_(lse[..., None]).exp_()
    out, mass = p @ v, p.mean(dim=1)
    odds = p.div_((1 - p).clamp(min=1e-6)).square_().transpose(-1, -2)  # [H, N, R]
    of_out = (odds @ out.square().sum(dim=-1, keepdim=True))[..., 0]
    effect = of_out - 2 * ((odds @ out) * v).sum(dim=-1)
    effect = effect + odds.sum(dim=-1) * v.square().sum(dim=-1)
    return mass, effect.clamp(min=0) / q.shape[1], lse, out


def take(s: Scored, index: Tensor, more: Tensor | float = 0.0) -> Chosen:
    """Keys at index [B, M], `more` added to their log-weights."""
    wide = index[..., None].expand(-1, -1, s.k.shape[-1])
    log_w = s.log_w.gather(1, index) + more
    return Chosen(s.k.gather(1, wide), s.v.gather(1, wide), log_w, s.ids.gather(1, index))


def random_rows(s: Scored, count: int, random: torch.Generator, *, weighted: bool) -> Chosen:
    """The same rows everywhere; their numbers are in random order. The weights keep the sum."""
    index = s.ids.topk(count, dim=1, largest=False).indices
    if not weighted:
        return take(s._replace(log_w=torch.zeros_like(s.log_w)), index)
    log_w = s.log_w.logsumexp(dim=1, keepdim=True) - math.log(count)
    return take(s, index)._replace(log_w=log_w.expand(-1, count))


def heavy(s: Scored, count: int, random: torch.Generator, *, by: str, weighted: bool) -> Chosen:
    """The keys of the largest importance; with one weight a head that keeps the mean mass."""
    index = getattr(s, by).topk(count, dim=1).indices
    if not weighted:
        return take(s._replace(log_w=torch.zeros_like(s.log_w)), index)
    share = s.mass.gather(1, index).sum(dim=1, keepdim=True)
    return take(s, index, -share.clamp(min=1e-6).log())


def draw(
    value: Tensor, log_w: Tensor, count: int, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """[B, M] drawn without replacement by importance [B, N], and the logarithms of the weights
    that make up for it. Priorities (Duffield, Lund and Thorup 2007): the largest importance over a
    uniform number are drawn; with t the largest that is not, weights 1 / min(1, importance / t)
    keep every sum on average."""
    if count == value.shape[1]:
        index = torch.arange(count, device=value.device).expand(len(value), -1)
        return index, torch.zeros_like(value)
    even = torch.softmax(log_w, dim=1)
    value = (1 - FLOOR) * value / value.sum(dim=1, keepdim=True) + FLOOR * even
    u = torch.rand(value.shape, generator=random, device=value.device).clamp(min=1e-12)
    found = (value / u).topk(count + 1, dim=1)
    index, threshold = found.indices[:, :-1], found.values[:, -1:]
    return index, (threshold / value.gather(1, index)).clamp(min=1.0).log()


def sample(s: Scored, count: int, random: torch.Generator, *, by: str, weighted: bool) -> Chosen:
    """Drawn by attention received, or by the root of the effect of dropping."""
    value = s.mass if by == "mass" else s.effect.sqrt()
    index, log_w = draw(value, s.log_w, count, random)
    if not weighted:
        return take(s._replace(log_w=torch.zeros_like(s.log_w)), index)
    return take(s, index, log_w)


def merge(
    s: Scored,
    count: int,
    random: torch.Generator,
    *,
    groups: Grouping = flat,
    weighted: bool,
    mean_key: bool,
) -> Chosen:
    """Groups of keys around spread-out ones. w is the sum of the weights, V their mean, and with
    `mean_key` K as well."""
    w = s.log_w.exp()
    found = groups(s.k, w, count, random)
    chosen = take(s, found.centre)
    wide = found.home[..., None].expand_as(s.k)
    total = torch.zeros_like(chosen.log_w).scatter_add_(1, found.home, w)
    k, v = (torch.zeros_like(chosen.k).scatter_add_(1, wide, w[..., None] * part) for part in s[:2])
    log_w = total.log() if weighted else torch.zeros_like(total)
    k = k / total[..., None] if mean_key else chosen.k
    return Chosen(k, v / total[..., None], log_w, chosen.ids)


def fit(s: Scored, count: int, random: torch.Generator, *, start: Policy) -> Chosen:
    """Attention Matching (arXiv 2602.16284): weights and values of chosen keys fitted to the R
    queries. Weights w >= 0 minimise the squares of sum_j w_j p_j - 1, by multiplicative steps;
    then values change as little as needed, by ridge regression in its dual form (R equations)."""
    chosen = start(s, count, random)
    scores = s.q @ chosen.k.transpose(1, 2)  # [B, R, M]
    own = chosen.ids[:, None] == s.asked[:, None]
    p = (scores - s.lse[..., None]).masked_fill(own, float("-inf")).exp()
    w = chosen.log_w.exp()[..., None]
    up = p.sum(dim=1)[..., None]
    for _ in range(FIT_STEPS):
        w = w * up / (p.transpose(1, 2) @ (p @ w)).clamp(min=1e-12)
    w = w.clamp(min=1e-6)
    a = p * w.transpose(1, 2)
    a = a / a.sum(dim=-1, keepdim=True).clamp(min=1e-9)
    gram = a @ a.transpose(1, 2)
    ridge = RIDGE * gram.diagonal(dim1=1, dim2=2).mean(dim=-1)
    gram.diagonal(dim1=1, dim2=2).add_(ridge[:, None])
    factor, _ = torch.linalg.cholesky_ex(gram)
    change = torch.cholesky_solve(s.out - a @ chosen.v, factor)
    return chosen._replace(v=chosen.v + a.transpose(1, 2) @ change, log_w=w[..., 0].log())


HEAVY = functools.partial(heavy, by="effect", weighted=True)
MERGE = functools.partial(merge, weighted=True, mean_key=False)
POLICIES: dict[str, Policy] = {
    "kv_random": functools.partial(random_rows, weighted=False),
    "kv_random_w": functools.partial(random_rows, weighted=True),
    "context_sums": functools.partial(heavy, by="context_mass", weighted=False),
    "heavy_mass": functools.partial(heavy, by="mass", weighted=False),
    "heavy_mass_w": functools.partial(heavy, by="mass", weighted=True),
    "heavy_effect": functools.partial(heavy, by="effect", weighted=False),
    "heavy_effect_w": HEAVY,
    "sample_mass": functools.partial(sample, by="mass", weighted=False),
    "sample_mass_w": functools.partial(sample, by="mass", weighted=True),
    "sample_effect_w": functools.partial(sample, by="effect", weighted=True),
    "merge": functools.partial(merge, weighted=False, mean_key=False),
    "merge_w": MERGE,
    **{
        name: functools.partial(merge, groups=groups, weighted=True, mean_key=True)
        for name, groups in GROUPINGS.items()
    },
    "heavy_fit_w": functools.partial(fit, start=HEAVY),
    "merge_fit_w": functools.partial(fit, start=MERGE),
}
