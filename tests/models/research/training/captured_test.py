"""Batches that are copied into the memory of a captured step."""

from __future__ import annotations

import unittest

try:
    import torch
    from torch.utils import _pytree as pytree

    from models.research.training.captured import copy, tensors, twin
    from models.research.training.prior.generator import generate
    from models.research.training.prior.randomness import Randomness
    from models.research.training.prior.tasks import BatchShape
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TwinTest(unittest.TestCase):
    SHAPE = BatchShape(6, 12, 4, 5, 3)

    def batch(self, step: int):
        return generate(Randomness(1, 0, step, "cpu"), self.SHAPE)

    @staticmethod
    def leaves(batch) -> list:
        return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]

    def test_every_tensor_of_a_batch_is_copied(self) -> None:
        batch = twin(self.batch(1))
        copied = {tensor.data_ptr() for tensor in tensors(batch)}
        self.assertEqual({leaf.data_ptr() for leaf in self.leaves(batch)}, copied)

    def test_a_twin_has_memory_of_its_own(self) -> None:
        batch = self.batch(1)
        storages = {t.untyped_storage().data_ptr() for t in self.leaves(batch)}
        for tensor in self.leaves(twin(batch)):
            self.assertNotIn(tensor.untyped_storage().data_ptr(), storages)

    def test_a_twin_becomes_the_batch_copied_into_it(self) -> None:
        own, other = twin(self.batch(1)), self.batch(2)
        copy(other, own)
        for mine, theirs in zip(self.leaves(own), self.leaves(other), strict=True):
            torch.testing.assert_close(mine, theirs, equal_nan=True)


if __name__ == "__main__":
    unittest.main()
