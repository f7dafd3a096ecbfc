"""The reference architecture in plain PyTorch, written for speed but not by hand-made kernels.

What makes it a strong baseline, and not a naive one:
  - the context is never replicated: per head, the rows of all paths are one batch of queries
    against one set of keys, in a fused attention (torch_attention.py); where there are few rows,
    the context is cut into parts, so that there is work for all multiprocessors;
  - context and buffer are merged by their log-sum-exp, nothing is concatenated;
  - buffers are preallocated, feature attention is folded into one matrix, Q, K and V are one matrix;
  - shapes never change, so that every function here can be compiled whole, and recorded with others
    into one CUDA graph.

Any floating-point type, any device. Mixtures and draws are float32 at least.
"""

import dataclasses
import json
import math
import os

import torch
import torch.nn.functional as F

import torch_attention


@dataclasses.dataclass(frozen=True)
class Config:
    d_model: int = 128
    n_heads: int = 4
    n_layers: int = 12
    d_ff: int = 256
    num_components: int = 20
    buffer_size: int = 32
    std_min: float = 1e-3
    std_max: float = 2.0

    @property
    def d_head(self):
        return self.d_model // self.n_heads


@dataclasses.dataclass(frozen=True)
class Model:
    """Weights by name; see the tensors of the file format in `load`."""
    config: Config
    embedding: dict
    layers: list
    head: dict
    attention: object = torch_attention.exact

    def to(self, dtype=None, device=None):
        move = lambda tensors: {name: t.to(device, dtype) for name, t in tensors.items()}
        return dataclasses.replace(self, embedding=move(self.embedding),
                                   layers=[move(l) for l in self.layers], head=move(self.head))


def random_model(config, seed=0):
    """In float32 on the CPU. Its activations are of order one."""
    draw = torch.Generator().manual_seed(seed)
    vector = lambda n, scale=0.1: torch.randn(n, generator=draw) * scale
    matrix = lambda out, inner: torch.randn(out, inner, generator=draw) / math.sqrt(inner)
    d, ff, m = config.d_model, config.d_ff, config.num_components
    layers = [{
        'feature': torch.eye(d) + 0.3 * matrix(d, d), 'qkv': matrix(3 * d, d), 'out': matrix(d, d),
        'w1': matrix(ff, d), 'b1': vector(ff), 'w2': matrix(d, ff), 'b2': vector(d),
        **{f'g{i}': 1 + vector(d) for i in (1, 2, 3)}, **{f'n{i}': vector(d) for i in (1, 2, 3)},
    } for _ in range(config.n_layers)]
    embedding = {'x_weight': vector(d, 1), 'x_bias': vector(d), 'y_weight': vector(d, 1),
                 'y_bias': vector(d), 'marker': matrix(3, d) * math.sqrt(d),
                 'places': matrix(config.buffer_size, d) * math.sqrt(d)}
    head = {'g': 1 + vector(d), 'n': vector(d), 'w1': matrix(ff, d), 'b1': vector(ff),
            'w2': matrix(3 * m, ff), 'b2': vector(3 * m), 'mean_bias': vector(m, 1),
            'std_bias': vector(m, 1), 'weight_bias': vector(m, 1)}
    return Model(config, embedding, layers, head)


def load(folder):
    """A model folder, config.json and model.safetensors, in float64."""
    import safetensors.torch
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as file:
        fields = json.load(file)
    config = Config(**{f.name: fields[f.name] for f in dataclasses.fields(Config)})
    w = {name: tensor.double() for name, tensor in
         safetensors.torch.load_file(os.path.join(folder, 'model.safetensors')).items()}
    layers = []
    for index in range(config.n_layers):
        get = lambda name, prefix=f'backbone.layers.{index}.': w[prefix + name]
        # Attention over one key is its value, so it is a matrix, and so is the residual around it.
        fold = get('attn_features.out_proj.weight') @ get('attn_features.v_proj.weight')
        layers.append({
            'feature': torch.eye(config.d_model, dtype=fold.dtype) + fold,
            'qkv': torch.cat([get(f'attn_rows.{x}_proj.weight') for x in 'qkv']),
            'out': get('attn_rows.out_proj.weight'), 'w1': get('ff.0.weight'),
            'b1': get('ff.0.bias'), 'w2': get('ff.2.weight'), 'b2': get('ff.2.bias'),
            **{f'g{i}': get(f'norm{i}.weight') for i in (1, 2, 3)},
            **{f'n{i}': get(f'norm{i}.bias') for i in (1, 2, 3)}})
    embedding = {'x_weight': w['embedder.x_embed.weight'][:, 0], 'x_bias': w['embedder.x_embed.bias'],
                 'y_weight': w['embedder.y_embed.weight'][:, 0], 'y_bias': w['embedder.y_embed.bias'],
                 'marker': w['embedder.marker_embed.weight'], 'places': w['ar_tokens']}
    head = {'g': w['backbone.norm.weight'], 'n': w['backbone.norm.bias'],
            'w1': w['head.head.0.weight'], 'b1': w['head.head.0.bias'],
            'w2': w['head.head.2.weight'], 'b2': w['head.head.2.bias'],
            **{f'{x}_bias': w[f'head.{x}_bias'] for x in ('mean', 'std', 'weight')}}
    return Model(config, embedding, layers, head)


