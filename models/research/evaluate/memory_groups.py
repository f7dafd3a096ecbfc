"""Divides the keys of a layer and head into M groups, each of which `memory_policies` merges.

A group has a centre, one of its keys. Centres are spread out by k-means++ (Arthur and Vassilvitskii
2007): over all keys at once, which takes M N distances, or within cells of about 128 keys into
which the keys are divided first, which takes M N / C distances for C cells of equal size. A key
joins the nearest centre of its cell.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

CELL = 128  # keys of a cell: the mean of coarse cells, the most of halved ones
SEEDS_AT_ONCE = 8
POWER_STEPS = 3
NEAR = 1e-9  # the least squared distance: a copy of a centre can still be drawn


class Groups(NamedTuple):
    """Of N keys, B = L H times over."""

    centre: Tensor  # [B, M] distinct keys
    home: Tensor  # [B, N] the group of each key, 0 to M - 1
    distances: Tensor  # [B] float64: how many distances it takes to find them


class Cells(NamedTuple):
    """C cells of at most P keys, B times over. Every key is in one cell."""

    keys: Tensor  # [B, C, P] the keys of each cell, then N
    size: Tensor  # [B, C] number of its keys


# From keys [B, N, d], their weights [B, N] and M.
Grouping = Callable[[Tensor, Tensor, int, torch.Generator], Groups]


def at(x: Tensor, index: Tensor) -> Tensor:
    """Of x [B, N, d] the rows at index [B, n]: [B, n, d]."""
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))


def priorities(weight: Tensor, random: torch.Generator) -> Tensor:
    """The largest ones are a draw without replacement by `weight`."""
    u = torch.rand(weight.shape, generator=random, device=weight.device)
    return weight / -u.clamp(1e-12, 1 - 1e-7).log()


def spread_seeds(k: Tensor, w: Tensor, count: int, random: torch.Generator) -> Tensor:
    """[B, count] distinct keys of k [B, N, d] with weights w [B, N], by k-means++: drawn by the
    squared distance to the nearest one so far, a few at once."""
    nearest = torch.ones_like(w)
    norm, seeds = k.square().sum(dim=-1), []
    done = 0
    while done < count:
        size = min(SEEDS_AT_ONCE, count - done)
        new = priorities(nearest * w, random).topk(size, dim=1).indices
        square = norm[:, :, None] + norm.gather(1, new)[:, None]
        square = (square - 2 * k @ at(k, new).transpose(1, 2)).amin(dim=2).clamp(min=NEAR)
        nearest = square if done == 0 else torch.minimum(nearest, square)
        nearest.scatter_(1, new, 0.0)  # never again
        seeds.append(new)
        done += size
    return torch.cat(seeds, dim=1)


def every_key(k: Tensor) -> Groups:
    """As many groups as keys."""
    index = torch.arange(k.shape[1], device=k.device).expand(len(k), -1)
    return Groups(index, index, k.new_zeros(len(k), dtype=torch.float64))


def flat(k: Tensor, w: Tensor, count: int, random: torch.Generator) -> Groups:
    """Without cells."""
    if count == k.shape[1]:
        return every_key(k)
    centre = spread_seeds(k, w, count, random)
    home = torch.empty_like(w, dtype=torch.int64)
    for b in range(len(k)):  # one at a time: [N, M] distances
        chosen = k[b, centre[b]]
        home[b] = (chosen.square().sum(dim=-1) - 2 * k[b] @ chosen.T).argmin(dim=1)
    home.scatter_(1, centre, torch.arange(count, device=k.device).expand(len(k), -1))
    every = torch.full((len(k),), float(count * k.shape[1]), dtype=torch.float64, device=k.device)
    return Groups(centre, home, every)


def allocate(value: Tensor, size: Tensor, count: int) -> Tensor:
    """How many of M centres each cell gets, [B, C]: one, and the rest in proportion to its value,
    rounded by largest remainders; no more than it has keys."""
    most, value = (size - 1).double(), value.double().clamp(min=1e-30)
    rest = count - size.shape[1]
    full = most == 0
    share = torch.zeros_like(value)
    for _ in range(size.shape[1]):
        left = rest - (most * full).sum(dim=1, keepdim=True)
        of_open = (value * ~full).sum(dim=1, keepdim=True).clamp(min=1e-30)
        share = torch.where(full, most, left * value / of_open)
        over = ~full & (share > most)
        if not over.any():
            break
        full = full | over
    whole = (share + NEAR).floor().minimum(most)
    remainder = (share - whole).masked_fill(whole >= most, -1.0)
    place = remainder.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    left = rest - whole.sum(dim=1, keepdim=True)
    return (1 + whole + (place < left)).long()


def spread_in_cells(
    k: Tensor,
    w: Tensor,
    cells: Cells,
    quota: Tensor,  # [B, C] centres of each cell, at least 1; the same sum for each of B
    random: torch.Generator,
    first: Tensor | None = None,  # [B, C] place of the first centre in its cell; else it is drawn
) -> Groups:
    """k-means++ in all cells side by side. No more centres are drawn at once than a cell has."""
    (heads, count, width), keys = cells.keys.shape, k.shape[1]
    of_key = cells.keys.clamp(max=keys - 1).flatten(1)
    x = at(k, of_key).view(heads * count, width, -1)
    weight = w.gather(1, of_key).view(heads * count, width)
    real = torch.arange(width, device=k.device) < cells.size.view(-1, 1)
    free, wanted = real.clone(), quota.view(-1, 1)
    nearest = torch.full_like(weight, float("inf"))
    owner = torch.zeros_like(real, dtype=torch.int64)  # place of the nearest centre
    norm = x.square().sum(dim=-1)
    most, done = int(quota.max()), 0
    while done < most:
        size = min(SEEDS_AT_ONCE, max(1, done), most - done)
        if done == 0 and first is not None:
            new = first.view(-1, 1)
        else:
            drawn_by = weight if done == 0 else nearest * weight
            drawn_by = priorities(drawn_by, random).masked_fill_(~free, -1.0)
            new = drawn_by.topk(size, dim=1).indices
        drawn = done + torch.arange(size, device=k.device) < wanted
        square = norm[:, :, None] + norm.gather(1, new)[:, None]
        square = torch.baddbmm(square, x, at(x, new).transpose(1, 2), alpha=-2).clamp_(min=NEAR)
        square, which = square.masked_fill_(~drawn[:, None], float("inf")).min(dim=2)
        owner = torch.where(square < nearest, new.gather(1, which), owner)
        nearest = torch.minimum(nearest, square)
        # A centre owns itself and is never drawn again.
        owner.scatter_(1, new, torch.where(drawn, new, owner.gather(1, new)))
        nearest.scatter_(1, new, nearest.gather(1, new).masked_fill_(drawn, 0.0))
        free.scatter_(1, new, free.gather(1, new) & ~drawn)
        done += size

    def by_key(of_place: Tensor) -> Tensor:
        room = of_place.new_zeros(heads, keys + 1)  # places without a key write to the last
        return room.scatter_(1, cells.keys.flatten(1), of_place.view(heads, -1))[:, :keys]

    is_centre = by_key(real & ~free)
    centre = is_centre.nonzero()[:, 1].view(heads, -1)
    number = is_centre.cumsum(dim=1) - 1
    owner = of_key.view_as(owner).gather(1, owner).view(heads, -1)
    home = by_key(number.gather(1, owner))
    return Groups(centre, home, (quota * cells.size).sum(dim=1).double())


def coarse_cells(
    k: Tensor, w: Tensor, count: int, random: torch.Generator
) -> tuple[Cells, Tensor, Tensor]:
    """The keys nearest to each of C centres that are spread out over all keys. Also the potential
    of each cell [B, C], the sum of w d^2 to its centre, and the centre's place in it."""
    keys = k.shape[1]
    seeds = spread_seeds(k, w, count, random)
    chosen = at(k, seeds)
    square = k.square().sum(dim=-1)[:, :, None] + chosen.square().sum(dim=-1)[:, None]
    square, home = (square - 2 * k @ chosen.transpose(1, 2)).clamp(min=NEAR).min(dim=2)
    home.scatter_(1, seeds, torch.arange(count, device=k.device).expand(len(k), -1))
    potential = w.new_zeros(len(k), count).scatter_add_(1, home, w * square)
    size = home.new_zeros(len(k), count).scatter_add_(1, home, torch.ones_like(home))
    order = home.argsort(dim=1, stable=True)
    place = torch.arange(int(size.max()), device=k.device)
    wide = (size.cumsum(dim=1) - size)[:, :, None] + place
    index = order.gather(1, wide.clamp(max=keys - 1).flatten(1)).view_as(wide)
    index = index.masked_fill(place >= size[:, :, None], keys)
    first = (index == seeds[:, :, None]).long().argmax(dim=2)
    return Cells(index, size), potential, first


