"""Gaussian processes with random kernels: exact up to EXACT_ROWS rows, spectral features beyond."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.research.training.prior.randomness import Randomness

EXACT_ROWS = 720
SPECTRAL_FEATURES = 768
KINDS = ("rbf", "matern52", "matern32", "matern12", "rational_quadratic")
KIND_WEIGHTS = [0.34, 0.18, 0.2, 0.13, 0.15]


def correlation(kind: str, squared: Tensor, alpha: Tensor) -> Tensor:
    """Of squared scaled distances; alpha broadcasts, for the rational quadratic alone."""
    if kind == "rbf":
        return torch.exp(-0.5 * squared)
    if kind == "rational_quadratic":
        return (1.0 + squared / (2.0 * alpha)) ** -alpha
    distance = (squared + 1e-12).sqrt()
    if kind == "matern12":
        return torch.exp(-distance)
    if kind == "matern32":
        scaled = math.sqrt(3.0) * distance
        return (1.0 + scaled) * torch.exp(-scaled)
    scaled = math.sqrt(5.0) * distance
    return (1.0 + scaled + scaled * scaled / 3.0) * torch.exp(-scaled)


def squared_distances(z: Tensor) -> Tensor:
    """[b, R, d] -> [b, R, R]."""
    norm = z.square().sum(dim=-1)
    inner = z @ z.transpose(1, 2)
    return (norm[:, :, None] + norm[:, None, :] - 2.0 * inner).clamp(min=0.0)


def inverse_scales(rng: Randomness, b: int, f: int) -> Tensor:
    """[b, 1, f]: one over the length scale of each feature, 0 for an irrelevant one."""
    relevant = rng.log_uniform(1.0, 8.0, b, 1, 1).floor().clamp(max=f)
    rank = rng.permutation(b, 1, f).argsort(dim=-1)
    used = rank < relevant
    base = torch.exp(0.9 * rng.normal(b, 1, 1)) * relevant.sqrt()
    each = torch.exp(0.5 * rng.normal(b, 1, f)) * rng.chance(0.6, b, 1, 1)
    return used / (base * torch.where(each == 0, 1.0, each))


def random_kernel(rng: Randomness, x: Tensor) -> Tensor:
    """[b, R, d] float64 -> [b, R, R] of unit diagonal, one kind for each run of tasks."""
    b, rows, f = x.shape
    parts, begin = [], 0
    for kind, count in zip(KINDS, rng.split(b, KIND_WEIGHTS)):
        if count == 0:
            continue
        z = x[begin : begin + count] * inverse_scales(rng, count, f)
        alpha = rng.log_uniform(0.3, 5.0, count, 1, 1).double()
        parts.append(correlation(kind, squared_distances(z), alpha))
        begin += count
    return torch.cat(parts)


def periodic_kernel(rng: Randomness, x: Tensor) -> Tensor:
    """[b, R, d] float64 -> [b, R, R], periodic in one feature each."""
    b, rows, f = x.shape
    chosen = rng.integer(0, f, b, 1, 1).expand(b, rows, 1)
    t = x.gather(2, chosen)
    period = rng.log_uniform(0.15, 3.0, b, 1, 1)
    length = rng.log_uniform(0.4, 2.5, b, 1, 1)
    wave = torch.sin(math.pi * (t - t.transpose(1, 2)) / period) / length
    return torch.exp(-2.0 * wave.square())


def draw_exact(rng: Randomness, kernel: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """A draw of kernel + noise^2 I, and the log-density of each y given those before it.
    kernel [b, R, R] float64, noise [b] -> y and oracle [b, R], float64."""
    rows = kernel.shape[-1]
    # float64 needs little jitter, yet more the more rows there are.
    jitter = 1e-8 * rows * kernel.diagonal(dim1=1, dim2=2).mean(dim=-1)
    kernel.diagonal(dim1=1, dim2=2).add_((noise.double().square() + jitter)[:, None])
    factor, _ = torch.linalg.cholesky_ex(kernel)
    e = rng.normal(*kernel.shape[:2]).double()
    y = (factor @ e[..., None]).squeeze(-1)
    deviation = factor.diagonal(dim1=1, dim2=2)
    oracle = -0.5 * e.square() - torch.log(deviation) - 0.5 * math.log(2 * math.pi)
    return y, oracle


def exact_process(rng: Randomness, x: Tensor) -> tuple[Tensor, Tensor]:
    """x [b, R, F], R <= EXACT_ROWS -> y and oracle [b, R], noise included."""
    b = x.shape[0]
    x = x.double()
    kernel = random_kernel(rng, x)
    combine = rng.host.random()
    if combine < 0.15:
        share = rng.uniform(0.1, 0.9, b, 1, 1).double()
        kernel = share * kernel + (1 - share) * random_kernel(rng, x)
    elif combine < 0.22:
        kernel = kernel * random_kernel(rng, x)
    elif combine < 0.32:
        periodic = periodic_kernel(rng, x)
        kernel = kernel * periodic if combine < 0.27 else 0.5 * (kernel + periodic)
    elif combine < 0.42:
        weights = rng.normal(b, 1, x.shape[-1]).double() * rng.chance(0.5, b, 1, x.shape[-1])
        slope = (x * weights).sum(dim=-1, keepdim=True)
        kernel = kernel + slope @ slope.transpose(1, 2)
    return draw_exact(rng, kernel, observation_noise(rng, b))


def observation_noise(rng: Randomness, b: int) -> Tensor:
    """[b]: standard deviation of the noise where the signal's is 1."""
    noise = rng.log_uniform(0.03, 1.5, b)
    return torch.where(rng.chance(0.25, b), rng.log_uniform(1e-3, 0.05, b), noise)


def spectral_process(rng: Randomness, x: Tensor) -> Tensor:
    """x [b, R, F] -> a noiseless draw [b, R] for any number of rows, by random Fourier features:
    Matern kernels have Student-t frequencies, a rational quadratic has gamma-scaled ones."""
    b, _, f = x.shape
    frequency = rng.normal(b, f, SPECTRAL_FEATURES) * inverse_scales(rng, b, f).transpose(1, 2)
    degrees = torch.tensor([1e4, 5.0, 3.0, 1.0, 2.0], device=rng.device)
    degrees = degrees[rng.choice(KIND_WEIGHTS, b)][:, None, None]
    spread = 2.0 / (9.0 * degrees)
    chi2 = (1.0 - spread + spread.sqrt() * rng.normal(b, 1, SPECTRAL_FEATURES)).clamp(min=0.1) ** 3
    frequency = frequency / chi2.sqrt()
    phase = rng.uniform(0.0, 2 * math.pi, b, 1, SPECTRAL_FEATURES)
    waves = torch.cos(x @ frequency + phase)
    weights = rng.normal(b, SPECTRAL_FEATURES, 1) * math.sqrt(2.0 / SPECTRAL_FEATURES)
    return (waves @ weights).squeeze(-1)
