"""Random draws of one step: tensors from the device's generator, structure from Python's."""

from __future__ import annotations

import functools
import math
import random

import torch
from torch import Tensor


@functools.lru_cache(maxsize=256)
def _edges(weights: tuple[float, ...], device: torch.device) -> Tensor:
    """Where one choice ends and the next begins in [0, 1); kept, because making it waits for the
    device."""
    shares = torch.tensor(weights, dtype=torch.float64).cumsum(dim=0)
    return (shares[:-1] / shares[-1]).float().to(device)


class Randomness:
    """A pure function of (seed, rank, step), so that a resumed run sees the batches it would have.

    What decides about the structure of a batch comes from `host`, so that the device never has to
    be waited for.
    """

    def __init__(self, seed: int, rank: int, step: int, device: torch.device | str):
        key = (seed * 1_000_003 + rank) * 1_000_000_007 + step
        self.host = random.Random(key)
        self.device = torch.device(device)
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(self.host.getrandbits(62))

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return torch.empty(shape, device=self.device).uniform_(low, high, generator=self.generator)

    def log_uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return torch.exp(self.uniform(math.log(low), math.log(high), *shape))

    def integer(self, low: int, high: int, *shape: int) -> Tensor:
        """In [low, high)."""
        return torch.randint(low, high, shape, generator=self.generator, device=self.device)

    def chance(self, probability: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=self.device) < probability

    def choice(self, weights: list[float], *shape: int) -> Tensor:
        """Index of a choice made with these probabilities, int64."""
        u = torch.rand(shape, generator=self.generator, device=self.device)
        return torch.bucketize(u, _edges(tuple(weights), self.device), right=True)

    def permutation(self, *shape: int) -> Tensor:
        """A random permutation along the last dimension, int64."""
        return self.uniform(0.0, 1.0, *shape).argsort(dim=-1)

    def student(self, degrees: Tensor, *shape: int) -> Tensor:
        """Student's t; degrees broadcasts to shape. Chi-squared by the Wilson-Hilferty cube."""
        spread = 2.0 / (9.0 * degrees)
        cube = (1.0 - spread + spread.sqrt() * self.normal(*shape)).clamp(min=0.05) ** 3
        return self.normal(*shape) / cube.sqrt()

    def split(self, count: int, weights: list[float]) -> list[int]:
        """How many of `count` tasks each choice gets: whole numbers that add up to count."""
        counts = [0] * len(weights)
        for chosen in self.host.choices(range(len(weights)), weights, k=count):
            counts[chosen] += 1
        return counts
