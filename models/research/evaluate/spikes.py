"""Means and sums of targets that have one value in many rows: python3 -m models.research.evaluate.spikes.

Made-up tables: amounts that are mostly zero, small counts, yes or no, and two controls. Their features mean
nothing, or one of them drives how often the frequent value comes. Of each table rows are predicted one by one,
and drawn jointly along paths, as they are and snapped to values that the context repeats. Writes Markdown to
standard output and all scores to a file. `spikes.md` says what came of it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SIZES = (100, 300, 1000)
TABLES, TARGETS, PATHS, FEATURES = 40, 50, 200, 3
AMOUNT_LOG, AMOUNT_SPREAD = 6.7, 0.6  # of the lognormal amounts
WAYS = ("raw", "snapped")
ROUNDING = 1e-9  # of the largest value: values are z-scored and brought back

Array = np.ndarray


class Kind(NamedTuple):
    """Targets whose mean is a function of u [R], a standard normal number, or 0 where nothing is told."""

    mean: Callable[[Array], Array]
    draw: Callable[[np.random.Generator, Array], Array]  # given these means
    low: float = -np.inf
    high: float = np.inf


def rare_amounts(share: float) -> Kind:
    """Zero, or lognormal; u drives how often."""
    amount = np.exp(AMOUNT_LOG + AMOUNT_SPREAD**2 / 2)

    def draw(random: np.random.Generator, mean: Array) -> Array:
        some = random.uniform(size=len(mean)) < mean / amount
        return np.where(some, random.lognormal(AMOUNT_LOG, AMOUNT_SPREAD, len(mean)), 0.0)

    return Kind(lambda u: amount * np.minimum(0.95, share * np.exp(0.8 * u)), draw, low=0.0)


def poisson(rate: float) -> Kind:
    return Kind(
        lambda u: rate * np.exp(0.8 * u), lambda random, mean: random.poisson(mean).astype(np.float64), low=0.0
    )


def yes_or_no(share: float) -> Kind:
    return Kind(
        lambda u: 1 / (1 + (1 - share) / share * np.exp(-1.2 * u)),
        lambda random, mean: (random.uniform(size=len(mean)) < mean).astype(np.float64),
        low=0.0,
        high=1.0,
    )


KINDS: dict[str, Kind] = {
    **{f"{share:g} % not zero": rare_amounts(share / 100) for share in (1.5, 5, 10, 30, 50)},
    **{f"Poisson {rate:g}": poisson(rate) for rate in (0.3, 1, 3)},
    **{f"0/1, {share} %": yes_or_no(share / 100) for share in (10, 50)},
    "normal": Kind(lambda u: 5 + 0.8 * u, lambda random, mean: mean + random.standard_normal(len(mean))),
    "lognormal": Kind(
        lambda u: np.exp(1 + 0.5 * u), lambda random, mean: mean * random.lognormal(-0.32, 0.8, len(mean)), low=0.0
    ),
}
CONTROLS = ("normal", "lognormal")


# Tables with a feature x that is mostly zero: y = x + 3 z and noise of 1.
ROWS_OF_FEATURE, NOT_ZERO = 400, (0.05, 0.2)


def mostly_zero(rows: int, share: float, seed: int) -> tuple[Array, Array, Array]:
    """Features [rows, 2], y, and its mean."""
    random = np.random.default_rng([rows, round(100 * share), seed])
    x = np.where(random.uniform(size=rows) < share, random.uniform(10, 100, rows), 0.0)
    z = random.standard_normal(rows)
    mean = x + 3 * z
    return np.column_stack([x, z]), mean + random.standard_normal(rows), mean


def error_where_not_zero(predictor, share: float, seed: int) -> tuple[float, float]:
    """RMSE of means where x is not zero, given all rows, and given only such rows."""
    x, y, _ = mostly_zero(ROWS_OF_FEATURE, share, seed)
    target_x, _, truth = mostly_zero(100, 1.0, seed + 1000)
    found = []
    for chosen in (np.ones(len(y), bool), x[:, 0] > 0):
        weight, mean, _ = predictor.mixture(x[chosen], y[chosen], target_x)
        found.append(float(np.sqrt(np.mean(((weight * mean).sum(axis=1) - truth) ** 2))))
    return found[0], found[1]


def features_page(predictor, tables: int) -> str:
    lines = [f"A feature that is mostly zero, {ROWS_OF_FEATURE} rows, mean RMSE where it is not zero:", ""]
    lines += ["| not zero | all rows | those rows alone |", "| --- | --- | --- |"]
    for share in NOT_ZERO:
        errors = np.mean([error_where_not_zero(predictor, share, seed) for seed in range(tables)], axis=0)
        lines.append(f"| {share:.0%} | {errors[0]:.2f} | {errors[1]:.2f} |")
    return "\n".join(lines) + "\n"


class Table(NamedTuple):
    context_x: Array
    context_y: Array
    target_x: Array
    target_y: Array
    truth: float  # the mean of the targets


def table(kind: str, driven: bool, rows: int, number: int) -> Table:
    """The same on every machine. What is held to be the truth is the known mean, times how far the context
    happens to be from its own: nobody could know better."""
    random = np.random.default_rng([zlib.crc32(kind.encode()), driven, rows, number])
    x = random.standard_normal((rows + TARGETS, FEATURES))
    mean = KINDS[kind].mean(x[:, 0] if driven else np.zeros(len(x)))
    y = KINDS[kind].draw(random, mean)
    truth = mean[rows:].mean() * y[:rows].mean() / mean[:rows].mean()
    return Table(x[:rows], y[:rows], x[rows:], y[rows:], truth)


def covers(draws: Array, y: Array, level: float) -> Array:
    """Of draws [P, ...] and values [...]: whether the central interval of the draws holds them."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    slack = ROUNDING * np.abs(draws).max()
    return (low - slack <= y) & (y <= high + slack)


