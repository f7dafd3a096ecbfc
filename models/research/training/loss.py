"""The loss of a batch, and its parts by category of task."""

from __future__ import annotations

import torch
from torch import Tensor

from models.research.training.model import JointModel
from models.research.training.mixture import Mixture
from models.research.training.prior.tasks import CATEGORIES, SPIKED, TaskBatch

# A tiny context may have a standard deviation that says nothing; what it makes of other rows is
# no lesson.
LARGEST_TARGET = 30.0
INDEPENDENT_WEIGHT = 1.5  # of a target given the context alone, against one on a path
GRADIENT_LIMIT = 20.0  # of one target's loss in the head's raw outputs
# Where a value is frequent, how exactly it is met counts only down to this width, in standard
# deviations: else what a narrow component gains there would outweigh the lesson of all other tasks.
SPIKE_WIDTH = 0.01
CONTEXT_EDGES = (64, 256)  # contexts below, between, above: rows of the gap


class LossParts:
    """Sums over steps, kept on the device, in the same place, until they are read."""

    def __init__(self, device: torch.device):
        n = len(CATEGORIES)
        # [category, path or independent, (negative log-density, targets)]
        self.by_category = torch.zeros(n, 2, 2, device=device)
        # [category, size of context, (true less predicted log-density, targets)]
        self.gap = torch.zeros(n, len(CONTEXT_EDGES) + 1, 2, device=device)

    def reset(self) -> None:
        self.by_category.zero_()
        self.gap.zero_()

    @torch.no_grad()
    def add(self, batch: TaskBatch, nll: Tensor, valid: Tensor) -> None:
        """nll and valid [B, m + q]."""
        m = batch.buffer
        for place, part in enumerate((slice(None, m), slice(m, None))):
            kept = torch.where(valid[:, part], nll[:, part], 0).sum(dim=1)
            both = torch.stack([kept, valid[:, part].sum(dim=1).float()], dim=1)
            self.by_category[:, place].index_add_(0, batch.category, both)
        size = sum(batch.context_y.shape[1] >= edge for edge in CONTEXT_EDGES)
        known = valid[:, :m] & torch.isfinite(batch.oracle)
        gap = torch.where(known, batch.oracle + nll[:, :m], 0).sum(dim=1)
        both = torch.stack([gap, known.sum(dim=1).float()], dim=1)
        self.gap[:, size].index_add_(0, batch.category, both)

    def summary(self) -> dict[str, float]:
        """Means; what nothing was seen of is left out."""
        out = {}
        for c, name in enumerate(CATEGORIES):
            for place, kind in enumerate(("path", "independent")):
                total, count = self.by_category[c, place].tolist()
                if count:
                    out[f"{name}_{kind}"] = round(total / count, 4)
            for size, label in enumerate(("small", "medium", "large")):
                total, count = self.gap[c, size].tolist()
                if count:
                    out[f"{name}_gap_{label}"] = round(total / count, 4)
        for place, kind in enumerate(("path", "independent")):
            total, count = self.by_category[:, place].sum(dim=0).tolist()
            out[f"all_{kind}"] = round(total / max(count, 1), 4)
        return out


def widened(mixture: Mixture, batch: TaskBatch) -> Mixture:
    """Components of tasks with frequent values are at least about SPIKE_WIDTH wide."""
    width = torch.where(batch.category == SPIKED, SPIKE_WIDTH, 0.0)[:, None, None]
    return mixture._replace(std=(mixture.std.square() + width.square()).sqrt())


def batch_loss(model: JointModel, batch: TaskBatch, parts: LossParts) -> Tensor:
    m, rows_y = batch.buffer, batch.rows_y
    valid = rows_y.abs() < LARGEST_TARGET
    weight = torch.ones_like(rows_y)
    weight[:, m:] = INDEPENDENT_WEIGHT
    weight = weight * valid * batch.weight[:, None]
    model.trunk.head.gradient_limit = GRADIENT_LIMIT / rows_y.numel()
    mixtures = model(batch.context, batch.context_y, batch.rows, rows_y[:, :m])
    path, independent = (widened(mixture, batch) for mixture in mixtures)
    nll = -torch.cat(
        [path.log_density(rows_y[:, :m]), independent.log_density(rows_y[:, m:])], dim=1
    )
    parts.add(batch, nll, valid)
    return torch.where(valid, nll * weight, 0).sum() / weight.sum().clamp(min=1)
