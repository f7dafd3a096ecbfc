"""Muon (K. Jordan et al., 2024): momentum whose matrices are made orthogonal, for hidden layers.

Matrices of one shape are kept in one stack, so that a step is a few batched products.
"""

from __future__ import annotations

import torch
from torch import Tensor

# A quintic that brings singular values in (0, 1] near 1; from the method's authors.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonalise(g: Tensor) -> Tensor:
    """[n, r, c] -> about U V^T of each matrix U S V^T, by Newton-Schulz in bf16."""
    a, b, c = COEFFICIENTS
    tall = g.shape[1] > g.shape[2]
    x = g.bfloat16()
    x = x.transpose(1, 2) if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """The update's root mean square is 0.2, as Adam's is by experience, so that a learning rate
    means the same to both. The learning rate is a tensor, as a captured step needs it."""

    def __init__(self, matrices: list[Tensor], lr: Tensor, momentum: float, weight_decay: float):
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    shapes.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in shapes.items():
                self._step_stack(group, shape, matrices)

    def _step_stack(self, group: dict, shape: torch.Size, matrices: list[Tensor]) -> None:
        gradient = torch.stack([matrix.grad for matrix in matrices])
        state = self.state[matrices[0]]  # the first matrix of a shape holds the stack's momentum
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(gradient)
        momentum = state["momentum"]
        momentum.lerp_(gradient, 1 - group["momentum"])
        update = orthogonalise(gradient.lerp(momentum, group["momentum"])).float()
        scale = 0.2 * max(shape) ** 0.5
        torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_sub_(matrices, list((update * (group["lr"] * scale)).unbind(0)))