def score(kind: Kind, tables: list[Table], mean: Array, paths: dict[str, Array]) -> dict[str, float]:
    """mean [C, T] of the targets alone; paths of each way [C, P, T]."""
    truth = sum(t.truth for t in tables)
    found = {"mean": float(mean.mean(axis=1).sum() / truth)}
    for way, draws in paths.items():
        found[f"{way} mean"] = float(draws.mean(axis=(1, 2)).sum() / truth)
        for level in (0.5, 0.9):
            inside = [covers(d, t.target_y, level).mean() for d, t in zip(draws, tables, strict=True)]
            found[f"{way} cover {level:.0%}"] = float(np.mean(inside))
        inside = [covers(d.sum(axis=1), t.target_y.sum(), 0.9) for d, t in zip(draws, tables, strict=True)]
        found[f"{way} sums"] = float(np.mean(inside))
        slack = ROUNDING * np.abs(draws).max()
        found[f"{way} outside"] = float(((draws < kind.low - slack) | (draws > kind.high + slack)).mean())
    return found


def predict(predictor, tables: list[Table], paths: int, seed: int) -> tuple[Array, dict[str, Array]]:
    """Means [C, T] of targets alone, and draws [C, P, T] in each way."""
    import torch

    from models.research.training import sampling

    with torch.inference_mode():
        contexts = [predictor.encode(t.context_x, t.context_y) for t in tables]
        batch = sampling.Tables(predictor, contexts, [t.target_x for t in tables])
        alone = batch.alone()
        mean = batch.in_units((alone.log_weight.exp() * alone.mean).sum(dim=-1))
        draws = {way: batch.in_units(sampling.sample(batch, paths, seed, way == "snapped")) for way in WAYS}
    return mean, draws


HEAD = (
    "| target | feature | mean | of draws, raw | snapped | 50 % of values, raw | snapped | 90 %, raw | snapped "
    "| 90 % of sums, raw | snapped | out of bounds, raw | snapped |\n" + "| --- " * 13 + "|"
)


def line(name: str, feature: str, found: dict[str, float]) -> str:
    parts = [name, feature, f"{found['mean']:.2f}"]
    parts += [f"{found[f'{way} mean']:.2f}" for way in WAYS]
    for what in ("cover 50%", "cover 90%", "sums", "outside"):
        parts += [f"{100 * found[f'{way} {what}']:.0f}" for way in WAYS]
    return "| " + " | ".join(parts) + " |"


def together(scores: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([found[name] for found in scores])) for name in scores[0]}


def page(raw: dict[tuple[str, bool, int], dict[str, float]]) -> str:
    """By kind over all sizes, then each cell."""
    sizes = sorted({size for _, _, size in raw})
    lines = [f"Mean over contexts of {', '.join(map(str, sizes))} rows; coverage in per cent.", "", HEAD]
    for kind in KINDS:
        for driven in (False, True):
            cells = [raw[kind, driven, size] for size in sizes if (kind, driven, size) in raw]
            if cells:
                lines.append(line(kind, "drives it" if driven else "tells nothing", together(cells)))
    lines += ["", "Each size:", "", HEAD]
    for (kind, driven, size), found in raw.items():
        lines.append(line(f"{kind}, {size} rows", "drives it" if driven else "tells nothing", found))
    return "\n".join(lines) + "\n"


def main() -> None:
    from models.research.training.predictor import Predictor

    parser = argparse.ArgumentParser(prog="python3 -m models.research.evaluate.spikes", description=__doc__)
    default = pathlib.Path(__file__).resolve().parents[2] / "default"
    parser.add_argument("--model", type=pathlib.Path, default=default, metavar="FOLDER")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", type=int, default=TABLES, help="of each cell")
    parser.add_argument("--paths", type=int, default=PATHS)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=SIZES)
    parser.add_argument("--kinds", type=lambda text: text.split(";"), default=list(KINDS), metavar="A;B")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/spikes.json"), metavar="FILE")
    options = parser.parse_args()
    predictor, raw = Predictor(str(options.model), options.device, seasons=False), {}
    for kind in options.kinds:
        for driven in (False, True):
            for size in options.sizes:
                tables = [table(kind, driven, size, number) for number in range(options.tables)]
                mean, paths = predict(predictor, tables, options.paths, seed=size)
                raw[kind, driven, size] = score(KINDS[kind], tables, mean, paths)
                print(line(f"{kind}, {size}", str(driven), raw[kind, driven, size]), file=sys.stderr, flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps([[*cell, found] for cell, found in raw.items()]))
    print(page(raw))
    print(features_page(predictor, options.tables), end="")


if __name__ == "__main__":
    main()
