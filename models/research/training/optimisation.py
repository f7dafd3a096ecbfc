"""Optimisers, learning rate, and the running average of the weights that is exported.

What changes from step to step is in tensors on the device, so that an update can be captured once
and replayed.
"""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import Tensor, nn

from models.research.training.muon import Muon

WARM_UP_STEPS = 250
LAST_SHARE = 0.01  # of the learning rate, at the end
AVERAGE_DECAY = 0.999
ADAM_LR, MUON_LR = 1e-3, 4e-3
# Inputs, outputs and tables are no hidden matrices: Adam takes them.
NOT_HIDDEN = (
    "embed", "ar_tokens", "column_id", "points", "pooled", "head", "cell.", "target.", "inputs.",
)  # fmt: skip


def make_optimizers(model: nn.Module, kind: str) -> list[torch.optim.Optimizer]:
    """`kind` is muon (with Adam for what is no hidden matrix) or adam."""
    hidden, decayed, rest = [], [], []
    for name, parameter in model.named_parameters():
        is_hidden = parameter.ndim == 2 and not any(part in name for part in NOT_HIDDEN)
        if is_hidden and kind == "muon":
            hidden.append(parameter)
        elif is_hidden:
            decayed.append(parameter)
        else:
            rest.append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.02}, {"params": rest, "weight_decay": 0.0}]
    device = next(model.parameters()).device
    on_gpu = device.type == "cuda"

    def rate(value: float) -> Tensor:
        return torch.tensor(value, device=device)

    adam = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=rate(ADAM_LR),
        betas=(0.9, 0.98),
        fused=on_gpu,
        capturable=on_gpu,
    )
    if kind == "adam":
        optimizers = [adam]
    elif kind == "muon":
        optimizers = [Muon(hidden, rate(MUON_LR), momentum=0.95, weight_decay=0.02), adam]
    else:
        raise ValueError(f"optimizer {kind!r} is neither muon nor adam")
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = MUON_LR if isinstance(optimizer, Muon) else ADAM_LR
    return optimizers


def set_learning_rate(
    optimizers: list[torch.optim.Optimizer], step: int, progress: float, scale: float
) -> None:
    """Warm-up by steps, then a cosine in progress, from 0 to 1."""
    warm = min(1.0, (step + 1) / WARM_UP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    factor = scale * warm * (LAST_SHARE + (1 - LAST_SHARE) * cosine)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"].fill_(group["peak_lr"] * factor)


def optimizer_state(optimizers: list[torch.optim.Optimizer]) -> list[Tensor]:
    return [t for o in optimizers for state in o.state.values() for t in state.values()]


class Gradients:
    """The gradients of all parameters in one vector; each parameter's `grad` is its piece of it."""

    def __init__(self, parameters: list[nn.Parameter]):
        self.parameters = parameters
        sizes = [parameter.numel() for parameter in parameters]
        self.flat = torch.zeros(sum(sizes), device=parameters[0].device)
        pieces = self.flat.split(sizes)
        self.views = [piece.view_as(p) for p, piece in zip(parameters, pieces)]
        for parameter, view in zip(parameters, self.views):
            parameter.grad = view

    def compute(self, loss: Tensor) -> None:
        """A parameter that the loss does not touch gets 0."""
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        self.flat.zero_()
        touched = [(v, g) for v, g in zip(self.views, gradients) if g is not None]
        torch._foreach_copy_([v for v, _ in touched], [g for _, g in touched])

    def share(self, world: int) -> None:
        """Averages over all processes."""
        if world > 1:
            dist.all_reduce(self.flat)
            self.flat /= world

    def bound(self, most: float) -> Tensor:
        """Bounds the norm of all together and returns what it was; where it is not finite all
        become 0, so that a bad batch is skipped without asking the device."""
        norm = self.flat.norm()
        factor = torch.where(torch.isfinite(norm), (most / (norm + 1e-6)).clamp(max=1.0), 0.0)
        torch.nan_to_num_(self.flat, nan=0.0, posinf=0.0, neginf=0.0).mul_(factor)
        return norm


class WeightAverage:
    """Exponential running average of a model's parameters, float32."""

    def __init__(self, model: nn.Module):
        self.parameters = list(model.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        self.weight = torch.zeros((), device=self.parameters[0].device)  # of the newest weights

    def set_step(self, step: int) -> None:
        self.weight.fill_(1 - min(AVERAGE_DECAY, (1 + step) / (10 + step)))

    @torch.no_grad()
    def update(self) -> None:
        change = torch._foreach_sub([p.detach() for p in self.parameters], self.average)
        torch._foreach_mul_(change, self.weight)
        torch._foreach_add_(self.average, change)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchanges the model's weights and the average; twice restores both."""
        for parameter, average in zip(self.parameters, self.average):
            kept = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(kept)
