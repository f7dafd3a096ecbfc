#!/usr/bin/env python3
"""PyTorch on the CPU as the baseline of Chorale's decode loop: the same model, the same work.

Usage: torch_decode_cpu.py [--threads N] [--runs N] [--points B,Nctx ...] [--forms NAME ...]

One step advances B paths by one target: two tokens per path (the newest buffer token and the next
target) go through all layers, attend to the context's keys and values, which all paths share, and
to their own path's buffer; the mixture head gives parameters; a value is drawn from them. float32.

What makes it a strong baseline, and not a naive one:
  - the context is never replicated: per head, the rows of all paths are one batch of queries
    against one set of keys;
  - context and buffer are merged by their log-sum-exp, nothing is concatenated;
  - buffers are preallocated, feature attention is folded into one matrix, Q, K and V are one matrix;
  - matrices go through oneDNN with weights packed once, which is twice as fast here as the MKL
    product that PyTorch would choose; the context's keys and values can be packed so too;
  - several formulations are tried at each point (see FORMS), and the fastest is reported.
Every formulation is held against a plain float64 reference before it is timed.

Prints one JSON line per formulation and, for the fastest of each point, one with "best": true.
Needs PyTorch >= 2.2 and, for the compiled formulations, a C++ compiler.
"""

import argparse
import dataclasses
import json
import math
import statistics
import sys
import time

import torch
import torch._dynamo
import torch._inductor.config as inductor
import torch.nn.functional as F

D, H, LAYERS, DFF, M = 128, 4, 12, 256, 20
DH = D // H
T = 32
SCALE = DH ** -0.5
STD_MIN, STD_MAX = 1e-3, 2.0
POINTS = ((64, 442), (512, 1024), (64, 8192))
TOLERANCE = 2e-3  # absolute, on the head's raw outputs, which are of order one


# ---- The model ------------------------------------------------------------------------------


@dataclasses.dataclass
class Weights:
    layers: list       # of dicts
    head: dict
    y_weight: torch.Tensor    # [D]
    places: torch.Tensor      # [T, D], marker and buffer token of each buffer place
    marker: torch.Tensor      # [D], of targets

    def to(self, dtype):
        cast = lambda d: {name: tensor.to(dtype) for name, tensor in d.items()}
        return Weights([cast(layer) for layer in self.layers], cast(self.head),
                       self.y_weight.to(dtype), self.places.to(dtype), self.marker.to(dtype))


def random_weights():
    matrix = lambda out, inner: torch.randn(out, inner) / math.sqrt(inner)
    vector = lambda n: torch.randn(n) * 0.1
    layer = lambda: {
        'feature': torch.eye(D) + 0.1 * matrix(D, D),
        'qkv': matrix(3 * D, D), 'out': matrix(D, D),
        'w1': matrix(DFF, D), 'b1': vector(DFF), 'w2': matrix(D, DFF), 'b2': vector(D),
        **{f'g{i}': 1 + vector(D) for i in (1, 2, 3)}, **{f'n{i}': vector(D) for i in (1, 2, 3)}}
    head = {'g': 1 + vector(D), 'n': vector(D), 'w1': matrix(DFF, D), 'b1': vector(DFF),
            'w2': matrix(3 * M, DFF), 'b2': vector(3 * M)}
    return Weights([layer() for _ in range(LAYERS)], head, torch.randn(D), torch.randn(T, D),
                   torch.randn(D))


def head_forward(x, w):
    """[rows, D] -> [rows, M, 3] raw."""
    z = F.layer_norm(x, (D,), w['g'], w['n'])
    return F.linear(F.gelu(F.linear(z, w['w1'], w['b1'])), w['w2'], w['b2']).view(-1, M, 3)


def draw(raw, uniform, normal):
    """One value per row from [rows, M, 3], given a uniform and a normal number per row: [rows]."""
    mean, std, weight = raw.unbind(-1)
    cumulative = torch.softmax(weight, -1).cumsum(-1)
    component = (cumulative < uniform[:, None]).sum(-1, keepdim=True).clamp_(max=M - 1)
    chosen_std = F.softplus(std.gather(1, component)).clamp(max=STD_MAX) + STD_MIN
    return (mean.gather(1, component) + chosen_std * normal[:, None])[:, 0]


# ---- Formulations ---------------------------------------------------------------------------


