"""Optimisers, learning rate, and the running average of the weights that is exported."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import Tensor, nn

from models.training.muon import Muon

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
    fused = next(model.parameters()).is_cuda
    adam = torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=ADAM_LR, betas=(0.9, 0.98), fused=fused
    )
    if kind == "adam":
        optimizers = [adam]
    elif kind == "muon":
        optimizers = [Muon(hidden, MUON_LR, momentum=0.95, weight_decay=0.02), adam]
    else:
        raise ValueError(f"optimizer {kind!r} is neither muon nor adam")
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
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
            group["lr"] = group["peak_lr"] * factor


def finish_gradients(parameters: list[nn.Parameter], world: int, most: float) -> Tensor:
    """Averages gradients over all processes and bounds the norm of all together; makes them 0 when
    it is not finite, so that a bad batch is skipped without asking the device. A parameter that
    the batch did not touch counts as 0. Returns the norm."""
    flat = torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters]
    )
    if world > 1:
        dist.all_reduce(flat)
        flat /= world
    norm = flat.norm()
    factor = torch.where(torch.isfinite(norm), (most / (norm + 1e-6)).clamp(max=1.0), 0.0)
    flat = torch.nan_to_num_(flat, nan=0.0, posinf=0.0, neginf=0.0).mul_(factor)
    for parameter, piece in zip(parameters, flat.split([p.numel() for p in parameters])):
        parameter.grad = piece.view_as(parameter)
    return norm


class WeightAverage:
    """Exponential running average of a model's parameters, float32."""

    def __init__(self, model: nn.Module):
        self.parameters = list(model.parameters())
        self.average = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(AVERAGE_DECAY, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchanges the model's weights and the average; twice restores both."""
        for parameter, average in zip(self.parameters, self.average):
            kept = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(kept)
