"""Tests of the attention that training on a GPU runs: the kernels, and attention in two parts in bf16.

By hand, on a GPU, from the repository root; a test that cannot run there fails:

    PYTHONPATH=. python3 tests/models/research/training/kernels_on_gpu.py

The kernels alone also run without one, slowly, in Triton's interpreter (TRITON_INTERPRET=1).
"""

from __future__ import annotations

import unittest

import torch

from attention_test import CASES, HEADS, distance, distances
from models.research.training.query_attention import (
    Sizes,
    back_over_buffer,
    by_head,
    merge_buffer,
    over_context,
)
from models.research.training.set_attention import attend_sets_plainly


def device_and_type() -> tuple:
    if torch.cuda.is_available():
        return torch.device("cuda"), torch.bfloat16
    return torch.device("cpu"), torch.float32


class TwoPartAttentionTest(unittest.TestCase):
    def test_on_a_gpu(self) -> None:
        torch.manual_seed(2)
        for case in CASES:
            for name, found in distances(*case, torch.device("cuda"), torch.bfloat16).items():
                with self.subTest(case=case, name=name):
                    self.assertLess(found, 1e-2 if name == "values" else 2e-2)


class BufferKernelTest(unittest.TestCase):
    def test_is_the_spelt_out_part(self) -> None:
        from models.research.training.query_attention_kernels import (
            back_over_buffer_fused,
            merge_buffer_fused,
        )

        torch.manual_seed(3)
        device, kind = device_and_type()
        for tasks, n, m, others in ((2, 6, 5, 4), (1, 3, 64, 70)):
            qkv = torch.randn(tasks, n + 2 * m + others, 3 * HEADS * 32, device=device).to(kind)
            counts = [torch.arange(1, m + 1), torch.arange(m), torch.zeros(others)]
            seen = torch.cat(counts).int().to(device)
            q, k, v = by_head(qkv, HEADS)
            out, lse, _ = over_context(q, k[:, :, :n], v[:, :, :n])
            out, lse = out.transpose(1, 2).contiguous().transpose(1, 2), lse.contiguous()
            merged, merged_lse = out.clone(), lse.clone()
            merge_buffer_fused(qkv, seen, Sizes(n, m, HEADS), merged, merged_lse)
            keys = slice(n, n + m)
            args = [t.float() for t in (q[:, :, n:], k[:, :, keys], v[:, :, keys])]
            wide, wide_lse = out.float(), lse.float()
            merge_buffer(*args, seen, wide[:, :, n:], wide_lse[:, :, n:])
            bound = 1e-2 if kind == torch.bfloat16 else 1e-3
            self.assertLess(distance(merged, wide), bound)
            self.assertLess(distance(merged_lse, wide_lse), bound)

            gradient = torch.randn_like(qkv[..., : HEADS * 32])
            change = torch.full_like(qkv, 0.25)
            sizes = Sizes(n, m, HEADS)
            back_over_buffer_fused(gradient, qkv, seen, sizes, merged, merged_lse, change)
            by_heads = gradient.unflatten(-1, (HEADS, -1)).transpose(1, 2).float()
            dq, dk, dv = back_over_buffer(
                by_heads[:, :, n:], *args, seen, wide[:, :, n:], wide_lse[:, :, n:]
            )
            to_q, to_k, to_v = by_head(change, HEADS)
            self.assertLess(distance(to_q[:, :, n:], dq + 0.25), bound)
            self.assertLess(distance(to_k[:, :, keys], dk), bound)
            self.assertLess(distance(to_v[:, :, keys], dv), bound)
            self.assertTrue((change[:, :n] == 0.25).all())
            self.assertTrue((change[:, n + m :, HEADS * 32 :] == 0.25).all())


class SetKernelTest(unittest.TestCase):
    def test_is_the_spelt_out_attention(self) -> None:
        from models.research.training.set_attention_kernels import backward, forward

        torch.manual_seed(4)
        device, kind = device_and_type()
        bound = 1e-2 if kind == torch.bfloat16 else 2e-3
        # Cells of rows, pooled cells, points of a column, cells and points.
        for sets, n, keys in ((37, 5, 5), (9, 4, 7), (3, 70, 70), (2, 300, 16), (1, 1100, 16),
                              (5, 16, 30), (70, 1, 1), (3, 4, 100), (2, 16, 128)):  # fmt: skip
            for shared in (False, True):
                q = torch.randn(1 if shared else sets, n, HEADS * 16, device=device).to(kind)
                q = q.expand(sets, -1, -1)
                k, v = (torch.randn(sets, keys, HEADS * 16, device=device).to(kind) for _ in "kv")
                gradient = torch.randn(sets, n, HEADS * 16, device=device).to(kind)
                exact = [t.detach().double().requires_grad_() for t in (q, k, v)]
                plain = attend_sets_plainly(*exact, HEADS)
                expected = torch.autograd.grad(plain, exact, gradient.double())
                with self.subTest(sets=sets, n=n, keys=keys, shared=shared):
                    self.assertLess(distance(forward(q, k, v, HEADS), plain), bound)
                    changes = backward(q, k, v, gradient, HEADS)
                    for one, other in zip(changes, expected, strict=True):
                        if other.norm() > 1e-6:
                            self.assertLess(distance(one, other), 2 * bound)
                        else:  # of a single key
                            self.assertLess(one.abs().max().item(), bound)


if __name__ == "__main__":
    unittest.main()
