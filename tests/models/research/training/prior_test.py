"""The prior: shapes, finite numbers, z-scores as the server makes them, true densities."""

from __future__ import annotations

import math
import unittest

try:
    import torch

    from models.research.training.prior.calendar import (
        UNITS,
        calendar_series,
        calendar_times,
        position,
    )
    from models.research.training.prior.distractors import add_distractors, running_index
    from models.research.training.prior.gaussian_process import draw_exact
    from models.research.training.prior.generator import (
        CONTEXTS,
        DISTRACTED,
        FEATURE_SHARES,
        FEATURES,
        SMALL,
        category_weights,
        draw_deck,
        draw_shape,
        generate,
        raw_tasks,
        scale_tasks,
        wide_tasks,
    )
    from models.research.training.prior.grouped import unit_column, units
    from models.research.training.prior.inputs import (
        MAX_CODES,
        mostly_one_value,
        observe,
        sample_latent,
    )
    from models.research.training.prior.linear import linear_process, slopes
    from models.research.training.prior.panels import panel_tasks, panel_values
    from models.research.training.prior.randomness import Randomness
    from models.research.training.prior.scaling import dictionary_places, masked_statistics
    from models.research.training.prior.spiked import (
        counts,
        gamma,
        graded,
        happens,
        least_share,
        rarity_weight,
        spiked_tasks,
        stopped,
    )
    from models.research.training.prior.targets import transform_target
    from models.research.training.prior.tasks import CATEGORIES, BatchShape
except ImportError:
    torch = None

NAN = float("nan")