def coarse(
    k: Tensor, w: Tensor, count: int, random: torch.Generator, *, cell: int = CELL
) -> Groups:
    """Centres within coarse cells, in proportion to their potential."""
    keys = k.shape[1]
    if count == keys:
        return every_key(k)
    number = min(count, -(-keys // cell))
    cells, potential, first = coarse_cells(k, w, number, random)
    quota = allocate(potential, cells.size, count)
    groups = spread_in_cells(k, w, cells, quota, random, first)
    return groups._replace(distances=groups.distances + number * keys)


def cell_keys(k: Tensor, w: Tensor, cells: Cells) -> tuple[Tensor, Tensor, Tensor]:
    """Of each cell its keys less their mean, [B, C, P, d], the weights [B, C, P] and which places
    have a key. Weights of other places are 0."""
    index = cells.keys.clamp(max=k.shape[1] - 1).flatten(1)
    real = torch.arange(cells.keys.shape[2], device=k.device) < cells.size[..., None]
    weight = w.gather(1, index).view(real.shape) * real
    x = at(k, index).view(*real.shape, -1)
    mean = (weight[..., None] * x).sum(dim=2) / weight.sum(dim=2)[..., None]
    return x - mean[:, :, None], weight, real


def halve(k: Tensor, w: Tensor, cells: Cells, *, principal: bool) -> Cells:
    """Divides each cell at the median of the coordinate with the largest weighted variance, or of
    the principal direction, which a few power iterations from that coordinate find."""
    away, weight, real = cell_keys(k, w, cells)
    axis = (weight[..., None] * away.square()).sum(dim=2).argmax(dim=2)
    direction = torch.nn.functional.one_hot(axis, k.shape[2]).to(k.dtype)[..., None]
    for _ in range(POWER_STEPS if principal else 0):
        direction = away.transpose(2, 3) @ (weight[..., None] * (away @ direction))
        direction = direction / direction.norm(dim=2, keepdim=True).clamp(min=1e-30)
    along = (away @ direction)[..., 0].masked_fill(~real, float("inf"))
    order = along.argsort(dim=2, stable=True)
    width, half = cells.keys.shape[2], (cells.size + 1) // 2
    place = torch.arange((width + 1) // 2, device=k.device)
    size = torch.stack([half, cells.size - half], dim=2)  # [B, C, 2]
    begin = torch.stack([torch.zeros_like(half), half], dim=2)
    wide = (begin[..., None] + place).clamp(max=width - 1).flatten(2)
    index = cells.keys.gather(2, order.gather(2, wide)).view(*size.shape, -1)
    index = index.masked_fill(place >= size[..., None], k.shape[1])
    return Cells(index.flatten(1, 2), size.flatten(1))


def halved_cells(k: Tensor, w: Tensor, count: int, cell: int, *, principal: bool) -> Cells:
    """Halves of halves, until no cell has more than `cell` keys, but no more than M cells. Their
    sizes differ by 1 at most."""
    index = torch.arange(k.shape[1], device=k.device).expand(len(k), 1, -1)
    cells = Cells(index, torch.full_like(index[:, :, 0], k.shape[1]))
    while cells.keys.shape[2] > cell and 2 * cells.keys.shape[1] <= count:
        cells = halve(k, w, cells, principal=principal)
    return cells


def halves(
    k: Tensor,
    w: Tensor,
    count: int,
    random: torch.Generator,
    *,
    principal: bool,
    potential: bool,
    cell: int = CELL,
) -> Groups:
    """Centres within halved cells, in proportion to their keys, or to their potential, the sum of
    w d^2 to the mean of the cell."""
    if count == k.shape[1]:
        return every_key(k)
    cells = halved_cells(k, w, count, cell, principal=principal)
    value = cells.size - 1.0
    if potential:
        away, weight, _ = cell_keys(k, w, cells)
        value = (weight * away.square().sum(dim=3)).sum(dim=2)
    return spread_in_cells(k, w, cells, allocate(value, cells.size, count), random)


def within(k: Tensor, w: Tensor, groups: Groups) -> Tensor:
    """[B] which share of the weighted variance of the keys is within the groups."""
    count = groups.centre.shape[1]
    total = w.new_zeros(len(w), count).scatter_add_(1, groups.home, w)
    wide = groups.home[..., None].expand_as(k)
    mean = k.new_zeros(len(k), count, k.shape[2]).scatter_add_(1, wide, w[..., None] * k)
    away = k - (mean / total[..., None]).gather(1, wide)
    every = k - (w[..., None] * k).sum(dim=1, keepdim=True) / w.sum(dim=1)[:, None, None]
    inside, all_of_it = ((w * part.square().sum(dim=2)).sum(dim=1) for part in (away, every))
    return inside / all_of_it.clamp(min=NEAR)


# By the names of the policies that merge the keys of a group to their mean, with weights.
GROUPINGS: dict[str, Grouping] = {
    "merge_mean_w": flat,
    "cells_w": coarse,
    "halves_w": functools.partial(halves, principal=False, potential=False),
    "halves_potential_w": functools.partial(halves, principal=False, potential=True),
    "principal_w": functools.partial(halves, principal=True, potential=False),
    "principal_potential_w": functools.partial(halves, principal=True, potential=True),
}
