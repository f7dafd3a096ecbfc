"""The fast ways of attention give the values and gradients of the plain ones. What needs a GPU is
tested by kernels_on_gpu.py, by hand."""

from __future__ import annotations

import unittest

try:
    import torch

    from models.research.training.query_attention import Sizes, TwoPartAttention
    from models.research.training.trunk import TokenShape, attend_plainly, visibility
except ImportError:
    torch = None

HEADS = 2
# Tasks, rows of the context, of the buffer, and what each target sees of that.
CASES = (
    (2, 5, 3, [0, 1, 2, 0]),
    (3, 70, 64, [*range(64), *[0] * 30]),
    (1, 300, 17, [16, 0, 3]),
    (2, 9, 0, [0, 0]),
)


def distance(one, other) -> float:
    return ((one.double() - other.double()).norm() / other.double().norm()).item()


def distances(tasks: int, context: int, buffer: int, prefixes: list[int], device, kind) -> dict:
    """Of attention in two parts from the plain way in float64, and of its gradients."""
    rows = context + buffer + len(prefixes)
    qkv = torch.randn(tasks, rows, 3 * HEADS * 32, device=device).to(kind).requires_grad_()
    weight = torch.randn(tasks, rows, HEADS * 32, device=device).to(kind)
    targets = torch.tensor(prefixes, dtype=torch.long, device=device)
    seen = torch.cat([torch.arange(1, buffer + 1, device=device), targets]).int()
    out = TwoPartAttention.apply(qkv, seen, Sizes(context, buffer, HEADS))
    (change,) = torch.autograd.grad(out, qkv, weight)

    exact = qkv.detach().double().requires_grad_()
    parts = exact[:, :context].flatten(0, 1), exact[:, context:].flatten(0, 1)
    shape = TokenShape(tasks, context, tasks, rows - context, buffer)
    visible = visibility(buffer, targets, context)
    plain = attend_plainly(torch.cat(parts), shape, visible, HEADS)
    plain = torch.cat(shape.split(plain), dim=1)
    (expected,) = torch.autograd.grad(plain, exact, weight.double())
    found, width = {"values": distance(out, plain)}, HEADS * 32
    for name, at in (("q", 0), ("k", width), ("v", 2 * width)):
        found[name] = distance(change[..., at : at + width], expected[..., at : at + width])
    return found


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TwoPartAttentionTest(unittest.TestCase):
    def test_values_and_gradients_are_the_plain_ones(self) -> None:
        torch.manual_seed(1)
        for case in CASES:
            for name, found in distances(*case, torch.device("cpu"), torch.float64).items():
                with self.subTest(case=case, name=name):
                    self.assertLess(found, 1e-9)


if __name__ == "__main__":
    unittest.main()