@unittest.skipIf(torch is None, "PyTorch is not installed")
class GeneratorTest(unittest.TestCase):
    SHAPES = ((4, 4, 24, 1), (30, 16, 24, 7), (90, 64, 24, 3), (700, 60, 64, 2))

    def test_every_category_gives_finite_scaled_tasks(self) -> None:
        for category in CATEGORIES:
            for seed, sizes in enumerate(self.SHAPES):
                shape = BatchShape(5, *sizes)
                rng = Randomness(seed, 0, 0, "cpu")
                batch = scale_tasks([raw_tasks(rng, 5, shape, category)], shape)
                n, m, q, f = sizes
                with self.subTest(category=category, sizes=sizes):
                    self.assertEqual(batch.context.value.shape, (5, n, f))
                    self.assertEqual(batch.rows.value.shape, (5, m + q, f))
                    self.assertEqual(batch.rows_y.shape, (5, m + q))
                    for values in (batch.context.value, batch.rows.value, batch.rows_y):
                        self.assertTrue(torch.isfinite(values).all())
                    y = batch.context_y.double()
                    self.assertLess(y.mean(dim=1).abs().max().item(), 1e-3)
                    std = y.std(dim=1, correction=0)
                    varied = y.amax(dim=1) > y.amin(dim=1)
                    self.assertLess((std[varied] - 1).abs().max().item(), 1e-3)

    def test_same_step_same_batch(self) -> None:
        def batch(step: int):
            rng = Randomness(5, 1, step, "cpu")
            return generate(rng, draw_shape(rng, 800, 64))

        self.assertTrue(torch.equal(batch(3).rows_y, batch(3).rows_y))
        first, other = batch(3).rows_y, batch(4).rows_y
        self.assertFalse(first.shape == other.shape and torch.equal(first, other))

    def test_a_batch_mixes_generators_and_keeps_their_tasks_whole(self) -> None:
        shape = BatchShape(7, 20, 12, 24, 3)
        groups = [raw_tasks(Randomness(s, 0, 0, "cpu"), 2 + s, shape, "gp") for s in range(3)]
        whole = scale_tasks(groups, shape)
        place = 0
        for tasks in groups:
            alone, count = scale_tasks([tasks], shape), len(tasks.y)
            part = slice(place, place + count)
            torch.testing.assert_close(whole.rows_y[part], alone.rows_y)
            torch.testing.assert_close(whole.rows.value[part], alone.rows.value)
            torch.testing.assert_close(whole.oracle[part], alone.oracle, equal_nan=True)
            place += count

    def test_shapes_stay_within_bounds(self) -> None:
        seen = set()
        for step in range(300):
            shape = draw_shape(Randomness(1, 0, step, "cpu"), 160_000, 64)
            self.assertTrue(4 <= shape.context <= 4096)
            self.assertTrue(1 <= shape.buffer <= 64)
            self.assertTrue(1 <= shape.features <= 100)
            self.assertTrue(2 <= shape.tasks <= 2048)
            self.assertEqual((shape.context + shape.buffer) % 8, 0)
            seen.add((shape.context, shape.features))
        self.assertGreater(len(seen), 150)

    def test_a_deck_has_every_size_in_its_share(self) -> None:
        deck = draw_deck(Randomness(1, 0, 0, "cpu"), 90, 160_000, 64)
        for n in CONTEXTS:
            self.assertEqual(sum(shape.context == n for shape in deck), 3)
        for (low, high), share in zip(FEATURES, FEATURE_SHARES, strict=True):
            count = sum(low <= shape.features <= high for shape in deck)
            self.assertAlmostEqual(count, 90 * share, delta=1.5)
        self.assertGreaterEqual(max(shape.features for shape in deck), 80)

    def test_contexts_are_spread_evenly_among_shapes_of_few_features(self) -> None:
        for seed in range(20):
            deck = draw_deck(Randomness(seed, 0, 0, "cpu"), 120, 160_000, 64)
            for few in (1, 4):
                places = sorted(CONTEXTS.index(s.context) for s in deck if s.features <= few)
                self.assertGreaterEqual(len(places), 16)
                ends = [-1, *places, len(CONTEXTS)]
                self.assertLessEqual(max(b - a for a, b in zip(ends, ends[1:])), 5 if few == 1 else 3)

    def test_a_small_deck_is_spread_evenly(self) -> None:
        for count in (1, 10, 40):
            deck = draw_deck(Randomness(1, 0, 0, "cpu"), count, 160_000, 64)
            places = [CONTEXTS.index(shape.context) for shape in deck]
            self.assertAlmostEqual(sum(places) / count, (len(CONTEXTS) - 1) / 2, delta=0.51)
        with self.assertRaisesRegex(ValueError, "at least one"):
            draw_deck(Randomness(1, 0, 0, "cpu"), 0, 160_000, 64)

    def test_series_continue_in_time_order(self) -> None:
        """Of one feature, that is time: buffer rows come in time order, most after the context."""
        shape = BatchShape(40, 20, 12, 24, 1)
        tasks = raw_tasks(Randomness(2, 0, 0, "cpu"), 40, shape, "ordered")
        buffer = tasks.x[:, 20:32, 0]
        self.assertTrue((buffer.diff(dim=1) > 0).all())
        continues = buffer[:, 0] > tasks.x[:, :20, 0].amax(dim=1)
        self.assertTrue(0.5 < continues.float().mean().item() < 1.0)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class DistractorsTest(unittest.TestCase):
    def test_the_columns_of_the_task_are_still_there(self) -> None:
        shape = BatchShape(5, 20, 12, 24, 3)
        for seed, category in enumerate(CATEGORIES):
            rng = Randomness(seed, 0, 0, "cpu")
            tasks = raw_tasks(rng, 5, shape, category)
            wide = add_distractors(rng, tasks, 11)
            self.assertEqual(wide.x.shape, (5, shape.rows, 11))
            self.assertTrue(torch.equal(wide.y, tasks.y))
            same = (wide.x[:, :, :, None] == tasks.x[:, :, None, :]).all(dim=1)
            same &= wide.categorical[:, :, None] == tasks.categorical[:, None, :]
            self.assertTrue(same.any(dim=1).all(), category)

    def test_they_come_in_their_share(self) -> None:
        shape, wide, seeds = BatchShape(2, 20, 12, 24, 40), 0, 150
        for seed in range(seeds):
            tasks = wide_tasks(Randomness(seed, 0, 0, "cpu"), 2, shape, "linear")
            self.assertEqual(tasks.x.shape[2], 40)
            rng = Randomness(seed, 0, 0, "cpu")
            rng.host.random()  # the draw that decides whether they come
            wide += not torch.equal(tasks.y, raw_tasks(rng, 2, shape, "linear").y)
        self.assertAlmostEqual(wide / seeds, DISTRACTED, delta=0.12)

    def test_an_index_numbers_the_rows(self) -> None:
        index = running_index(Randomness(1, 0, 0, "cpu"), 60, 50)
        ordered = index.sort(dim=1).values
        self.assertTrue((ordered.diff(dim=1) == 1).all())
        in_order = (index == ordered).all(dim=1).float().mean().item()
        self.assertAlmostEqual(in_order, 0.5, delta=0.25)

    def test_a_table_of_few_columns_gets_none(self) -> None:
        shape = BatchShape(2, 20, 12, 24, 3)
        for seed in range(20):
            tasks = wide_tasks(Randomness(seed, 0, 0, "cpu"), 2, shape, "linear")
            same = raw_tasks(Randomness(seed, 0, 0, "cpu"), 2, shape, "linear")
            self.assertTrue(torch.equal(tasks.x, same.x))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class SharesTest(unittest.TestCase):
    def test_they_add_up_to_one_at_every_size(self) -> None:
        for context in (4, SMALL, SMALL + 1, 4096):
            for features in (1, 4, 5, 100):
                weights = category_weights(BatchShape(2, context, 8, 24, features))
                self.assertEqual(len(weights), len(CATEGORIES))
                self.assertAlmostEqual(sum(weights), 1.0)
                share = dict(zip(CATEGORIES, weights, strict=True))
                panels = share.pop("panel")
                self.assertEqual(panels > 0, features > 1)
                self.assertGreater(min(share.values()), 0.0)
                self.assertGreaterEqual(sum(weights[: CATEGORIES.index("spiked")]), 0.75)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class LinearTest(unittest.TestCase):
    def test_the_squares_of_slopes_add_up_to_one(self) -> None:
        size = slopes(Randomness(1, 0, 0, "cpu"), 50, 9)
        self.assertTrue((size > 0).all())
        torch.testing.assert_close(size.square().sum(dim=-1), torch.ones(50, 1))

    def test_a_line_explains_most(self) -> None:
        """Of a table with few columns and many rows, ordinary least squares leaves little."""
        for rows in (300, 900):
            rng = Randomness(3, 0, 0, "cpu")
            x = rng.normal(40, rows, 3)
            y, oracle = linear_process(rng, x)
            self.assertEqual(oracle is None, rows > 720)
            y = y.double() - y.double().mean(dim=1, keepdim=True)
            fit = torch.linalg.lstsq(x.double(), y[..., None]).solution
            rest = y - (x.double() @ fit).squeeze(-1)
            share = rest.square().mean(dim=1) / y.square().mean(dim=1)
            self.assertLess(share.median().item(), 0.3)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class GroupedTest(unittest.TestCase):
    def test_units_are_numbered_and_coded_one_to_one(self) -> None:
        rng = Randomness(2, 0, 0, "cpu")
        unit, count = units(rng, 50, 200)
        self.assertTrue(((unit >= 0) & (unit < count) & (count <= MAX_CODES)).all())
        code, categorical = unit_column(rng, unit, count)
        self.assertTrue(((code >= 0) & (code < count)).all())
        self.assertTrue(categorical.any() and not categorical.all())
        for task in range(50):
            pairs = set(zip(unit[task].tolist(), code[task].tolist(), strict=True))
            self.assertEqual(len(pairs), len(unit[task].unique()))
            self.assertEqual(len(pairs), len(code[task].unique()))

    def test_some_tasks_have_targets_of_new_units(self) -> None:
        unit, _ = units(Randomness(2, 0, 0, "cpu"), 200, 100)
        new = unit[:, 60:].amin(dim=1) >= unit[:, :60].amax(dim=1)
        self.assertTrue(0.05 < new.float().mean().item() < 0.5)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class CalendarTest(unittest.TestCase):
    def test_months_of_days(self) -> None:
        t = torch.tensor([[0.0, 29.0, 31.0, 364.0, 366.0]])
        self.assertEqual(position(t, (30.44, 12)).floor().tolist(), [[0.0, 0.0, 1.0, 11.0, 0.0]])

    def test_positions_fit_their_columns(self) -> None:
        t = torch.arange(30_000.0)[None]
        for cycle in (cycle for cycles in UNITS for cycle in cycles):
            at = position(t, cycle).floor()
            self.assertTrue(((at >= 0) & (at < cycle[1]) & (at < 64)).all())

    def test_a_season_of_one_cycle_repeats(self) -> None:
        """Means by position in the cycle explain more than means by another grouping."""
        rng = Randomness(4, 0, 0, "cpu")
        t = torch.arange(480.0).expand(60, -1).contiguous()
        y = calendar_series(rng, t, ((1, 12),), t.new_zeros(60, 480, 0))
        y = (y - y.mean(dim=1, keepdim=True)) / y.std(dim=1, keepdim=True)

        def explained(period: int) -> float:
            means = y.view(60, -1, period).mean(dim=1)
            return means.var(dim=1).mean().item()

        self.assertGreater(explained(12), 2 * explained(10))


    def test_workdays_leave_weekends_out(self) -> None:
        t = calendar_times(Randomness(1, 0, 0, "cpu"), 50, 400, workdays=True)
        self.assertTrue((t.diff(dim=1) > 0).all())
        weekday = torch.remainder(t - t[:, :1] + torch.remainder(t[:, :1], 7), 7)
        self.assertLess(weekday.max().item(), 5)
        whole = (t.diff(dim=1) <= 3).all(dim=1)  # where no day is missed
        self.assertTrue(0.5 < whole.float().mean().item() < 1.0)
        gaps = t[whole].diff(dim=1)
        self.assertAlmostEqual((gaps == 3).float().mean().item(), 0.2, delta=0.01)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class PanelsTest(unittest.TestCase):
    def test_series_share_their_dates(self) -> None:
        shape = BatchShape(20, 60, 12, 24, 2)
        for seed in range(8):
            x, _, y = panel_tasks(Randomness(seed, 0, 0, "cpu"), 20, shape)
            self.assertTrue(torch.isfinite(y).all())
            for task in range(20):
                columns = [x[task, :, f] for f in range(2)]
                date, series = sorted(columns, key=lambda c: -len(c.unique()))
                kinds = len(series.unique())
                self.assertTrue(2 <= kinds <= 24)
                self.assertEqual(len(date.unique()), -(-shape.rows // kinds))
                self.assertEqual(len(set(zip(date.tolist(), series.tolist()))), shape.rows)

    def test_most_targets_come_after_the_context(self) -> None:
        shape, later, tasks = BatchShape(20, 60, 12, 24, 1), 0, 0
        for seed in range(8):
            x, _, _ = panel_tasks(Randomness(seed, 0, 0, "cpu"), 20, shape)
            later += (x[:, 60:, 0].amin(dim=1) >= x[:, :60, 0].amax(dim=1)).sum().item()
            tasks += 20
        self.assertTrue(0.6 < later / tasks < 0.95)

    def test_a_season_is_common(self) -> None:
        """Of differences between dates, most series have much in common."""
        t = torch.arange(60.0).expand(40, -1).contiguous()
        y = panel_values(Randomness(3, 0, 0, "cpu"), t, ((1, 12),), 6).diff(dim=1)
        y = (y - y.mean(dim=1, keepdim=True)) / y.std(dim=1, keepdim=True)
        common = (y.mean(dim=2).var(dim=1) * 6).median().item()  # 1 if they were unrelated
        self.assertGreater(common, 2.0)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class SpikedTest(unittest.TestCase):
    @staticmethod
    def frequent(y) -> float:
        """[b] the share of rows that have the most frequent value."""
        ordered = y.sort(dim=1).values
        first = torch.searchsorted(ordered, ordered)
        last = torch.searchsorted(ordered, ordered, right=True)
        return (last - first).amax(dim=1) / y.shape[1]

    def test_most_targets_have_a_frequent_value(self) -> None:
        shape = BatchShape(400, 300, 12, 88, 3)
        _, _, y = spiked_tasks(Randomness(1, 0, 0, "cpu"), 400, shape)
        self.assertTrue(torch.isfinite(y).all())
        share = self.frequent(y)
        self.assertGreater((share > 0.15).float().mean().item(), 0.9)
        self.assertGreater((share > 0.5).float().mean().item(), 0.4)
        rare = ((share > 0.95) & (share < 1)).float().mean().item()
        self.assertTrue(0.03 < rare < 0.4, rare)

    def test_a_small_context_has_something_of_the_rarer_value(self) -> None:
        self.assertEqual(least_share(2, 0.01), 0.5)
        self.assertEqual(least_share(50, 0.01), 0.02)
        self.assertEqual(least_share(3000, 0.01), 0.01)
        _, _, y = spiked_tasks(Randomness(2, 0, 0, "cpu"), 400, BatchShape(400, 24, 8, 24, 3))
        varied = y[:, :24].amax(dim=1) > y[:, :24].amin(dim=1)
        self.assertGreater(varied.float().mean().item(), 0.8)

    def test_what_happens_follows_share_and_driver(self) -> None:
        rng = Randomness(3, 0, 0, "cpu")
        share = torch.tensor([[0.02], [0.3]]).repeat(200, 1)
        nothing = torch.zeros(400, 500)
        happened = happens(rng, share, nothing).float().view(200, 2, 500).mean(dim=(0, 2))
        torch.testing.assert_close(happened, torch.tensor([0.02, 0.3]), atol=0.005, rtol=0.02)
        driver = rng.normal(400, 500)
        happened = happens(rng, share, driver)
        self.assertGreater(driver[happened].mean().item(), 0.4)

    def test_counts_and_grades_are_whole_and_bounds_hold(self) -> None:
        rng = Randomness(4, 0, 0, "cpu")
        y = counts(rng, 300, torch.zeros(300, 200))
        self.assertTrue(torch.equal(y, y.round()) and (y >= 0).all())
        rates = y.mean(dim=1)
        self.assertTrue(0.02 < rates.quantile(0.05) < 0.3 and 2 < rates.quantile(0.95) < 9)
        levels = torch.tensor([len(row.unique()) for row in graded(rng, rng.normal(300, 200))])
        self.assertTrue(2 <= levels.float().median() and levels.max() <= 7)
        y = stopped(rng, rng.normal(300, 200))
        self.assertGreater(((self.frequent(y) > 0.05).float().mean()).item(), 0.9)

    def test_rare_values_weigh_more(self) -> None:
        y = torch.zeros(4, 200)
        y[0, :2], y[1, :8], y[2, :90] = 5.0, 5.0, 5.0
        torch.testing.assert_close(rarity_weight(y), torch.tensor([2.0, 1.25, 0.5, 0.5]))
        shape = BatchShape(8, 300, 8, 24, 3)
        for category, heavy in (("spiked", True), ("gp", False)):
            tasks = [raw_tasks(Randomness(s, 0, 0, "cpu"), 8, shape, category) for s in range(4)]
            weight = scale_tasks(tasks, shape).weight
            self.assertEqual(weight.max().item() > 1, heavy)
            self.assertEqual(weight.min().item() < 1, heavy)

    def test_gamma_has_mean_one(self) -> None:
        y = gamma(Randomness(5, 0, 0, "cpu"), torch.full((50, 2000), 0.5))
        self.assertAlmostEqual(y.mean().item(), 1.0, delta=0.02)
        self.assertAlmostEqual(y.var().item(), 2.0, delta=0.1)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TargetsTest(unittest.TestCase):
    def test_transformed_targets_are_finite_and_varied(self) -> None:
        for seed in range(5):
            rng = Randomness(seed, 0, 0, "cpu")
            y = rng.normal(300, 100)
            out = transform_target(rng, y, most=1.0)
            self.assertTrue(torch.isfinite(out).all())
            self.assertGreater((out.amax(dim=1) > out.amin(dim=1)).float().mean().item(), 0.97)
            inside = ((out >= 0) & (out <= 1)).all(dim=1).float().mean().item()
            self.assertTrue(0.01 < inside < 0.2)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class RandomnessTest(unittest.TestCase):
    def test_choices_come_in_their_shares(self) -> None:
        chosen = Randomness(1, 0, 0, "cpu").choice([2.0, 0.0, 1.0, 5.0], 80_000)
        shares = torch.bincount(chosen, minlength=4) / 80_000
        for share, expected in zip(shares.tolist(), (0.25, 0.0, 0.125, 0.625), strict=True):
            self.assertAlmostEqual(share, expected, delta=0.01)

    def test_uniform_and_log_uniform_stay_in_their_range(self) -> None:
        rng = Randomness(1, 0, 0, "cpu")
        for draw in (rng.uniform(0.1, 10.0, 50_000), rng.log_uniform(0.1, 10.0, 50_000)):
            self.assertTrue(((draw >= 0.0999) & (draw <= 10.001)).all())
        self.assertAlmostEqual(rng.uniform(0.0, 4.0, 50_000).mean().item(), 2.0, delta=0.05)
        logs = rng.log_uniform(0.1, 10.0, 50_000).log()
        self.assertAlmostEqual(logs.mean().item(), 0.0, delta=0.05)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TrueDensityTest(unittest.TestCase):
    def test_against_the_multivariate_normal(self) -> None:
        torch.manual_seed(1)
        a = torch.randn(2, 9, 9, dtype=torch.float64)
        kernel = a @ a.transpose(1, 2) + torch.eye(9)
        noise = torch.tensor([0.3, 0.7])
        full = kernel + noise.double().square()[:, None, None] * torch.eye(9)
        y, oracle = draw_exact(Randomness(1, 0, 0, "cpu"), kernel.clone(), noise)
        for task in range(2):
            expected = torch.distributions.MultivariateNormal(
                torch.zeros(9, dtype=torch.float64), full[task]
            ).log_prob(y[task])
            self.assertAlmostEqual(oracle[task].sum().item(), expected.item(), places=4)

    def test_the_scaled_density_carries_the_jacobian(self) -> None:
        shape = BatchShape(6, 40, 8, 24, 2)
        for seed in range(20):
            rng = Randomness(seed, 0, 0, "cpu")
            tasks = raw_tasks(rng, 6, shape, "gp")
            if tasks.oracle is not None:
                break
        batch = scale_tasks([tasks], shape)
        std = tasks.y[:, :40].std(dim=1, correction=0, keepdim=True)
        expected = tasks.oracle[:, 40:48] + torch.log(std)
        torch.testing.assert_close(batch.oracle.double(), expected, atol=1e-5, rtol=1e-5)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class ColumnsTest(unittest.TestCase):
    def test_statistics_leave_missing_cells_out(self) -> None:
        x = torch.tensor([[1.0, NAN], [3.0, NAN], [NAN, NAN], [5.0, NAN]], dtype=torch.float64)
        mean, std = masked_statistics(x, ~torch.isnan(x), dim=0)
        self.assertEqual(mean.tolist(), [[3.0, 0.0]])
        self.assertAlmostEqual(std[0, 0].item(), math.sqrt(8 / 3))
        self.assertEqual(std[0, 1].item(), 1.0)

    def test_a_constant_column_is_scaled_by_its_magnitude(self) -> None:
        x = torch.full((7, 1), 0.1, dtype=torch.float64)
        mean, std = masked_statistics(x, torch.ones_like(x, dtype=torch.bool), dim=0)
        self.assertEqual((mean.item(), std.item()), (0.1, 0.1))
        mean, std = masked_statistics(0 * x, torch.ones_like(x, dtype=torch.bool), dim=0)
        self.assertEqual((mean.item(), std.item()), (0.0, 1.0))

    def test_places_in_the_dictionary_of_the_context(self) -> None:
        x = torch.tensor([[[7.0, 7.0], [2.0, 2.0], [7.0, 7.0], [3.0, 3.0], [NAN, 2.0]]])
        places = dictionary_places(x, torch.tensor([[True, False]]), context=3, most=32)
        torch.testing.assert_close(
            places[0, :, 0], torch.tensor([1.0, 0.0, 1.0, NAN, NAN]), equal_nan=True
        )
        torch.testing.assert_close(places[0, :, 1], x[0, :, 1])

    def test_columns_that_are_mostly_one_value(self) -> None:
        rng = Randomness(1, 0, 0, "cpu")
        x, effect = mostly_one_value(rng, rng.normal(60, 200, 5))
        self.assertTrue(torch.equal(x == 0, effect == 0))
        share = (x == 0).float().mean(dim=1)
        self.assertTrue(0.49 < share.min() < 0.6 and 0.9 < share.max() <= 0.985)
        self.assertTrue((x >= 0).all() and torch.isfinite(effect).all() and effect.max() <= 8)
        of_one = torch.stack([effect[0, :, 0], x[0, :, 0]])[:, x[0, :, 0] > 0]
        self.assertGreater(torch.corrcoef(of_one)[0, 1].item(), 0.95)

    def test_observed_codes_are_whole_and_bounded(self) -> None:
        found = 0
        for seed in range(10):
            rng = Randomness(seed, 0, 0, "cpu")
            latent = sample_latent(rng, 6, 200, 5)
            observed, effect, categorical = observe(rng, latent, discrete=0.5)
            codes = observed.transpose(1, 2)[categorical]
            found += len(codes)
            self.assertTrue(torch.equal(codes, codes.round()))
            self.assertTrue(((codes >= 0) & (codes < 32)).all())
            self.assertTrue(torch.isfinite(effect).all())
        self.assertGreater(found, 0)


if __name__ == "__main__":
    unittest.main()
