"""One batch of tasks: draws its shape, mixes the generators, hides cells, z-scores."""

from __future__ import annotations

import random

import torch

from models.research.training.prior.additive import additive_function
from models.research.training.prior.calendar import calendar_tasks
from models.research.training.prior.distractors import add_distractors
from models.research.training.prior.gaussian_process import (
    EXACT_ROWS,
    exact_process,
    observation_noise,
    spectral_process,
)
from models.research.training.prior.grouped import grouped_tasks
from models.research.training.prior.inputs import (
    MAX_CODES,
    hide_cells,
    observe,
    sample_latent,
    warp,
)
from models.research.training.prior.linear import linear_process
from models.research.training.prior.ordered import ordered_tasks
from models.research.training.prior.panels import panel_tasks
from models.research.training.prior.randomness import Randomness
from models.research.training.prior.scaling import dictionary_places, scale_cells, scale_target
from models.research.training.prior.spiked import rarity_weight, spiked_tasks
from models.research.training.prior.structural import structural_model
from models.research.training.prior.targets import add_noise, transform_target
from models.research.training.prior.tasks import (
    CATEGORIES,
    SPIKED,
    BatchShape,
    RawTasks,
    TaskBatch,
)
from models.research.training.prior.trees import tree_ensemble

GROUPS = 5  # generators that one batch mixes
DISTRACTED = 0.4  # share of them whose tasks get columns that mean nothing, from 4 columns
SPIKED_SHARE = 0.12  # share of tasks whose target has a frequent value
SMALL = 48  # rows of a context, up to which linear functions are frequent
# Of a few sizes, log-uniform: kernels and plans are chosen anew for each.
CONTEXTS = tuple(sorted({round(4 * 1024 ** (i / 29)) for i in range(30)}))
# Of the kinds that need nothing around them.
MAKERS = {
    "grouped": grouped_tasks,
    "calendar": calendar_tasks,
    "spiked": spiked_tasks,
    "panel": panel_tasks,
}
GOLDEN_RATIO = 0.5 * (5**0.5 - 1)


# Numbers of features, from .. to, and how often.
FEATURES = ((1, 1), (2, 4), (5, 12), (13, 32), (33, 100))
FEATURE_SHARES = (0.14, 0.23, 0.34, 0.22, 0.07)


