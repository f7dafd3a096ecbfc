"""Scores of kept keys against held-out rows: marginally, jointly in blocks, and of sums."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from models.research.evaluate.memory_model import Reader
from models.research.training.mixture import Mixture

SUMMED = 14  # rows of a block whose sum is predicted
# The third smallest and the third largest of PATHS sampled sums are the ends of an interval. A sum
# of the same distribution lies in it with probability (PATHS + 1 - 2 * EDGE) / (PATHS + 1) = 0.9.
PATHS, EDGE = 59, 3


class Noise(NamedTuple):
    """The random numbers of paths, the same for all contexts."""

    u: Tensor  # [T, C, P, components] standard Gumbel
    e: Tensor  # [T, C, P] standard normal


class BlockScores(NamedTuple):
    """In units of y. A lower CRPS is better, a higher log-density."""

    log_density: Tensor  # [G, C, S] of each row given the context alone
    crps: Tensor  # [G, C, S]
    joint: Tensor  # [G, C] of a block, each row given those before it
    share: Tensor  # [G] of attention that the path's own buffer gets
    inside: Tensor  # [G, C] bool: the sum of 14 rows lies in the 90 % interval of sampled sums
    sum_crps: Tensor  # [G, C] of that sum, over the root of 14


def make_noise(blocks: int, paths: int, components: int, seed: int, device: torch.device) -> Noise:
    random = torch.Generator(device="cpu").manual_seed(seed)
    u = torch.rand(SUMMED, blocks, paths, components, generator=random, dtype=torch.float64)
    e = torch.randn(SUMMED, blocks, paths, generator=random, dtype=torch.float64)
    return Noise(-torch.log(-torch.log(u.clamp(1e-300, 1 - 1e-16))).to(device), e.to(device))


def expected_distance(mean: Tensor, std: Tensor) -> Tensor:
    """E|Z| of Z ~ N(mean, std^2)."""
    z = mean / std
    density = torch.exp(-0.5 * z * z) * 0.3989422804014327
    return 2 * std * density + mean * torch.erf(z * 0.5**0.5)


def mixture_crps(mixture: Mixture, y: Tensor) -> Tensor:
    """Of y [...] under mixtures [..., components], in closed form (Grimit et al. 2006)."""
    weight, mean, std = mixture.log_weight.exp(), mixture.mean, mixture.std
    to_y = (weight * expected_distance(y[..., None] - mean, std)).sum(dim=-1)
    apart = mean[..., :, None] - mean[..., None, :]
    spread = (std[..., :, None].square() + std[..., None, :].square()).sqrt()
    both = weight[..., :, None] * weight[..., None, :]
    return to_y - 0.5 * (both * expected_distance(apart, spread)).sum(dim=(-1, -2))


def sample_crps(draws: Tensor, y: Tensor) -> Tensor:
    """Of y [...] under draws [..., P] in ascending order, without bias in P."""
    count = draws.shape[-1]
    place = 2 * torch.arange(count, device=draws.device, dtype=draws.dtype) - (count - 1)
    between = (place * draws).sum(dim=-1) / (count * (count - 1))  # half the mean distance
    return (draws - y[..., None]).abs().mean(dim=-1) - between


def score(reader: Reader, y: Tensor, mean: Tensor, std: Tensor, noise: Noise | None) -> BlockScores:
    """y [G, C, S] in its own units, float64; mean and std [G] are those of each context. Without
    noise no paths are drawn and scores of sums are NaN."""
    shift, scale = mean[:, None, None], std[:, None, None]
    z = (y - shift) / scale
    alone = reader.alone()
    together, share = reader.along(z)
    joint = (together.log_density(z) - scale.log()).sum(dim=-1)
    inside, sum_crps = torch.full_like(joint, float("nan")), torch.full_like(joint, float("nan"))
    if noise is not None:
        u, e = noise.u, noise.e
        if y.shape[1] == u.shape[1]:  # all contexts have all blocks
            u, e = u[:, None], e[:, None]
        else:  # one block each, as often as there are kinds of contexts
            times = len(y) // u.shape[1]
            u, e = u[:, :, None].repeat(1, times, 1, 1, 1), e[:, :, None].repeat(1, times, 1, 1)
        drawn = reader.sample(u, e) * scale[..., None] + shift[..., None]
        sums = drawn.sum(dim=-1).sort(dim=-1).values  # [G, C, P]
        truth = y[..., :SUMMED].sum(dim=-1)
        inside = (sums[..., EDGE - 1] < truth) & (truth < sums[..., -EDGE])
        sum_crps = sample_crps(sums, truth) / SUMMED**0.5
    return BlockScores(
        alone.log_density(z) - scale.log(),
        mixture_crps(alone, z) * scale,
        joint,
        share,
        inside,
        sum_crps,
    )