# ---- Rows and tokens ------------------------------------------------------------------------


def encode_rows(model, x):
    """[N, F] cells -> [N, D]. All columns share one map, so it is a map of their mean."""
    e = model.embedding
    return x.mean(1, keepdim=True) * e['x_weight'] + e['x_bias']


def target_tokens(model, rows):
    return rows + model.embedding['marker'][0]


def buffer_tokens(model, rows, y, place):
    """rows [..., D], their values y [...] and places [...] or one -> [..., D]. Values are never
    rounded to the type of the weights before they are multiplied."""
    e = model.embedding
    of_value = (y[..., None] * e['y_weight']).to(rows.dtype) + e['y_bias']
    return rows + of_value + e['marker'][2] + e['places'][place % model.config.buffer_size]


# ---- Attention ------------------------------------------------------------------------------


def split_context(keys_values, parts):
    """[H, N, Dh] -> [parts, H, N / parts, Dh], contiguous."""
    cut = lambda t: t.unflatten(1, (parts, -1)).transpose(0, 1).contiguous()
    return [(cut(k), cut(v)) for k, v in keys_values]


def attend_context(model, q, keys, values):
    """q [H, R, Dh], keys and values [parts, H, n, Dh] -> out [H, R, Dh], lse [H, R] float32."""
    out, lse = model.attention(q.expand(keys.shape[0], *q.shape), keys, values)
    if keys.shape[0] == 1:
        return out[0], lse[0]
    total = torch.logsumexp(lse, 0)
    share = torch.exp(lse - total)[..., None]
    return (out * share).sum(0).to(out.dtype), total


def attend(model, q, context, buffer_keys, buffer_values, mask):
    """Every token of every path to the context and to the part of its path's buffer that `mask`
    shows: q [B, n, H, Dh], context (keys, values) [parts, H, N, Dh], buffers [B, H, T, Dh], mask
    [n, T] -> [B, n, H * Dh]. The context is never empty, so a buffer of which nothing shows is no
    special case."""
    b, n, h, dh = q.shape
    out, lse = attend_context(model, q.permute(2, 0, 1, 3).reshape(h, b * n, dh), *context)
    out = out.view(h, b, n, dh).transpose(0, 1)
    lse = lse.view(h, b, n).transpose(0, 1)
    scores = (q.transpose(1, 2) @ buffer_keys.transpose(-1, -2)).to(lse.dtype) * dh ** -0.5
    scores = scores.masked_fill(~mask, -math.inf)
    top = torch.maximum(lse, scores.amax(-1))
    of_context = torch.exp(lse - top)[..., None]
    of_buffer = torch.exp(scores - top[..., None])
    weighted = out * of_context + of_buffer.to(q.dtype) @ buffer_values
    merged = weighted / (of_context + of_buffer.sum(-1, keepdim=True))
    return merged.to(q.dtype).transpose(1, 2).reshape(b, n, h * dh)


# ---- Layers ---------------------------------------------------------------------------------


def norm(x, w, i=''):
    return F.layer_norm(x, x.shape[-1:], w[f'g{i}'], w[f'n{i}'])


def project(model, x, w):
    """The first part of a layer: x behind feature attention, and q, k, v [..., H, Dh]."""
    x = norm(F.linear(x, w['feature']), w, 1)
    heads = (3, model.config.n_heads, model.config.d_head)
    return x, *F.linear(x, w['qkv']).unflatten(-1, heads).unbind(-3)


def finish(x, attended, w):
    """The rest of a layer."""
    x = norm(x + F.linear(attended, w['out']), w, 2)
    return norm(x + F.linear(F.gelu(F.linear(x, w['w1'], w['b1'])), w['w2'], w['b2']), w, 3)


