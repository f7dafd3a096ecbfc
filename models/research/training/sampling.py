"""Draws joint samples with PyTorch: many tables and many paths at once, each row drawn given those
before it on its path. Keys and values of what does not change are kept from row to row."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from models.research.training.mixture import Mixture
from models.research.training.predictor import EncodedContext, Predictor
from models.research.training.trunk import MARKER_BUFFER, MARKER_CONTEXT

REPEATED = 0.9  # share of a context's rows whose target repeats, from which all of it is discrete

Array = np.ndarray


def by_head(x: Tensor, heads: int) -> Tensor:
    """[..., R, D] -> [..., heads, R, D / heads]."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


class Tables:
    """Contexts of equal size, encoded one by one, side by side; values are z-scored."""

    def __init__(self, predictor: Predictor, contexts: list[EncodedContext], target_x: list[Array]):
        self.trunk = predictor.model.trunk
        self.y = torch.cat([context.y for context in contexts])  # [C, N]
        self.rows = torch.cat([context.rows for context in contexts])  # [C, N, D]
        encoded = [context.encode(x) for context, x in zip(contexts, target_x, strict=True)]
        self.targets = torch.stack(encoded)  # [C, T, D]
        tables = [context.table for context in contexts]
        values = torch.stack([table.target.context for table in tables])
        self.values = values.to(self.y.device)  # y in float64, so that what is equal stays equal
        self.mean = torch.tensor([[t.y_mean] for t in tables], dtype=torch.float64)
        self.std = torch.tensor([[t.y_std] for t in tables], dtype=torch.float64)

    def alone(self) -> Mixture:
        """Of each target given its context alone, [C, T, M]."""
        nothing = torch.zeros(self.targets.shape[1], dtype=torch.long, device=self.y.device)
        no_rows, no_y = self.targets[:, :0], self.y[:, :0]
        return self.trunk(self.rows, self.y, no_rows, no_y, self.targets, nothing)

    def in_units(self, z: Tensor) -> Array:
        """[C, ...] z-scored -> the same in units of the targets."""
        shape = (-1, *[1] * (z.ndim - 1))
        return (z.cpu().double() * self.std.view(shape) + self.mean.view(shape)).numpy()


class Paths:
    """The state of `paths` paths through the targets of each of C tables."""

    def __init__(self, tables: Tables, paths: int):
        self.tables, self.trunk, self.paths, self.step = tables, tables.trunk, paths, 0
        self.layers, self.heads = self.trunk.backbone.layers, self.trunk.heads
        x = self.trunk.embedder.with_y(tables.rows, tables.y, MARKER_CONTEXT)
        self.context = []  # of each layer keys and values [C, H, N, d]
        for layer in self.layers:
            x, qkv = layer.begin(x)
            q, k, v = (by_head(part, self.heads) for part in qkv.chunk(3, dim=-1))
            attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            x = layer.finish(x, attended.transpose(1, 2).flatten(-2))
            self.context.append((k.contiguous(), v.contiguous()))
        (c, heads, _, width), rows = k.shape, tables.targets.shape[1]
        self.buffer = [k.new_empty(2, c, paths, heads, rows, width) for _ in self.layers]

    def attend(self, index: int, q: Tensor, kept: int) -> Tensor:
        """q [C, P, S, D] over the context and `kept` rows of the buffer -> [C, P, S, D]."""
        q = by_head(q, self.heads) * (q.shape[-1] // self.heads) ** -0.5  # [C, P, H, S, d]
        k, v = self.context[index]
        tokens = q.transpose(1, 2).flatten(2, 3)  # [C, H, P S, d]
        scores = tokens @ k.transpose(-1, -2)
        of_context = scores.logsumexp(dim=-1, keepdim=True)
        out = torch.exp(scores - of_context) @ v

        def by_path(x: Tensor) -> Tensor:
            return x.unflatten(2, (self.paths, -1)).transpose(1, 2)

        out, of_context = by_path(out), by_path(of_context)
        if kept > 0:
            k, v = self.buffer[index][..., :kept, :]
            scores = q @ k.transpose(-1, -2)
            total = torch.logaddexp(of_context, scores.logsumexp(dim=-1, keepdim=True))
            out = out * torch.exp(of_context - total) + torch.exp(scores - total) @ v
        return out.transpose(2, 3).flatten(-2)

    def next(self, previous: Tensor | None) -> Mixture:
        """Of the next target, [C, P, M], given the value drawn for the one before, [C, P]."""
        step, embed = self.step, self.trunk.embedder
        rows = self.tables.targets[:, None, :, :]
        x = embed.without_y(rows[:, :, step]).expand(-1, self.paths, -1)[:, :, None]
        if step > 0:
            row = rows[:, :, step - 1].expand(-1, self.paths, -1)
            known = embed.with_y(row, previous.to(row.dtype), MARKER_BUFFER)
            x = torch.cat([(known + self.trunk.ar_tokens[step - 1])[:, :, None], x], dim=2)
        for index, layer in enumerate(self.layers):
            x, qkv = layer.begin(x)
            q, k, v = qkv.chunk(3, dim=-1)
            if step > 0:
                for place, part in enumerate((k, v)):
                    self.buffer[index][place, ..., step - 1, :] = by_head(part, self.heads)[..., 0, :]
            x = layer.finish(x, self.attend(index, q, step))
        self.step += 1
        return self.trunk.head(self.trunk.backbone.norm(x[:, :, -1]))


class Snap:
    """Draws go to the nearest value of the context if that occurs more than once there; where nearly
    all do, they go there in any case."""

    def __init__(self, y: Tensor):
        self.values = y.sort(dim=-1).values  # [C, N]
        same = self.values[:, 1:] == self.values[:, :-1]
        no = torch.zeros_like(same[:, :1])
        self.repeated = torch.cat([no, same], dim=1) | torch.cat([same, no], dim=1)
        discrete = self.repeated.double().mean(dim=1, keepdim=True) >= REPEATED
        self.repeated = self.repeated | discrete

    def __call__(self, y: Tensor) -> Tensor:
        """[C, P] z-scored."""
        y = y.to(self.values.dtype).contiguous()
        last = self.values.shape[1] - 1
        above = torch.searchsorted(self.values, y).clamp(max=last)
        below = (above - 1).clamp(min=0)
        low, high = self.values.gather(1, below), self.values.gather(1, above)
        place = torch.where((y - low).abs() <= (high - y).abs(), below, above)
        return torch.where(self.repeated.gather(1, place), self.values.gather(1, place), y)


def draw(mixture: Mixture, generator: torch.Generator) -> Tensor:
    shape, device = mixture.mean.shape, mixture.mean.device
    u = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
    gumbel = -torch.log(-torch.log(u.clamp(1e-300, 1 - 1e-16)))
    chosen = (mixture.log_weight + gumbel).argmax(dim=-1, keepdim=True)
    e = torch.randn(shape[:-1], generator=generator, device=device, dtype=torch.float64)
    return mixture.mean.gather(-1, chosen)[..., 0] + mixture.std.gather(-1, chosen)[..., 0] * e


@torch.inference_mode()
def sample(tables: Tables, paths: int, seed: int, snaps: bool = False) -> Tensor:
    """[C, P, T] z-scored; with `snaps`, values are snapped as they are drawn."""
    generator = torch.Generator(device=tables.y.device)
    generator.manual_seed(seed)
    state, snap, drawn, y = Paths(tables, paths), Snap(tables.values), [], None
    for _ in range(tables.targets.shape[1]):
        y = draw(state.next(y), generator)
        y = snap(y) if snaps else y
        drawn.append(y)
    return torch.stack(drawn, dim=-1)
