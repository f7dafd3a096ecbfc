"""Tests sets of kept keys against all rows, dropped keys and repeated keys, in float64."""

import unittest

import required_packages  # noqa: F401
import numpy as np

from models.research.evaluate import memory_report, memory_tables
from models.research.evaluate.mixture import Mixture as Reference

try:
    import torch

    from models.research.evaluate import memory_policies as policies
    from models.research.evaluate import memory_groups as grouping
    from models.research.evaluate import memory_rows, memory_scores, memory_sets
    from models.research.evaluate.memory_chunks import as_kept, encode_after, fill_in_chunks
    from models.research.evaluate.memory_model import Reader, attend, encode
    from models.research.training.mixture import Mixture
    from models.research.training.model import JointModel
    from models.research.training.model_config import default_config
    from models.research.training.predictor import Table
    from models.research.training.sampling import by_head
except ImportError:
    torch = None

ROWS, NAME = 40, "function"


def question(rows: int = ROWS) -> memory_tables.Question:
    return memory_tables.question(NAME, rows, seed=1)


class TablesTest(unittest.TestCase):
    def test_contexts_are_nested_and_questions_the_same(self):
        for name in ("fair", "elevation", "rare", "drift", "process8", "tree"):
            small, large = (memory_tables.question(name, rows, 2) for rows in (64, 256))
            with self.subTest(name):
                np.testing.assert_array_equal(small.x, large.x[:64])
                np.testing.assert_array_equal(small.target_y, large.target_y)
                self.assertTrue(np.isfinite(large.y).all())
                self.assertLess(abs(large.y.mean()), 0.5)

    def test_blocks_of_a_grid_are_squares_and_not_in_the_context(self):
        asked = memory_tables.question("topography", 8192, 3)
        for block in asked.target_x:
            self.assertEqual(np.ptp(block, axis=0).tolist(), [3.0, 3.0])
        cells = {tuple(cell) for cell in asked.x}
        self.assertEqual(len(cells), 8192)
        self.assertFalse(cells & {tuple(cell) for cell in asked.target_x.reshape(-1, 2)})

    def test_the_truth_has_the_density_of_the_noise(self):
        for name, noise in (("function", 0.2), ("rare", 0.2), ("process4", 0.1)):
            asked = memory_tables.question(name, 64, 4)
            scale = memory_tables._drawn(name, 4).y.std()
            expected = -0.5 * np.log(2 * np.pi * np.e * (noise / scale) ** 2)
            self.assertAlmostEqual(asked.truth.mean(), expected, delta=0.15)

    def test_the_rare_region_has_one_row_in_a_hundred(self):
        asked = memory_tables.question("rare", 65_536, 5)
        self.assertAlmostEqual((asked.x[:, 0] > 2.3263).mean(), 0.01, delta=0.002)
        inside = asked.target_x[:, :, 0] > 2.3263
        np.testing.assert_array_equal(inside, np.repeat(asked.rare[:, None], 16, axis=1))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class SetsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        torch.manual_seed(4)
        config = default_config("cell_attention")
        config.n_layers, config.d_model, config.n_heads, config.d_ff = 2, 32, 2, 48
        cls.model = JointModel(config).double().eval()
        with torch.no_grad():  # a model just made attends evenly
            for layer in cls.model.trunk.backbone.layers:
                layer.attn_rows.q_proj.weight.mul_(6.0)
        with torch.inference_mode():
            cls.experiment = memory_sets.Experiment(cls.model, question(), 0, paths=4)
            cls.whole = cls.experiment.all_rows().scores

    def close(self, first, second, atol=1e-9) -> None:
        torch.testing.assert_close(first, second, atol=atol, rtol=0)

    @torch.inference_mode()
    def test_reads_as_the_model_does(self) -> None:
        asked, e = question(), self.experiment
        table = Table(asked.x, asked.y, asked.categorical)
        device, dtype = torch.device("cpu"), torch.float64
        y = table.context_y(device, dtype)[None]
        cells = table.context_cells(device, torch.float32)
        cells = cells._replace(value=cells.value.double())
        state = self.model.row_encoder.fit(cells, y)
        self.close(self.model.row_encoder.encode(state, cells), e.rows.context, 1e-6)
        z = (e.target_y - e.rows.mean) / e.rows.std
        reader = Reader(e.trunk, e.full, e.rows.targets)
        found, share = reader.along(z[None])
        prefixes = torch.arange(z.shape[1])
        rows = e.rows.targets[0]
        expected = e.trunk(e.rows.context, e.rows.y, rows, z, rows, prefixes)
        for part, of_model in zip(found, expected, strict=True):
            self.close(part[0], of_model)
        self.assertTrue(0 < share.item() < 1)
        alone = e.trunk(e.rows.context, e.rows.y, rows[:, :0], z[:, :0], rows, 0 * prefixes)
        self.close(reader.alone().mean[0], alone.mean)

    @torch.inference_mode()
    def test_draws_are_those_of_the_rows_before(self) -> None:
        e = self.experiment
        reader = Reader(e.trunk, e.full, e.rows.targets)
        u, noise = e.noise.u[:, None], e.noise.e[:, None]
        drawn = reader.sample(u, noise)
        steps = drawn.shape[-1]
        for path in range(drawn.shape[2]):
            y = torch.zeros(1, 16, 16, dtype=torch.float64)
            y[..., :steps] = drawn[:, :, path]
            mixture, _ = reader.along(y)
            for step in range(steps):
                row = Mixture(*(part[0, :, step] for part in mixture))
                chosen = (row.log_weight + u[step, 0, :, path]).argmax(dim=-1, keepdim=True)
                mean, std = (part.gather(-1, chosen)[:, 0] for part in row[1:])
                self.close(drawn[0, :, path, step], mean + std * noise[step, 0, :, path], 1e-6)

    @torch.inference_mode()
    def test_as_many_keys_as_rows_are_all_rows(self) -> None:
        e = self.experiment
        for name, policy in policies.POLICIES.items():
            chosen = policy(e.scored, ROWS, e.random)
            with self.subTest(name):
                if name.endswith("fit_w"):
                    continue
                kept = as_kept([chosen], e.layers)
                found = e.score(kept, e.rows, None)
                self.close(found.log_density, self.whole.log_density)
                self.close(found.joint, self.whole.joint)

    @torch.inference_mode()
    def test_effect_is_that_of_dropping_the_key(self) -> None:
        random = torch.Generator().manual_seed(1)
        q, k, v = (torch.randn(3, n, 8, generator=random).double() for n in (20, 30, 30))
        log_w = torch.randn(3, 30, generator=random).double()
        hidden = torch.zeros(3, 20, 30, dtype=torch.bool)
        hidden[:, torch.arange(20), torch.arange(20)] = True
        mass, effect, lse, out = policies.ask(q, k, v, log_w, hidden)
        scores = (q @ k.transpose(1, 2) + log_w[:, None]).masked_fill(hidden, -torch.inf)
        p = scores.softmax(dim=-1)
        self.close(mass, p.mean(dim=1))
        self.close(out, p @ v)
        self.close(lse, scores.logsumexp(dim=-1))
        for key in range(30):  # differences of squares lose digits
            without = scores.clone()
            without[:, :, key] = -torch.inf
            change = without.softmax(dim=-1) @ v - out
            self.close(effect[:, key], change.square().sum(dim=-1).mean(dim=1), 1e-6)

    @torch.inference_mode()
    def test_a_weight_of_two_is_a_key_twice(self) -> None:
        random = torch.Generator().manual_seed(2)
        q, k, v = (torch.randn(1, 2, n, 8, generator=random).double() for n in (5, 6, 6))
        log_w = torch.zeros(1, 2, 6).double()
        log_w[..., 3] = np.log(2.0)
        out, lse = attend(q, k, v, log_w)
        twice = [torch.cat([part, part[:, :, 3:4]], dim=2) for part in (k, v)]
        expected, of_all = attend(q, *twice, torch.zeros(1, 2, 7).double())
        self.close(out, expected)
        self.close(lse, of_all)
        large = 60.0 * torch.ones(1, 2, 6).double()
        self.close(attend(q, k, v, log_w - large)[0], out)

    @torch.inference_mode()
    def test_a_row_of_weight_two_is_a_row_twice(self) -> None:
        e = self.experiment
        log_w = torch.zeros(1, ROWS).double()
        log_w[0, 7] = np.log(2.0)
        found, _ = encode(e.trunk, e.rows.context, e.rows.y, log_w)
        index = [*range(ROWS), 7]
        expected, _ = encode(e.trunk, e.rows.context[:, index], e.rows.y[:, index])
        self.close(found.k, expected.k[:, :, :, :ROWS])
        scores = [e.score(kept, e.rows, None) for kept in (found, expected)]
        self.close(scores[0].joint, scores[1].joint)

    @torch.inference_mode()
    def test_weights_keep_the_mass(self) -> None:
        scored, random = self.experiment.scored, self.experiment.random
        for name in ("kv_random_w", "merge_w", *grouping.GROUPINGS):
            chosen = policies.POLICIES[name](scored, 16, random)
            self.close(chosen.log_w.logsumexp(dim=1).exp(), torch.full((4,), float(ROWS)).double())
        heavy = policies.POLICIES["heavy_mass_w"](scored, 16, random)
        kept = scored.mass.sort(dim=1, descending=True).values[:, :16].sum(dim=1)
        self.close(kept * heavy.log_w[:, 0].exp(), torch.ones(4).double())
        total = torch.zeros(4).double()
        for _ in range(2000):
            total += policies.POLICIES["sample_mass_w"](scored, 16, random).log_w.exp().sum(dim=1)
        self.close(total / 2000, torch.full((4,), float(ROWS)).double(), 1.0)

    @torch.inference_mode()
    def test_fitted_values_come_closer_to_what_the_queries_got(self) -> None:
        scored, random = self.experiment.scored, self.experiment.random

        def error(chosen: policies.Chosen) -> float:
            scores = scored.q @ chosen.k.transpose(1, 2) + chosen.log_w[:, None]
            own = chosen.ids[:, None] == scored.asked[:, None]
            out = scores.masked_fill(own, -torch.inf).softmax(dim=-1) @ chosen.v
            return (out - scored.out).square().mean().item()

        names = ("heavy_effect_w", "heavy_fit_w")
        before, after = (error(policies.POLICIES[n](scored, 12, random)) for n in names)
        self.assertLess(after, 0.5 * before)

    @torch.inference_mode()
    def test_one_chunk_is_the_whole_and_its_order_does_not_matter(self) -> None:
        e = self.experiment
        order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(3))
        policy = policies.POLICIES["heavy_effect_w"]
        expected = policy(e.scored, 10, e.random)
        found = fill_in_chunks(e.trunk, e.rows, order, e.asked, ROWS, 10, policy, e.random)
        torch.testing.assert_close(found.ids, expected.ids)
        self.close(found.log_w, expected.log_w)
        for count in (10, ROWS):
            found = fill_in_chunks(e.trunk, e.rows, order, e.asked, 16, count, policy, e.random)
            self.assertEqual(found.k.shape[1], count)
            self.assertTrue(all(len(set(ids)) == count for ids in found.ids.tolist()))

    @torch.inference_mode()
    def test_rows_after_a_set_see_it_and_their_chunk(self) -> None:
        e = self.experiment
        first = encode_after(e.trunk, None, e.rows.context[:, :25], e.rows.y[:, :25])
        alone, _ = encode(e.trunk, e.rows.context[:, :25], e.rows.y[:, :25])
        for part, expected in zip(first, alone, strict=True):
            self.close(part, expected)
        both = encode_after(e.trunk, first, e.rows.context[:, 25:], e.rows.y[:, 25:])
        x = e.trunk.embedder.with_y(e.rows.context[:, 25:], e.rows.y[:, 25:], 1)
        layer = e.trunk.backbone.layers[0]
        x, qkv = layer.begin(x)
        q, k, v = (by_head(part, 2) for part in qkv.chunk(3, dim=-1))
        self.close(both.k[0, :, :, 25:], k)
        k, v = torch.cat([first.k[0], k], dim=2), torch.cat([first.v[0], v], dim=2)
        out = torch.softmax(q @ k.transpose(-1, -2) / 4.0, dim=-1) @ v
        x = layer.finish(x, out.transpose(1, 2).flatten(-2))
        second = by_head(e.trunk.backbone.layers[1].begin(x)[1].chunk(3, dim=-1)[1], 2)
        self.close(both.k[1, :, :, 25:], second)

    @torch.inference_mode()
    def test_seeds_are_distinct_and_spread(self) -> None:
        random = torch.Generator().manual_seed(5)
        k = torch.randn(2, 60, 3, generator=random) * 0.01
        k[:, 0] += 100.0
        seeds = grouping.spread_seeds(k, torch.ones(2, 60), 16, random)
        for one in seeds.tolist():
            self.assertEqual(len(set(one)), 16)
            self.assertIn(0, one)

    @torch.inference_mode()
    def test_a_choice_without_importance_needs_no_measurement(self) -> None:
        e, policy = self.experiment, policies.POLICIES["halves_w"]
        found = []
        for asked in (e.asked, None):
            order, random = torch.arange(ROWS), torch.Generator().manual_seed(7)
            found.append(fill_in_chunks(e.trunk, e.rows, order, asked, 16, 10, policy, random))
        for part, expected in zip(*found, strict=True):
            torch.testing.assert_close(part, expected, atol=0, rtol=0)

    @torch.inference_mode()
    def test_rows_near_and_rows_that_stand_for_all(self) -> None:
        random = torch.Generator().manual_seed(6)
        cells = torch.randn(500, 3, generator=random)
        targets = torch.randn(2, 4, 3, generator=random)
        chosen = memory_rows.local(cells, targets, 40, 1.0)
        for block, rows in zip(targets, chosen, strict=True):
            self.assertEqual(len(set(rows.tolist())), 40)
            near = torch.cdist(block, cells).topk(10, dim=1, largest=False).indices
            self.assertLessEqual(set(near.flatten().tolist()), set(rows.tolist()))
        y = torch.randn(500, generator=random)
        spread, log_w = memory_rows.stratified(cells, y, 64, random)
        self.assertAlmostEqual(log_w.exp().sum().item(), 500.0, delta=0.1)
        self.assertEqual(len(set(spread.tolist())), 64)
        share = (y[spread] < y.median()).float().mean().item()
        self.assertAlmostEqual(share, 0.5, delta=0.1)

    def test_scores_are_those_of_the_reference(self) -> None:
        random = np.random.default_rng(7)
        weight = random.dirichlet(np.ones(5), 30)
        mean, std = random.normal(size=(30, 5)), random.uniform(0.1, 1.0, (30, 5))
        y = random.normal(size=30)
        mixture = Mixture(*map(torch.from_numpy, (np.log(weight), mean, std)))
        found = memory_scores.mixture_crps(mixture, torch.from_numpy(y)).numpy()
        np.testing.assert_allclose(found, Reference(weight, mean, std).crps(y), atol=1e-12)
        draws = torch.randn(2000, 59, generator=torch.Generator().manual_seed(8)).double()
        ordered = draws.sort(dim=1).values
        value = torch.from_numpy(random.normal(size=2000))
        crps = memory_scores.sample_crps(ordered, value)
        apart = (ordered[:, :, None] - ordered[:, None]).abs().sum(dim=(1, 2)) / (59 * 58)
        expected = (ordered - value[:, None]).abs().mean(dim=1) - 0.5 * apart
        self.close(crps, expected, 1e-12)
        low, high = ordered[:, memory_scores.EDGE - 1], ordered[:, -memory_scores.EDGE]
        fresh = torch.randn(2000, generator=torch.Generator().manual_seed(9)).double()
        inside = ((low < fresh) & (fresh < high)).double().mean().item()
        self.assertAlmostEqual(inside, 0.9, delta=0.02)

    def test_a_run_of_arms_has_a_line_for_each(self) -> None:
        asked = memory_tables.question("function", 64, 1)
        arms = memory_sets.arms_of("merge_mean_w,cells_w:16,2048")
        lines = list(memory_sets.run(self.model, "function", asked, 0, 3, (16,), arms))
        expected = ["truth", "all", "random", "chunks16_merge_mean_w", "chunks_merge_mean_w"]
        expected += ["chunks16_cells_w", "chunks_cells_w"]
        self.assertEqual([line["method"] for line in lines], expected)
        for line in lines[3:]:
            self.assertTrue(0 < line["within"] < 1)
            self.assertGreater(line["distances"], 0)
            self.assertTrue(np.isfinite(line["joint"]))
        every = memory_sets.arms_of(":512")
        self.assertEqual([arm.grouping for arm in every], list(grouping.GROUPINGS))
        page = memory_report.page(
            [{"table": "function", "n": 64, "seed": 1, **line} for line in lines],
            "chunks_merge_mean_w",
        )
        self.assertIn("## joint, less that of `chunks_merge_mean_w`", page)
        self.assertIn("| `chunks16_cells_w` |", page)

    def test_a_run_has_a_line_for_every_way(self) -> None:
        asked = memory_tables.question("rare", 64, 1)
        lines = list(memory_sets.run(self.model, "rare", asked, 0, 3, (16,)))
        methods = [line["method"] for line in lines]
        expected = {"truth", "all", *memory_sets.ROWS, *policies.POLICIES}
        expected |= set(memory_sets.LOCAL_SHARES)
        self.assertEqual(set(methods), expected)
        self.assertEqual(len(methods), len(expected))
        for line in lines[1:]:
            self.assertTrue(np.isfinite([v for v in line.values() if not isinstance(v, str)]).all())
            both = (line["rare"] + line["ordinary"]) / 2
            self.assertAlmostEqual(line["log_density"], both, places=5)


class ReportTest(unittest.TestCase):
    def test_differences_are_paired(self):
        lines = [
            {"table": table, "n": 64, "seed": seed, "m": 16, "method": method, "log_density": value}
            for table, seed, level in (("a", 0, 1.0), ("a", 1, 3.0), ("b", 0, -5.0))
            for method, value in (("random", level), ("local", level + 0.5))
        ]
        cells = memory_report.differences(lines, "log_density", "random")
        found = cells[64, 16, "local"]
        self.assertAlmostEqual(found.mean, 0.5)
        self.assertAlmostEqual(found.error, 0.0)
        self.assertEqual(found.units, 3)


if __name__ == "__main__":
    unittest.main()