def encode_context(model, x, y):
    """[N, F], [N] -> keys and values [H, N, Dh] of every layer."""
    e = model.embedding
    z = encode_rows(model, x) + (y[:, None] * e['y_weight']).to(x.dtype) + e['y_bias']
    z = z + e['marker'][1]
    keys_values = []
    for index, w in enumerate(model.layers):
        z, q, k, v = project(model, z, w)
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        keys_values.append((k, v))
        if index + 1 < len(model.layers):  # nobody sees what the last layer makes of a context row
            attended = model.attention(q[None], k[None], v[None])[0][0]
            z = finish(z, attended.transpose(0, 1).flatten(1), w)
    return keys_values


def mixture(model, z):
    """[..., D] -> mean, std, log weight [..., M], float32 at least."""
    w, c = model.head, model.config
    raw = F.linear(F.gelu(F.linear(norm(z, w), w['w1'], w['b1'])), w['w2'], w['b2'])
    raw = raw.to(torch.promote_types(raw.dtype, torch.float32)).unflatten(-1, (-1, 3))
    mean, std, weight = raw.unbind(-1)
    std = F.softplus(std + w['std_bias']).clamp(max=c.std_max) + c.std_min
    return mean + w['mean_bias'], std, torch.log_softmax(weight + w['weight_bias'], -1)


def log_density(mean, std, log_weight, y):
    z = (y[..., None] - mean) / std
    terms = log_weight - 0.5 * z * z - torch.log(std)
    return torch.logsumexp(terms, -1) - 0.5 * math.log(2 * math.pi)


def draw(mean, std, log_weight, uniform, normal):
    """One value per row, given a uniform and a normal number for each."""
    chosen = (log_weight.exp().cumsum(-1) < uniform[..., None]).sum(-1, keepdim=True)
    chosen = chosen.clamp(max=mean.shape[-1] - 1)
    return mean.gather(-1, chosen)[..., 0] + std.gather(-1, chosen)[..., 0] * normal


# ---- The two ways through targets -----------------------------------------------------------


class Decode:
    """Autoregressive decode of B paths over T targets, a step at a time."""

    def __init__(self, model, context, rows, paths):
        """context: keys and values of every layer, split; rows [T, D]."""
        self.model, self.context, self.rows = model, context, rows
        c = model.config
        shape = (paths, c.n_heads, rows.shape[0], c.d_head)
        self.buffers = [(rows.new_zeros(shape), rows.new_zeros(shape)) for _ in model.layers]
        self.places = torch.arange(rows.shape[0], device=rows.device)

    def step(self, t, y, uniform, normal):
        """t [1] int64, the values y [B] at place t - 1, numbers to draw with [B] -> the values at
        place t and their log-densities, [B] each. At t = 0 nothing of the buffer shows, so that
        what is put there does not matter."""
        model, last = self.model, (t - 1).clamp(min=0)
        newest = buffer_tokens(model, self.rows.index_select(0, last), y, last)
        target = target_tokens(model, self.rows.index_select(0, t)).expand_as(newest)
        z = torch.stack([newest, target], 1)
        mask = (self.places < t)[None]
        for w, context, (keys, values) in zip(model.layers, self.context, self.buffers):
            z, q, k, v = project(model, z, w)
            keys.index_copy_(2, last, k[:, :1].transpose(1, 2))
            values.index_copy_(2, last, v[:, :1].transpose(1, 2))
            z = finish(z, attend(model, q, context, keys, values, mask), w)
        mixtures = mixture(model, z[:, 1])
        value = draw(*mixtures, uniform, normal)
        return value, log_density(*mixtures, value)


def densities(model, context, rows, y):
    """Log-densities [B, T] of the values y [B, T] at their places, by teacher forcing."""
    b, t = y.shape
    places = torch.arange(t, device=y.device)
    tokens = buffer_tokens(model, rows.expand(b, *rows.shape), y, places)
    z = torch.cat([tokens, target_tokens(model, rows).expand_as(tokens)], 1)
    # A buffer token sees itself and those before it, a target those before it.
    mask = torch.cat([places <= places[:, None], places < places[:, None]])
    for w, of_layer in zip(model.layers, context):
        z, q, k, v = project(model, z, w)
        keys, values = k[:, :t].transpose(1, 2), v[:, :t].transpose(1, 2)
        z = finish(z, attend(model, q, of_layer, keys, values, mask), w)
    return log_density(*mixture(model, z[:, t:]), y)