class FlashContext:
    """The context of one layer, attended to by PyTorch's fused kernel."""

    def __init__(self, keys, values):
        self.keys, self.values = keys[None], values[None]  # [1, H, Nctx, Dh]

    def attend(self, q):
        """q [H, rows, Dh] -> out [H, rows, Dh], lse [H, rows]."""
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q[None], self.keys, self.values, scale=SCALE)
        return out[0], lse[0]


def chunks(rows, n):
    """Slices of rows whose scores, n per row, take at most 1 MiB and so stay in the cache."""
    size = max(16, (256 << 10) // n)
    return [slice(begin, min(begin + size, rows)) for begin in range(0, rows, size)]


def exponentials(scores):
    """scores [..., n] -> exp(scores - lse) [..., n], lse [..., 1]."""
    top = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    return weights / total, top + total.log()


class MatmulContext:
    """The same by two batched matrix products, in chunks of rows."""

    def __init__(self, keys, values):
        self.keys, self.values = keys.transpose(1, 2).contiguous(), values  # [H, Dh, Nctx]

    def attend(self, q):
        outs, lses = [], []
        for part in chunks(q.shape[1], self.values.shape[1]):
            p, lse = exponentials(torch.bmm(q[:, part] * SCALE, self.keys))
            outs.append(torch.bmm(p, self.values))
            lses.append(lse[..., 0])
        return torch.cat(outs, 1), torch.cat(lses, 1)


def packed(matrix, rows):
    return torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), rows)


def packed_linear(x, matrix, bias=None, activation='none'):
    return torch.ops.mkldnn._linear_pointwise(
        x, matrix, bias, activation, [], 'none' if activation == 'gelu' else '')