def make_shape(host: random.Random, budget: float, buffer_size: int, n: int, f: int) -> BatchShape:
    """A batch of contexts of n rows and f features that takes about as long as any other of this
    budget, in rows of a small context with few features; the number of tasks follows from it."""
    m = buffer_size if host.random() < 0.6 else 8 * host.randint(1, buffer_size // 8)
    m -= (n + m) % 8  # the attention kernels like a number of keys that is a multiple of 8
    q = max(24, min(256, n // 4))
    queries = 2 * m + q
    # Fitted to measured times.
    pairs, cells = n * n + queries * (n + m), (n + m + q) * f
    cost = n + queries + pairs / 1000 + cells / 20
    return BatchShape(max(2, min(2048, int(budget / cost))), n, m, q, f)


def draw_features(host: random.Random, at: float) -> int:
    """The number of features at this share, in [0, 1), of all batches."""
    for (low, high), share in zip(FEATURES, FEATURE_SHARES):
        if at < share:
            return min(high, low + int(at / share * (high + 1 - low)))
        at -= share
    return FEATURES[-1][1]


def draw_shape(rng: Randomness, budget: float, buffer_size: int) -> BatchShape:
    host = rng.host
    n, f = host.choice(CONTEXTS), draw_features(host, host.random())
    return make_shape(host, budget, buffer_size, n, f)


def draw_deck(rng: Randomness, count: int, budget: float, buffer_size: int) -> list[BatchShape]:
    """Shapes that stand for all: sizes of contexts are evenly spread, and so are numbers of
    features, and the sizes among those of about as many features. Two shapes may be the same."""
    if count < 1:
        raise ValueError(f"{count} shapes: at least one is needed")
    host = rng.host
    contexts = [CONTEXTS[(2 * i + 1) * len(CONTEXTS) // (2 * count)] for i in range(count)]
    # By the golden ratio: where a share of these places lies is spread evenly over the contexts.
    # Were the pairs drawn at random, no series at all might have a context of 30 to 1000 rows.
    first = host.random()
    places = [(first + i * GOLDEN_RATIO) % 1.0 for i in range(count)]
    ranks = sorted(range(count), key=places.__getitem__)
    features = [0] * count
    for rank, i in enumerate(ranks):
        features[i] = draw_features(host, (rank + host.random()) / count)
    return [make_shape(host, budget, buffer_size, n, f) for n, f in zip(contexts, features)]


def category_weights(shape: BatchShape) -> list[float]:
    """Of CATEGORIES. Time series and Gaussian processes live in few dimensions."""
    # Where linear functions are frequent, that is at the cost of what contains them.
    more = 0.07 if shape.context <= SMALL else 0.0
    if shape.features == 1:
        more /= 2
        weights = [0.22 - more, 0.1, 0.08, 0.05, 0.4, 0.03 + more, 0.02, 0.1]
    elif shape.features <= 4:
        weights = [0.23 - more, 0.24, 0.1, 0.06, 0.16, 0.05 + more, 0.06, 0.1]
    else:
        weights = [0.15 - more / 2, 0.42, 0.15, 0.08 - more / 2, 0.05, 0.04 + more, 0.06, 0.05]
    # A panel has a column with its series and one with its dates.
    panels = 0.0 if shape.features == 1 else 0.05
    kept = 1 - SPIKED_SHARE - panels
    return [kept * weight for weight in weights] + [SPIKED_SHARE, panels]


def gaussian_process_tasks(rng: Randomness, b: int, shape: BatchShape) -> RawTasks:
    latent = sample_latent(rng, b, shape.rows, shape.features)
    pure = rng.host.random() < 0.7
    observed, effect, categorical = observe(rng, latent, discrete=0.0 if pure else 0.5)
    if shape.rows <= EXACT_ROWS:
        y, oracle = exact_process(rng, effect)
    else:
        signal = spectral_process(rng, effect)
        y = signal + observation_noise(rng, b)[:, None] * rng.normal(b, shape.rows)
        oracle = None
    if not pure:
        y = transform_target(rng, y, most=0.5)
        observed = warp(rng, observed, categorical)
        oracle = None
    return RawTasks(observed, categorical, y, oracle, CATEGORIES.index("gp"))


def function_tasks(rng: Randomness, b: int, shape: BatchShape, category: str) -> RawTasks:
    """Structural models, trees and additive functions, now and then a sum of two of them."""
    rows, f = shape.rows, shape.features
    if category == "structural":
        latent, signal = structural_model(rng, b, rows, f)
        observed, effect, categorical = observe(rng, latent, discrete=0.5)
    else:
        latent = sample_latent(rng, b, rows, f)
        observed, effect, categorical = observe(rng, latent, discrete=0.5)
        first, second = tree_ensemble, additive_function
        if category == "additive":
            first, second = second, first
        signal = first(rng, effect)
        if rng.host.random() < 0.35:
            signal = signal + rng.log_uniform(0.1, 1.0, b, 1) * second(rng, effect)
    # Nodes of a structural model have noise of their own.
    loudest = 0.8 if category == "structural" else 2.0
    y = transform_target(rng, add_noise(rng, signal, effect, loudest), most=0.6)
    observed = warp(rng, observed, categorical)
    return RawTasks(observed, categorical, y, None, CATEGORIES.index(category))


def linear_tasks(rng: Randomness, b: int, shape: BatchShape) -> RawTasks:
    latent = sample_latent(rng, b, shape.rows, shape.features)
    pure = rng.host.random() < 0.6
    observed, effect, categorical = observe(rng, latent, discrete=0.0 if pure else 0.5)
    y, oracle = linear_process(rng, effect)
    if not pure:
        y = transform_target(rng, y, most=0.4)
        observed = warp(rng, observed, categorical)
        oracle = None
    return RawTasks(observed, categorical, y, oracle, CATEGORIES.index("linear"))


def time_tasks(rng: Randomness, b: int, shape: BatchShape) -> RawTasks:
    x, categorical, y, oracle = ordered_tasks(rng, b, shape)
    if oracle is None:
        y = transform_target(rng, y, most=0.2)
    return RawTasks(x, categorical, y, oracle, CATEGORIES.index("ordered"))


def raw_tasks(rng: Randomness, b: int, shape: BatchShape, category: str) -> RawTasks:
    if category == "gp":
        return gaussian_process_tasks(rng, b, shape)
    if category == "ordered":
        return time_tasks(rng, b, shape)
    if category == "linear":
        return linear_tasks(rng, b, shape)
    if category in MAKERS:
        return RawTasks(*MAKERS[category](rng, b, shape), None, CATEGORIES.index(category))
    return function_tasks(rng, b, shape, category)


def wide_tasks(rng: Randomness, b: int, shape: BatchShape, category: str) -> RawTasks:
    """The same, now and then made of few of many columns."""
    features, host = shape.features, rng.host
    if features < 4 or host.random() >= DISTRACTED:
        return raw_tasks(rng, b, shape, category)
    made_of = int(features ** host.uniform(0.0, 0.95))
    if category == "panel":
        made_of = max(2, made_of)
    tasks = raw_tasks(rng, b, shape._replace(features=made_of), category)
    return add_distractors(rng, tasks, features)


def scale_tasks(groups: list[RawTasks], shape: BatchShape) -> TaskBatch:
    """Joins tasks of several generators, z-scores them over their contexts and splits the rows."""
    n, m = shape.context, shape.buffer
    categorical = torch.cat([tasks.categorical for tasks in groups])
    x = torch.cat([tasks.x for tasks in groups])
    cells = scale_cells(dictionary_places(x, categorical, n, MAX_CODES), categorical, n)
    y, std = scale_target(torch.cat([tasks.y.double() for tasks in groups]), n)
    oracle = torch.cat(
        [torch.full_like(t.y, float("nan")) if t.oracle is None else t.oracle for t in groups]
    )
    weights = [
        rarity_weight(t.y[:, :n]) if t.category == SPIKED else torch.ones_like(t.y[:, 0]).float()
        for t in groups
    ]
    category = [torch.full((len(t.y),), t.category, device=y.device) for t in groups]
    return TaskBatch(
        context=cells.rows(0, n),
        context_y=y[:, :n],
        rows=cells.rows(n, shape.rows),
        rows_y=y[:, n:],
        buffer=m,
        category=torch.cat(category),
        weight=torch.cat(weights),
        oracle=(oracle[:, n : n + m] + torch.log(std)).float(),
    )


@torch.no_grad()
def generate(rng: Randomness, shape: BatchShape) -> TaskBatch:
    """shape.tasks tasks from a few generators drawn with category_weights."""
    weights = category_weights(shape)
    groups, parts = min(GROUPS, shape.tasks), []
    for group in range(groups):
        count = shape.tasks * (group + 1) // groups - shape.tasks * group // groups
        category = rng.host.choices(CATEGORIES, weights)[0]
        tasks = wide_tasks(rng, count, shape, category)
        if tasks.oracle is None:  # a true density is that of the cells as they are
            tasks = tasks._replace(x=hide_cells(rng, tasks.x))
        parts.append(tasks)
    return scale_tasks(parts, shape)
