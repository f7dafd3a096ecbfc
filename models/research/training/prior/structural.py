"""Structural causal models: random networks of noisy nodes; features and target are nodes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.research.training.prior.inputs import sample_latent
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.tasks import standardise

# With how often each is drawn: mostly tame ones, or a few layers make noise of everything.
ACTIVATIONS: tuple[tuple[float, Callable[[Tensor], Tensor]], ...] = (
    (4.0, lambda v: v),
    (3.0, torch.tanh),
    (3.0, torch.relu),
    (1.0, torch.abs),
    (1.0, torch.sin),
    (1.0, lambda v: v.clamp(-3, 3).square()),
    (0.7, lambda v: torch.exp(-v.square())),
    (1.0, lambda v: torch.sigmoid(4 * v)),
    (0.7, lambda v: (v > 0).to(v.dtype)),
    (0.4, lambda v: torch.floor(1.5 * v)),
    (0.2, lambda v: torch.remainder(v, 1.0)),
    (0.5, lambda v: torch.log(v.abs() + 0.1)),
)


def mixed_activation(rng: Randomness, v: Tensor) -> Tensor:
    """Each node gets one of three activations that are drawn for the whole call."""
    b, _, width = v.shape
    weights, functions = zip(*ACTIVATIONS)
    first, second, third = rng.host.choices(functions, weights, k=3)
    kind = rng.choice([0.5, 0.3, 0.2], b, 1, width)
    scaled = v * rng.log_uniform(0.4, 1.6, b, 1, width) + 0.7 * rng.normal(b, 1, width)
    return torch.where(
        kind == 0, first(scaled), torch.where(kind == 1, second(scaled), third(scaled))
    )


def random_layer(rng: Randomness, v: Tensor, width: int) -> Tensor:
    """[b, R, in] -> [b, R, width]: sparse random linear map, activation, scaling, noise."""
    b, rows, fan_in = v.shape
    weights = rng.normal(b, fan_in, width)
    density = rng.log_uniform(min(1.0, 1.5 / fan_in), min(1.0, 6.0 / fan_in), b, 1, 1)
    keep = rng.uniform(0.0, 1.0, b, fan_in, width) < density
    # One parent for certain, so that no node is a constant.
    parent = rng.integer(0, fan_in, b, 1, width)
    keep.scatter_(1, parent, True)
    out = standardise(v @ (weights * keep))
    out = standardise(mixed_activation(rng, out)).clamp(-12, 12)
    noise = rng.log_uniform(0.005, 0.3, b, 1, width) * rng.chance(0.5, b, 1, 1)
    return out + noise * rng.normal(b, rows, width)


def structural_model(rng: Randomness, b: int, rows: int, f: int) -> tuple[Tensor, Tensor]:
    """Features [b, rows, f] and signal [b, rows]. Either the features are the root causes and the
    signal the last node, or all of them are nodes anywhere."""
    host = rng.host
    features_are_causes = host.random() < 0.4
    causes = f if features_are_causes else host.randint(1, max(2, f))
    depth = host.choice((1, 1, 2, 2, 3))
    width = max(3, min(48, int(f * host.uniform(0.3, 1.2))))
    v = sample_latent(rng, b, rows, causes)
    if features_are_causes:
        x = v
        for _ in range(depth):
            v = random_layer(rng, v, width)
        return x, v[..., 0]
    nodes = [v]
    while len(nodes) < depth + 1 or sum(n.shape[-1] for n in nodes) < f + width:
        v = random_layer(rng, v, width)
        nodes.append(v)
    everything = torch.cat(nodes, dim=-1)
    # The signal is a node of the last layer; features are any others.
    order = rng.permutation(b, everything.shape[-1] - 1)[:, :f]
    x = everything[..., :-1].gather(2, order[:, None, :].expand(b, rows, f))
    return standardise(x), everything[..., -1]
