"""Tests the groups of keys that merging uses, in float64."""

import functools
import unittest

import required_packages  # noqa: F401

try:
    import torch

    from models.research.evaluate import memory_groups as grouping
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class GroupsTest(unittest.TestCase):
    KEYS, CELL = 203, 16

    def setUp(self) -> None:
        random = torch.Generator().manual_seed(10)
        self.k = torch.randn(3, self.KEYS, 4, generator=random).double()
        self.k[0, :50] += 30.0  # a dense region far from the others
        self.k[1, 20:] = self.k[1, :1]  # copies
        self.w = torch.rand(3, self.KEYS, generator=random).double() * 5 + 1

    def groupings(self):
        yield "flat", grouping.flat
        yield "coarse", functools.partial(grouping.coarse, cell=self.CELL)
        for principal in (False, True):
            for potential in (False, True):
                name = f"halves, principal {principal}, potential {potential}"
                ways = {"principal": principal, "potential": potential, "cell": self.CELL}
                yield name, functools.partial(grouping.halves, **ways)

    def test_groups_have_a_centre_each_and_all_keys(self):
        for name, groups in self.groupings():
            for count in (1, 2, 13, 40, 101, 202, 203):
                with self.subTest(name, count=count):
                    one, again = (
                        groups(self.k, self.w, count, torch.Generator().manual_seed(count))
                        for _ in range(2)
                    )
                    self.assertEqual(one.centre.shape, (3, count))
                    self.assertEqual(one.home.shape, (3, self.KEYS))
                    self.assertTrue(all(len(set(row)) == count for row in one.centre.tolist()))
                    own = one.home.gather(1, one.centre)
                    self.assertEqual(own.tolist(), 3 * [list(range(count))])
                    self.assertTrue(torch.equal(one.centre, again.centre))
                    self.assertTrue(torch.equal(one.home, again.home))

    def test_keys_join_the_nearest_centre_of_their_cell(self):
        random = torch.Generator().manual_seed(11)
        coarse, _, first = grouping.coarse_cells(self.k, self.w, 13, random)
        halved = [
            grouping.halved_cells(self.k, self.w, 40, self.CELL, principal=principal)
            for principal in (False, True)
        ]
        for cells, start in ((coarse, first), (halved[0], None), (halved[1], None)):
            value = torch.rand(cells.size.shape, generator=random)
            quota = grouping.allocate(value, cells.size, 40)
            found = grouping.spread_in_cells(self.k, self.w, cells, quota, random, start)
            for b in range(3):
                members = [
                    index[:size].tolist()
                    for index, size in zip(cells.keys[b], cells.size[b], strict=True)
                ]
                self.assertEqual(sorted(sum(members, [])), list(range(self.KEYS)))
                for cell, many in zip(members, quota[b].tolist(), strict=True):
                    centres = sorted(set(found.centre[b].tolist()) & set(cell))
                    self.assertEqual(len(centres), many)
                    homes = found.centre[b, found.home[b, cell]]
                    self.assertLessEqual(set(homes.tolist()), set(centres))
                    away = torch.cdist(self.k[b, cell], self.k[b, centres])
                    own = (self.k[b, cell] - self.k[b, homes]).norm(dim=1)
                    torch.testing.assert_close(own, away.amin(dim=1), atol=1e-4, rtol=0)

    def test_cells_are_the_keys_nearest_to_their_centre(self):
        cells, potential, first = grouping.coarse_cells(
            self.k, self.w, 13, torch.Generator().manual_seed(12)
        )
        seeds = cells.keys.gather(2, first[..., None])[..., 0]
        away = torch.cdist(self.k, grouping.at(self.k, seeds)).square()
        total = (self.w * away.amin(dim=2)).sum(dim=1)
        torch.testing.assert_close(potential.sum(dim=1), total, atol=1e-5, rtol=1e-6)
        for cell in range(13):
            index = cells.keys[0, cell, : cells.size[0, cell]]
            own = away[0, index, cell]
            torch.testing.assert_close(own, away[0, index].amin(dim=1), atol=1e-6, rtol=1e-6)

    def test_halves_divide_the_widest_coordinate_at_its_median(self):
        k = torch.randn(1, 65, 3, generator=torch.Generator().manual_seed(13)).double()
        k[..., 1] *= 10.0
        w = torch.ones(1, 65).double()
        cells = grouping.halved_cells(k, w, 65, 33, principal=False)
        self.assertEqual(cells.size.tolist(), [[33, 32]])
        low, high = k[0, cells.keys[0, 0], 1], k[0, cells.keys[0, 1, :32], 1]
        self.assertLess(low.max(), high.min())
        turned = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(14)))
        along = grouping.halved_cells(k @ turned.Q.double(), w, 65, 33, principal=True)
        both = set(along.keys[0, 0].tolist()) & set(cells.keys[0, 0].tolist())
        self.assertIn(len(both), (*range(4), *range(30, 34)))  # the direction's sign is free
        sizes = grouping.halved_cells(self.k, self.w, 203, 7, principal=False).size
        self.assertEqual(sizes.shape, (3, 32))
        self.assertLessEqual(set(sizes.flatten().tolist()), {6, 7})

    def test_centres_are_allocated_by_value_within_the_sizes(self):
        size = torch.tensor([[10, 10, 10], [2, 30, 1], [5, 5, 5], [9, 4, 4]])
        value = torch.tensor([[1.0, 2.0, 1.0], [9.0, 1.0, 5.0], [0.0, 0.0, 0.0], [8.0, 3.0, 1.0]])
        found = grouping.allocate(value, size, 11).tolist()
        self.assertEqual(found, [[3, 5, 3], [2, 8, 1], [4, 4, 3], [6, 3, 2]])
        self.assertEqual(grouping.allocate(value[:1], size[:1], 30).tolist(), [[10, 10, 10]])
        self.assertEqual(grouping.allocate(value[:1], size[:1], 3).tolist(), [[1, 1, 1]])
        random = torch.Generator().manual_seed(15)
        size = torch.randint(1, 40, (50, 8), generator=random)
        value = torch.rand(50, 8, generator=random).pow(8)
        for count in (8, 20, int(size.sum(dim=1).min())):
            found = grouping.allocate(value, size, count)
            self.assertEqual(set(found.sum(dim=1).tolist()), {count})
            self.assertTrue(((found >= 1) & (found <= size)).all())

    def test_variance_within_groups_falls_with_their_number(self):
        last = torch.ones(3).double()
        for count in (1, 8, 64, 203):
            random = torch.Generator().manual_seed(16)
            found = grouping.coarse(self.k, self.w, count, random, cell=self.CELL)
            share = grouping.within(self.k, self.w, found)
            if count == 1:
                torch.testing.assert_close(share, last)
            self.assertTrue((share <= last + 1e-9).all())
            last = share
        torch.testing.assert_close(last, torch.zeros(3).double())


if __name__ == "__main__":
    unittest.main()
