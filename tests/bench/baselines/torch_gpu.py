#!/usr/bin/env python3
"""PyTorch on a GPU as the baseline of gpu_bench: the same model, the same work, the same protocol.

Usage: torch_gpu.py --measure decode|density|encode [--paths B] [--context-rows N] [--targets T]
                    [--d-model N] [--heads N] [--d-ff N] [--rounds N] [--runs N]
                    [--device cuda|cpu]

bfloat16, compiled by torch.compile with static shapes, and one CUDA graph of all that is timed: for
decode, all T steps. Several forms are tried, and the fastest is kept: the fused attentions of
PyTorch, and FlashAttention-4 where flash-attn-4 is installed; and where the paths are few, with the
context in parts, which gives the attention more blocks. Before anything is timed, the log-densities that each decode reports of its own draws are held against teacher forcing
in float32, uncompiled; an encoding's keys against the same in float32.

Prints one JSON line when all is ready, then one for each round: the median of --runs runs in
microseconds (per step of a decode). With --rounds=0 a round is run for each line of standard input.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import time
import traceback

import torch
import torch._dynamo

import torch_attention
import torch_model as tm

FEATURES = 4
MULTIPROCESSORS = 132
ROWS_OF_A_BLOCK = 128  # of the fused attention, about
WARM_UPS = 3
CHECKED_PATHS = 64
# What bfloat16 may cost on average: nats of a log-density, and share of a key's spread.
DENSITY_BOUND = 0.1
ENCODING_BOUND = 0.05


def synchronize(device):
    if device == 'cuda':
        torch.cuda.synchronize()


class Recorded:
    """A function of no arguments as one CUDA graph; run as it is elsewhere."""

    def __init__(self, body, device):
        self.body, self.device = body, device
        for _ in range(WARM_UPS if device == 'cuda' else 1):
            body()
        if device == 'cuda':
            torch.cuda.synchronize()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                body()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.result = body()

    def run(self):
        if self.device == 'cuda':
            self.graph.replay()
        else:
            self.result = self.body()
        return self.result

    def microseconds(self):
        synchronize(self.device)
        start = time.perf_counter()
        self.run()
        synchronize(self.device)
        return (time.perf_counter() - start) * 1e6


def prepared(function, device):
    if device != 'cuda':
        return function
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False, fullgraph=True)


def context_parts(config, paths, rows):
    """1, and where the paths alone do not keep all multiprocessors busy, parts that do or nearly."""
    blocks = config.n_heads * -(-2 * paths // ROWS_OF_A_BLOCK)
    parts = 1
    while blocks * parts < MULTIPROCESSORS and rows % (2 * parts) == 0 and rows // (2 * parts) >= 128:
        parts *= 2
    return sorted({1, max(1, parts // 4), parts})


class Problem:
    def __init__(self, arguments):
        self.device, self.targets = arguments.device, arguments.targets
        self.paths = arguments.paths
        small = {'n_layers': 2} if arguments.device == 'cpu' else {}
        self.config = tm.Config(d_model=arguments.d_model, n_heads=arguments.heads,
                                d_ff=arguments.d_ff, buffer_size=self.targets, **small)
        self.dtype = torch.bfloat16 if self.device == 'cuda' else torch.float32
        model = tm.random_model(self.config)
        self.exact = model.to(torch.float32, self.device)
        self.model = model.to(self.dtype, self.device)
        generator = torch.Generator().manual_seed(1)
        rand = lambda *shape: (2 * torch.rand(*shape, generator=generator) - 1).to(self.device)
        self.x, self.y = rand(arguments.context_rows, FEATURES), rand(arguments.context_rows)
        self.rows_x = rand(self.targets, FEATURES)
        self.uniform = torch.rand(self.targets, self.paths, generator=generator).to(self.device)
        self.normal = torch.randn(self.targets, self.paths, generator=generator).to(self.device)

    def with_attention(self, attention):
        return dataclasses.replace(self.model, attention=attention)

    def context(self, model, parts):
        x = self.x.to(model.layers[0]['out'].dtype)
        return tm.split_context(tm.encode_context(model, x, self.y), parts)

    def rows(self, model):
        return tm.encode_rows(model, self.rows_x.to(model.layers[0]['out'].dtype))

    def check(self, terms, values, bound):
        """Holds log-densities of the first paths to those in float32, without anything compiled."""
        expected = tm.densities(self.exact, self.context(self.exact, 1), self.rows(self.exact),
                                values[:CHECKED_PATHS])
        return difference(terms[:CHECKED_PATHS], expected, bound, 'log-densities')


def difference(actual, expected, bound, what):
    error = (actual.float() - expected.float()).abs()
    if not error.mean().item() <= bound:  # true for NaN
        sys.exit(f'{what}: mean error {error.mean().item():g}, worst {error.max().item():g}')
    return {'mean_difference': error.mean().item(), 'worst_difference': error.max().item()}


def decode_form(problem, model, parts):
    decode = tm.Decode(model, problem.context(model, parts), problem.rows(model), problem.paths)
    step = prepared(decode.step, problem.device)
    first = torch.zeros(problem.paths, device=problem.device)
    places = [torch.tensor([t], device=problem.device) for t in range(problem.targets)]

    def all_steps():
        y, values, terms = first, [], []
        for t, place in enumerate(places):
            y, term = step(place, y, problem.uniform[t], problem.normal[t])
            values.append(y)
            terms.append(term)
        return torch.stack(values, 1), torch.stack(terms, 1)

    recorded = Recorded(all_steps, problem.device)
    values, terms = recorded.run()
    synchronize(problem.device)
    return recorded, problem.check(terms, values, DENSITY_BOUND), problem.targets


def density_form(problem, model, parts):
    context, rows = problem.context(model, parts), problem.rows(model)
    values = problem.normal.t().contiguous()
    one_pass = prepared(lambda y: tm.densities(model, context, rows, y), problem.device)
    recorded = Recorded(lambda: one_pass(values), problem.device)
    terms = recorded.run()
    synchronize(problem.device)
    # Densities of values that the model did not draw lie far out, where bfloat16 costs more.
    return recorded, problem.check(terms, values, 5 * DENSITY_BOUND), 1


def encode_form(problem, model, parts):
    del parts
    x = problem.x.to(problem.dtype)
    encode = prepared(lambda x, y: tm.encode_context(model, x, y), problem.device)
    recorded = Recorded(lambda: encode(x, problem.y), problem.device)
    keys_values = recorded.run()
    synchronize(problem.device)
    if problem.x.shape[0] > 16384:
        return recorded, {}, 1  # in float32 this would take longer than all rounds
    exact = tm.encode_context(problem.exact, problem.x, problem.y)
    spread = exact[-1][0].std()
    check = difference(keys_values[-1][0] / spread, exact[-1][0] / spread, ENCODING_BOUND,
                       'keys of the last layer')
    return recorded, check, 1


FORMS = {'decode': decode_form, 'density': density_form, 'encode': encode_form}


def forms(problem, measure):
    """What is tried: the attention with its name, and parts of the context."""
    if problem.device != 'cuda':
        return [('exact', torch_attention.exact, 1)]
    rows = problem.x.shape[0]
    tokens = problem.paths * (problem.targets if measure == 'density' else 1)
    parts = [1] if measure == 'encode' else context_parts(problem.config, tokens, rows)
    return [(name, attention, each) for name, attention in torch_attention.timed().items()
            for each in parts]


class Form:
    def __init__(self, name, recorded, check, units):
        self.name, self.recorded, self.check, self.units = name, recorded, check, units

    def round(self, runs):
        self.recorded.microseconds()
        return statistics.median(self.recorded.microseconds() for _ in range(runs)) / self.units


def working_forms(problem, measure):
    """Those that can be recorded, and why others cannot."""
    found, failed = [], []
    for attention_name, attention, parts in forms(problem, measure):
        name = f'{attention_name}, context in {parts}'
        try:
            model = problem.with_attention(attention)
            found.append(Form(name, *FORMS[measure](problem, model, parts)))
        except Exception as error:  # pylint: disable=broad-except  # one that fails leaves the others
            traceback.print_exc()
            failed.append(f'{name}: {str(error).splitlines()[0][:200]}')
    if not found:
        sys.exit(f'no form runs: {failed}')
    return found, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--measure', choices=sorted(FORMS), required=True)
    parser.add_argument('--paths', type=int, default=512)
    parser.add_argument('--context-rows', type=int, default=1024)
    parser.add_argument('--targets', type=int, default=32)
    parser.add_argument('--d-model', type=int, default=128)
    parser.add_argument('--heads', type=int, default=4)
    parser.add_argument('--d-ff', type=int, default=256)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    arguments = parser.parse_args()

    start = time.perf_counter()
    with torch.no_grad():
        found, failed = working_forms(Problem(arguments), arguments.measure)
        name = torch.cuda.get_device_name() if arguments.device == 'cuda' else 'cpu'
        print(json.dumps({'measure': arguments.measure, 'torch': torch.__version__, 'device': name,
                          'checks': {form.name: form.check for form in found}, 'failed': failed,
                          'set_up_s': round(time.perf_counter() - start, 1)}), flush=True)
        best = None
        lines = sys.stdin if arguments.rounds == 0 else range(arguments.rounds)
        for _ in lines:
            if best is None:  # only now, when nobody else uses the device
                best = min(found, key=lambda form: form.round(5))
            print(json.dumps({'us': best.round(arguments.runs), 'form': best.name}), flush=True)


if __name__ == '__main__':
    main()