class PackedContext:
    """Keys and values packed for oneDNN, one linear map per head; the exponentials are fused."""

    fused = None

    def __init__(self, keys, values):
        if PackedContext.fused is None:
            PackedContext.fused = torch.compile(exponentials, dynamic=True)
        self.n = keys.shape[1]
        rows = max(16, (256 << 10) // self.n)
        self.keys = [packed(k * SCALE, rows) for k in keys]
        self.values = [packed(v.t(), rows) for v in values]

    def attend(self, q):
        out, lse = torch.empty_like(q), torch.empty(q.shape[:2])
        for head in range(H):
            for part in chunks(q.shape[1], self.n):
                p, part_lse = PackedContext.fused(packed_linear(q[head, part], self.keys[head]))
                out[head, part] = packed_linear(p, self.values[head])
                lse[head, part] = part_lse[:, 0]
        return out, lse


def merge(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid(lse_a - lse_b)[..., None]
    return out_b + (out_a - out_b) * share


class Trunk(torch.nn.Module):
    """All layers and the head. A module, so that the compiler sees its weights as constants."""

    def __init__(self, weights, static):
        super().__init__()
        parameters = lambda d: torch.nn.ParameterDict(
            {name: torch.nn.Parameter(tensor, requires_grad=False) for name, tensor in d.items()})
        self.blocks = torch.nn.ModuleList(parameters(layer) for layer in weights.layers)
        self.head = parameters(weights.head)
        self.static = static

    def prepare(self, rows):
        """Called once before the first step of `rows` rows."""

    def linear(self, x, w, name, bias=None, activation='none'):
        y = F.linear(x, w[name], bias)
        return F.gelu(y) if activation == 'gelu' else y

    def buffer_attention(self, q, keys, values, place, mask):
        """q [B, H, 2, Dh] -> out, lse over the buffer up to `place`."""
        if not self.static:
            keys, values = keys[:, :, :place + 1], values[:, :, :place + 1]
        scores = torch.matmul(q, keys.transpose(2, 3)) * SCALE
        if self.static:
            scores = scores + mask
        lse = torch.logsumexp(scores, -1)
        return torch.matmul(torch.exp(scores - lse[..., None]), values), lse

    def attend(self, qkv, context, buffer, place, mask):
        """[B * Lq, 3 D] -> [B * Lq, D]; appends to the buffer if Lq is 2."""
        paths = buffer[0].shape[0]
        width = qkv.shape[0] // paths
        q, k, v = qkv.view(paths, width, 3, H, DH).unbind(2)
        rows = q.reshape(paths * width, H, DH).transpose(0, 1)  # [H, B * Lq, Dh]
        out, lse = context.attend(rows.contiguous())
        out = out.transpose(0, 1)  # [B * Lq, H, Dh]
        if width == 2:
            for cache, new in zip(buffer, (k[:, 0], v[:, 0])):
                if self.static:
                    cache.index_copy_(2, place[None], new[:, :, None])
                else:
                    cache[:, :, place] = new
            buffer_out, buffer_lse = self.buffer_attention(q.transpose(1, 2), *buffer, place, mask)
            out = merge(out, lse.transpose(0, 1),
                        buffer_out.transpose(1, 2).reshape(paths * width, H, DH),
                        buffer_lse.transpose(1, 2).reshape(paths * width, H))
        return out.reshape(paths * width, D)

    def forward(self, x, context, buffer, place, mask):
        """x [B * Lq, D] -> raw [B, M, 3] of the targets. Lq is 1 without a buffer, else 2."""
        for i, w in enumerate(self.blocks):
            x = F.layer_norm(self.linear(x, w, 'feature'), (D,), w['g1'], w['n1'])
            attended = self.attend(self.linear(x, w, 'qkv'), context[i], buffer[i], place, mask)
            x = F.layer_norm(x + self.linear(attended, w, 'out'), (D,), w['g2'], w['n2'])
            hidden = self.linear(x, w, 'w1', w['b1'], 'gelu')
            x = F.layer_norm(x + self.linear(hidden, w, 'w2', w['b2']), (D,), w['g3'], w['n3'])
        return head_forward(x.view(buffer[0][0].shape[0], -1, D)[:, -1], self.head)


class PackedTrunk(Trunk):
    """The same with weights packed for oneDNN."""

    def prepare(self, rows):
        self.packed = {id(w): {name: packed(matrix, rows) for name, matrix in w.items()
                               if matrix.dim() == 2} for w in self.blocks}

    def linear(self, x, w, name, bias=None, activation='none'):
        return packed_linear(x, self.packed[id(w)][name], bias, activation)


class Decoder:
    """B paths against one context. `step` takes the values of target t-1 and gives raw outputs."""

    def __init__(self, weights, context, paths, form):
        self.w, self.paths = weights, paths
        self.context = [form.context(keys, values) for keys, values in context]
        self.buffer = [(torch.zeros(paths, H, T, DH), torch.zeros(paths, H, T, DH))
                       for _ in range(LAYERS)]
        # Compiled code has static shapes: it looks at all T places and masks those to come. Eager
        # code looks at the first t only.
        self.static = form.compiled
        trunk = form.trunk(weights, static=form.compiled).eval()
        trunk.prepare(paths * 2)
        self.forward = torch.compile(trunk, dynamic=False) if form.compiled else trunk
        self.masks = torch.where(torch.arange(T)[None, :] <= torch.arange(T)[:, None], 0.0,
                                 -math.inf)  # [T, T]: row p sees places 0..p

    def step(self, t, rows, y):
        """rows [T, D] encoded targets; y [B] values of target t-1 -> raw [B, M, 3] of target t."""
        target = (rows[t] + self.w.marker).expand(self.paths, 1, D)
        if t == 0:
            return self.forward(target.reshape(self.paths, D), self.context, self.buffer, None,
                                None)
        token = (rows[t - 1] + self.w.places[t - 1]) + y[:, None] * self.w.y_weight
        tokens = torch.cat([token[:, None], target], 1).view(self.paths * 2, D)
        place = torch.tensor(t - 1) if self.static else t - 1
        return self.forward(tokens, self.context, self.buffer, place, self.masks[t - 1])


@dataclasses.dataclass(frozen=True)
class Form:
    trunk: type
    context: type
    compiled: bool = False
    autotune: bool = False  # also tries generated matrix kernels


FORMS = {
    'mkl_flash': Form(Trunk, FlashContext),
    'onednn_flash': Form(PackedTrunk, FlashContext),
    'onednn_packed': Form(PackedTrunk, PackedContext),
    'compiled_flash': Form(Trunk, FlashContext, compiled=True),
    'compiled_matmul': Form(Trunk, MatmulContext, compiled=True),
    'autotuned_flash': Form(Trunk, FlashContext, compiled=True, autotune=True),
    'autotuned_matmul': Form(Trunk, MatmulContext, compiled=True, autotune=True),
}


# ---- Reference ------------------------------------------------------------------------------


def reference(weights, context, rows, y, t):
    """Raw outputs [paths, M, 3] of target t given y [paths, t], in float64 and by definition."""
    w = weights.to(torch.float64)
    rows, y = rows.double(), y.double()
    paths = y.shape[0]
    buffer = rows[:t] + w.places[:t] + y[:, :, None] * w.y_weight            # [paths, t, D]
    x = torch.cat([buffer, (rows[t] + w.marker).expand(paths, 1, D)], 1)     # [paths, t + 1, D]
    allowed = torch.ones(t + 1, t + 1, dtype=torch.bool).tril()
    allowed[t, t] = False  # a target does not see itself
    for layer, (keys, values) in zip(w.layers, context):
        x = F.layer_norm(F.linear(x, layer['feature']), (D,), layer['g1'], layer['n1'])
        q, k, v = (z.view(paths, t + 1, H, DH).transpose(1, 2)
                   for z in F.linear(x, layer['qkv']).split(D, -1))
        to_context = torch.matmul(q, keys.double().transpose(1, 2)) * SCALE
        to_buffer = torch.matmul(q, k.transpose(2, 3)) * SCALE
        to_buffer = to_buffer.masked_fill(~allowed, -math.inf)
        p = torch.softmax(torch.cat([to_context, to_buffer], -1), -1)
        n = keys.shape[1]
        out = torch.matmul(p[..., :n], values.double()) + torch.matmul(p[..., n:], v)
        x = x + F.linear(out.transpose(1, 2).reshape(paths, t + 1, D), layer['out'])
        x = F.layer_norm(x, (D,), layer['g2'], layer['n2'])
        hidden = F.gelu(F.linear(x, layer['w1'], layer['b1']))
        x = F.layer_norm(x + F.linear(hidden, layer['w2'], layer['b2']), (D,), layer['g3'],
                         layer['n3'])
    return head_forward(x[:, -1], w.head)


def validate(decoder, weights, context, rows):
    """Runs all steps on given values; the largest deviation from the reference, on four paths."""
    y = torch.randn(decoder.paths, T)
    chosen = torch.linspace(0, decoder.paths - 1, 4).long()
    worst = 0.0
    for t in range(T):
        raw = decoder.step(t, rows, y[:, t - 1])
        if t in (0, 1, 2, T // 2, T - 1):
            expected = reference(weights, context, rows, y[chosen, :t], t)
            worst = max(worst, (raw[chosen].double() - expected).abs().max().item())
    return worst


# ---- Timing ---------------------------------------------------------------------------------


def run(decoder, rows):
    """Draws all T targets of all paths; seconds."""
    started = time.perf_counter()
    y = torch.zeros(decoder.paths)
    for t in range(T):
        raw = decoder.step(t, rows, y)
        y = draw(raw, torch.rand(decoder.paths), torch.randn(decoder.paths))
    if not torch.isfinite(y).all():
        raise RuntimeError('a value drawn is not finite')
    return time.perf_counter() - started


def measure(paths, n, form, weights, runs):
    torch.manual_seed(1)
    context = [(torch.randn(H, n, DH), torch.randn(H, n, DH)) for _ in range(LAYERS)]
    rows = torch.randn(T, D)
    decoder = Decoder(weights, context, paths, FORMS[form])
    error = validate(decoder, weights, context, rows)
    if not error < TOLERANCE:
        raise RuntimeError(f'{form} at B={paths} Nctx={n} is wrong by {error}')
    run(decoder, rows)
    seconds = [run(decoder, rows) for _ in range(runs)]
    return {'form': form, 'B': paths, 'Nctx': n, 'T': T, 'threads': torch.get_num_threads(),
            'us_per_step': round(statistics.median(seconds) / T * 1e6, 1),
            'us_per_step_min': round(min(seconds) / T * 1e6, 1), 'max_error': float(f'{error:.2g}')}


def set_up_compiler(form):
    torch._dynamo.reset()
    PackedContext.fused = None
    inductor.freezing = True  # weights are constants, packed once
    inductor.max_autotune = form.autotune
    inductor.max_autotune_gemm_backends = 'CPP,ATEN'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--threads', type=int, default=torch.get_num_threads())
    parser.add_argument('--runs', type=int, default=7)
    parser.add_argument('--points', nargs='+', default=[f'{b},{n}' for b, n in POINTS])
    parser.add_argument('--forms', nargs='+', choices=FORMS, default=list(FORMS))
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    weights = random_weights()
    for point in arguments.points:
        paths, n = (int(number) for number in point.split(','))
        results = []
        for form in arguments.forms:
            set_up_compiler(FORMS[form])
            try:
                with torch.no_grad():
                    results.append(measure(paths, n, form, weights, arguments.runs))
                print(json.dumps(results[-1]), flush=True)
            except Exception as error:  # a formulation that this version cannot run
                print(f'{form} at {point}: {error}'[:400], file=sys.stderr)
        if not results:
            return 1
        best = min(results, key=lambda result: result['us_per_step'])
        print(json.dumps({**best, 'best': True, 'torch': torch.__version__}), flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
