"""A training step as CUDA graphs: a step is thousands of small kernels, which the host launches more
slowly than the device runs them.

A graph is of fixed sizes, so training draws its batches from a deck of shapes, each captured once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.research.training.prior.tasks import BatchShape, TaskBatch
from models.research.training.row_encoders import Cells

MODE = "thread_local"  # what other threads do, NCCL's among them, is no part of a capture


def tensors(batch: TaskBatch) -> list[Tensor]:
    """In a fixed order; of the two sets of cells both hold the same `categorical`."""
    return [
        *batch.context,
        batch.context_y,
        batch.rows.value,
        batch.rows.missing,
        batch.rows_y,
        batch.category,
        batch.weight,
        batch.oracle,
    ]


def twin(batch: TaskBatch) -> TaskBatch:
    """The same in memory of its own."""

    def own(tensor: Tensor) -> Tensor:
        return tensor.clone(memory_format=torch.contiguous_format)

    context = Cells(*map(own, batch.context))
    return TaskBatch(
        context=context,
        context_y=own(batch.context_y),
        rows=Cells(own(batch.rows.value), own(batch.rows.missing), context.categorical),
        rows_y=own(batch.rows_y),
        buffer=batch.buffer,
        category=own(batch.category),
        weight=own(batch.weight),
        oracle=own(batch.oracle),
    )


def copy(source: TaskBatch, target: TaskBatch) -> None:
    torch._foreach_copy_(tensors(target), tensors(source))


class CapturedSteps:
    """Runs a function of a batch, whose results go to memory that outlives it, by replaying what
    was captured for the batch's shape. Their graphs share one pool of memory: one at a time runs."""

    def __init__(self, run: Callable[[TaskBatch], None]):
        self.run = run
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[BatchShape, tuple[TaskBatch, torch.cuda.CUDAGraph]] = {}

    def capture(self, shape: BatchShape, batch: TaskBatch) -> None:
        """Runs the function twice: once to compile what must be, once to capture."""
        own = twin(batch)
        self.run(own)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode=MODE):
            self.run(own)
        self.graphs[shape] = own, graph

    def replay(self, shape: BatchShape, batch: TaskBatch) -> None:
        own, graph = self.graphs[shape]
        copy(batch, own)
        graph.replay()


@torch.no_grad()
def capture_update(run: Callable[[], None], state: list[Tensor]) -> torch.cuda.CUDAGraph:
    """`run` changes `state` in place. Running it before the capture, as must be, leaves no trace."""
    kept = [t.clone() for t in state]
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=MODE):
        run()
    for t, value in zip(state, kept):
        t.copy_(value)
    return graph
