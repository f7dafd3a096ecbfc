"""What a generator of tasks gives, and what a training step takes."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from models.research.training.row_encoders.cells import Cells

CATEGORIES = (
    "gp", "structural", "tree", "additive", "ordered", "linear", "grouped", "calendar",
    "spiked", "panel",
)  # fmt: skip


SPIKED = CATEGORIES.index("spiked")


class BatchShape(NamedTuple):
    tasks: int
    context: int  # N
    buffer: int  # m: rows that are buffer tokens and targets
    independent: int  # q: rows that are targets given the context alone
    features: int

    @property
    def rows(self) -> int:
        return self.context + self.buffer + self.independent


class RawTasks(NamedTuple):
    """Tasks in units of their own. Rows come in the order context, buffer, independent targets."""

    x: Tensor  # [b, R, F], NaN is missing
    categorical: Tensor  # [b, F] bool; the cells of such a column are whole numbers in [0, 128)
    y: Tensor  # [b, R]
    # [b, R]: the true log-density of each y given the rows before it; None where nobody knows it.
    oracle: Tensor | None
    category: int  # index into CATEGORIES


class TaskBatch(NamedTuple):
    """z-scored as the server does."""

    context: Cells  # [B, N, F]
    context_y: Tensor  # [B, N]
    rows: Cells  # [B, m + q, F]
    rows_y: Tensor  # [B, m + q]
    buffer: int  # m
    category: Tensor  # [B] int64
    weight: Tensor  # [B] of a task in the loss, 1 for most
    oracle: Tensor  # [B, m], in units of the z-scored y; NaN where nobody knows it


def standardise(f: Tensor, dim: int = 1) -> Tensor:
    """Mean 0 and standard deviation 1 over the rows; a constant becomes 0."""
    centred = f - f.mean(dim=dim, keepdim=True)
    return centred / (centred.square().mean(dim=dim, keepdim=True).sqrt() + 1e-6)
