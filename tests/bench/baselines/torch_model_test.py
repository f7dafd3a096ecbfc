#!/usr/bin/env python3
"""The baseline is the model: golden numbers, and one form of it against the other."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import safetensors.torch
    import torch
    import torch_model as tm
except ImportError as missing:
    raise unittest.SkipTest(f'needs {missing.name}')

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'golden')


class Golden:
    def __init__(self, name, dtype, parts=1):
        folder = os.path.join(GOLDEN, name)
        self.expected = safetensors.torch.load_file(os.path.join(folder, 'expected.safetensors'))
        self.model = tm.load(folder).to(dtype)
        get = lambda name: self.expected[name].to(dtype)
        self.keys_values = tm.encode_context(self.model, get('x_context'), get('y_context'))
        self.context = tm.split_context(self.keys_values, parts)
        self.rows = tm.encode_rows(self.model, get('x_target'))
        self.y = get('y_target')


class TorchModelTest(unittest.TestCase):

    def assert_close(self, actual, expected, bound):
        worst = (actual.double() - expected.double()).abs().max().item()
        self.assertLess(worst, bound)  # false for NaN

    def test_encoding(self):
        golden = Golden('golden_base', torch.float32)
        self.assert_close(golden.keys_values[0][0], golden.expected['k_context_first'], 1e-5)
        self.assert_close(golden.keys_values[-1][1], golden.expected['v_context_last'], 1e-4)

    def test_densities_in_float32(self):
        for name, bound in (('golden_tiny', 2e-5), ('golden_base', 2e-3)):
            with self.subTest(name):
                golden = Golden(name, torch.float32)
                actual = tm.densities(golden.model, golden.context, golden.rows, golden.y)
                self.assert_close(actual, golden.expected['log_density'], bound)

    def test_densities_in_float64_with_a_context_in_parts(self):
        golden = Golden('golden_base', torch.float64, parts=4)
        actual = tm.densities(golden.model, golden.context, golden.rows, golden.y)
        self.assert_close(actual, golden.expected['log_density'], 1e-5)  # the fused lse

    def test_decode_has_the_densities_of_what_it_draws(self):
        golden = Golden('golden_base', torch.float64, parts=2)
        targets, paths = golden.rows.shape[0], 3
        decode = tm.Decode(golden.model, golden.context, golden.rows, paths)
        y, values, terms = torch.zeros(paths, dtype=torch.float64), [], []
        for t in range(targets):
            numbers = torch.rand(paths, dtype=torch.float64), torch.randn(paths, dtype=torch.float64)
            y, term = decode.step(torch.tensor([t]), y, *numbers)
            values.append(y)
            terms.append(term)
        forced = tm.densities(golden.model, golden.context, golden.rows, torch.stack(values, 1))
        self.assert_close(torch.stack(terms, 1), forced, 1e-9)

    def test_a_draw_is_of_the_mixture(self):
        mean, std = torch.tensor([[-1.0, 5.0]]), torch.tensor([[0.5, 2.0]])
        log_weight = torch.tensor([[0.25, 0.75]]).log()
        one = torch.ones(1)
        self.assertEqual(tm.draw(mean, std, log_weight, 0.2 * one, one).item(), -0.5)
        self.assertEqual(tm.draw(mean, std, log_weight, 0.3 * one, -one).item(), 3.0)


if __name__ == '__main__':
    unittest.main()
