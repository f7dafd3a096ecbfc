"""Tables with many rows, and one question about each: a context and blocks of held-out rows.

Real tables come with scikit-learn, statsmodels and matplotlib; nothing is downloaded. Synthetic
tables have a known density, or are drawn from the prior. A question is the same on every machine.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pathlib
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from models.research.evaluate import limits, tables

BLOCKS, BLOCK = 16, 16  # blocks of held-out rows, and rows of each
MOST_ROWS = 65_536  # of a context
PATCH = 4  # cells along each side of a block of neighbouring cells

Array = np.ndarray


class Question(NamedTuple):
    """y is z-scored over the whole table. Context rows are in random order."""

    x: Array  # [N, F] float64; NaN = missing; a categorical cell holds its category's index
    y: Array  # [N]
    target_x: Array  # [BLOCKS, BLOCK, F]
    target_y: Array  # [BLOCKS, BLOCK]
    categorical: Array  # [F] bool
    truth: Array | None  # [BLOCKS, BLOCK] log-density of each held-out y given the function
    rare: Array  # [BLOCKS] bool: blocks in a region with 1 % of the context's rows


class Drawn(NamedTuple):
    """A table with its held-out rows, before the context is cut to size."""

    x: Array  # [R, F], in random order
    y: Array  # [R]
    target_x: Array  # [BLOCKS * BLOCK, F], block by block
    target_y: Array
    categorical: Array  # [F] bool
    mean: Array | None = None  # [BLOCKS * BLOCK] of the held-out y, where it is known
    noise: float = 0.0  # standard deviation around it
    rare: Array | None = None  # [BLOCKS] bool


def _random(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


# Real tables.


def _file(package: str, path: str) -> pathlib.Path:
    """A file that the package installs, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"{package} is not installed")
    return pathlib.Path(spec.submodule_search_locations[0]) / path


def _statsmodels(name: str) -> pd.DataFrame:
    return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data


def _spending() -> pd.DataFrame:
    """Predict the logarithm of a person's medical expenses in a year, where there were any."""
    frame = pd.read_csv(_file("statsmodels", "datasets/randhie/src/randhie.csv"))
    return frame[frame["meddol"] > 0]


def _image(file: str, name: str) -> np.ndarray:
    """[height, width] of a file of matplotlib's sample data."""
    with np.load(_file("matplotlib", f"mpl-data/sample_data/{file}.npz")) as arrays:
        image: Array = arrays[name].astype(np.float64)
    return image


def _elevation() -> pd.DataFrame:
    """Predict a cell's elevation from its place."""
    return _grid({"elevation": _image("jacksboro_fault_dem", "elevation")})


def _topography() -> pd.DataFrame:
    """Predict the height of land and sea floor from the place."""
    return _grid({"height": _image("topobathy", "topo")})


def _flower() -> pd.DataFrame:
    """Predict a pixel's blue from its place, red and green."""
    image = importlib.import_module("sklearn.datasets").load_sample_image("flower.jpg")
    colours = np.moveaxis(image.astype(np.float64), -1, 0)
    return _grid(dict(zip(("red", "green", "blue"), colours, strict=True)))


def _grid(values: dict[str, Array]) -> pd.DataFrame:
    """Images [height, width] -> a row per cell, row by row."""
    height, width = next(iter(values.values())).shape
    south, east = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    cells = {name: image.ravel() for name, image in values.items()}
    return pd.DataFrame({"south": south.ravel(), "east": east.ravel(), **cells}).astype(float)


_EXPENSES = (
    "meddol outpdol drugdol suppdol mentdol inpdol totadm inpmis mentvis mdvis notmdvis binexp zper"
)
_RAND = "statsmodels randhie (RAND Health Insurance Experiment)"
_PUBLIC = "public domain, as the package states"
_UNSTATED = "not stated in the package; read from the installed copy only"

SOURCES: dict[str, tables.Source] = {
    source.name: source
    for source in (
        tables.Source(
            "visits", lambda: _statsmodels("randhie"), "mdvis", _RAND, _PUBLIC, rounding=1.0
        ),
        tables.Source(
            "spending",
            _spending,
            "lnmeddol",
            _RAND + ", all columns",
            _PUBLIC,
            ("plan", "site"),
            tuple(_EXPENSES.split()),
        ),
        tables.Source(
            "fair",
            lambda: _statsmodels("fair"),
            "age",
            "statsmodels fair (Fair 1978)",
            "used with the original author's permission, as the package states",
            ("occupation", "occupation_husb"),
            rounding=5.0,
        ),
        tables.Source(
            "elevation",
            _elevation,
            "elevation",
            "matplotlib jacksboro_fault_dem (US Geological Survey)",
            _UNSTATED,
            rounding=1.0,
        ),
        tables.Source("topography", _topography, "height", "matplotlib topobathy", _UNSTATED),
        tables.Source(
            "flower",
            _flower,
            "blue",
            "scikit-learn load_sample_image (Tharindu Sandaruwan)",
            _UNSTATED,
            rounding=1.0,
        ),
    )
}
GRIDS = {"elevation": 403, "topography": 120, "flower": 640}  # width in cells


@functools.cache
def _real(name: str) -> tables.Table:
    source = SOURCES[name]
    return tables.from_frame(source, source.load())


def _patches(random: np.random.Generator, rows: int, width: int) -> Array:
    """[BLOCKS, BLOCK] rows of a grid: squares of neighbouring cells that do not overlap."""
    down, across = rows // width // PATCH, width // PATCH
    chosen = random.choice(down * across, BLOCKS, replace=False)
    first = chosen // across * PATCH * width + chosen % across * PATCH
    inside = np.arange(PATCH)[:, None] * width + np.arange(PATCH)
    return first[:, None] + inside.ravel()


def _draw_real(name: str, seed: int) -> Drawn:
    table, random = _real(name), _random(name, seed)
    rows = len(table.y)
    if name in GRIDS:
        targets = _patches(random, rows, GRIDS[name]).ravel()
    else:
        targets = random.choice(rows, BLOCKS * BLOCK, replace=False)
    others = random.permutation(np.setdiff1d(np.arange(rows), targets))[:MOST_ROWS]
    return Drawn(
        table.x[others], table.y[others], table.x[targets], table.y[targets], table.is_categorical
    )


# Synthetic tables.


def _noisy(
    x: Array, mean: Array, noise: float, random: np.random.Generator, rare: Array | None = None
) -> Drawn:
    """The last rows of x [R, F] are held out. mean [R] is that of y given x."""
    y = mean + noise * random.standard_normal(len(x))
    held = slice(-BLOCKS * BLOCK, None)
    context = slice(None, -BLOCKS * BLOCK)
    no_categories = np.zeros(x.shape[1], dtype=bool)
    return Drawn(x[context], y[context], x[held], y[held], no_categories, mean[held], noise, rare)


def _function(seed: int) -> Drawn:
    """The function of six features of `limits`."""
    random = _random("function", seed)
    x = random.standard_normal((MOST_ROWS + BLOCKS * BLOCK, limits.FEATURES))
    return _noisy(x, limits.signal(x), limits.NOISE, random)


def _rare(seed: int) -> Drawn:
    """Where the first feature is above its 99th percentile, another function holds; half of the
    blocks are there."""
    random = _random("rare", seed)
    x = random.standard_normal((MOST_ROWS + BLOCKS * BLOCK, limits.FEATURES))
    edge, half = 2.3263, BLOCKS * BLOCK // 2
    place = x[-2 * half :, 0]
    ordinary = np.where(place > edge, -place, place)[:half]
    tail = edge + random.exponential(1 / (edge + 0.3), half)
    x[-2 * half :, 0] = np.concatenate([ordinary, tail])
    other = 2.0 - 1.5 * np.sin(2 * x[:, 1]) + x[:, 3]
    mean = np.where(x[:, 0] > edge, other, limits.signal(x))
    return _noisy(x, mean, limits.NOISE, random, np.arange(BLOCKS) >= BLOCKS // 2)


def _drift(seed: int) -> Drawn:
    """The function turns into another with the time, a feature; held-out rows are the latest."""
    random = _random("drift", seed)
    held = BLOCKS * BLOCK
    x = random.standard_normal((MOST_ROWS + held, limits.FEATURES + 1))
    x[:, 0] = random.uniform(0.0, 1.0, len(x))
    x[-held:, 0] = random.uniform(0.95, 1.0, held)
    angle = 1.5 * np.pi * x[:, 0]
    other = np.abs(x[:, 1]) - x[:, 2] + np.sin(2 * x[:, 6])
    mean = np.cos(angle) * limits.signal(x[:, 1:]) + np.sin(angle) * other
    return _noisy(x, mean, limits.NOISE, random)


def _process(seed: int, features: int, length: float, spread: float) -> Drawn:
    """A Gaussian process, Matern 3/2, by random Fourier features (Student-t frequencies with three
    degrees of freedom), noise of 0.1. The rows of a block lie within `spread` of each other."""
    random = _random(f"process{features}", seed)
    waves, held = 512, BLOCKS * BLOCK
    centre = np.repeat(random.standard_normal((BLOCKS, features)), BLOCK, axis=0)
    x = random.standard_normal((MOST_ROWS + held, features))
    x[-held:] = centre + spread * x[-held:]
    scale = length * np.sqrt(random.chisquare(3, waves) / 3)
    frequency = random.standard_normal((features, waves)) / scale
    phase = random.uniform(0, 2 * np.pi, waves)
    weight = random.standard_normal(waves) * np.sqrt(2 / waves)
    mean = np.concatenate(
        [np.cos(part @ frequency + phase) @ weight for part in np.array_split(x, 16)]
    )
    return _noisy(x, mean, 0.1, random)


def _prior(kind: str, seed: int) -> Drawn:
    """A table of ten features of the prior, with categories. Its target is neither clipped nor
    rounded: the density of a repeated value depends on the narrowest component, not on the context.
    """
    from models.research.training.prior.inputs import observe, sample_latent
    from models.research.training.prior.randomness import Randomness
    from models.research.training.prior.structural import structural_model
    from models.research.training.prior.targets import add_noise
    from models.research.training.prior.trees import tree_ensemble

    rng = Randomness(zlib.crc32(kind.encode()), 0, seed, "cpu")
    held, features = BLOCKS * BLOCK, 10
    if kind == "structural":
        latent, value = structural_model(rng, 1, MOST_ROWS + held, features)
        x, effect, categorical = observe(rng, latent, discrete=0.5)
        y = add_noise(rng, value, effect, loudest=0.8)
    else:
        latent = sample_latent(rng, 1, MOST_ROWS + held, features)
        x, effect, categorical = observe(rng, latent, discrete=0.5)
        y = add_noise(rng, tree_ensemble(rng, effect), effect, loudest=2.0)
    x, y = x[0].double().numpy(), y[0].double().numpy()
    return Drawn(x[:-held], y[:-held], x[-held:], y[-held:], categorical[0].numpy())


SYNTHETIC: dict[str, Callable[[int], Drawn]] = {
    "function": _function,
    "rare": _rare,
    "drift": _drift,
    "process4": functools.partial(_process, features=4, length=2.5, spread=0.1),
    "process8": functools.partial(_process, features=8, length=3.5, spread=0.5),
    "structural": functools.partial(_prior, "structural"),
    "tree": functools.partial(_prior, "tree"),
}
NAMES = (*SOURCES, *SYNTHETIC)


def most_rows(name: str) -> int:
    """Rows that are left for a context."""
    if name in SYNTHETIC:
        return MOST_ROWS
    return min(MOST_ROWS, len(_real(name).y) - BLOCKS * BLOCK)


@functools.lru_cache(maxsize=1)
def _drawn(name: str, seed: int) -> Drawn:
    return SYNTHETIC[name](seed) if name in SYNTHETIC else _draw_real(name, seed)


def question(name: str, rows: int, seed: int) -> Question:
    """Contexts of growing size are nested, with the same held-out rows."""
    if rows > most_rows(name):
        raise ValueError(f"{name}: {rows} rows; there are {most_rows(name)} for a context")
    drawn = _drawn(name, seed)
    shift, scale = drawn.y.mean(), drawn.y.std()
    truth = None
    if drawn.mean is not None:
        z = (drawn.target_y - drawn.mean) / drawn.noise
        truth = -0.5 * z**2 - np.log(drawn.noise) - 0.5 * np.log(2 * np.pi) + np.log(scale)
        truth = truth.reshape(BLOCKS, BLOCK)
    return Question(
        drawn.x[:rows],
        (drawn.y[:rows] - shift) / scale,
        drawn.target_x.reshape(BLOCKS, BLOCK, -1),
        ((drawn.target_y - shift) / scale).reshape(BLOCKS, BLOCK),
        drawn.categorical,
        truth,
        np.zeros(BLOCKS, dtype=bool) if drawn.rare is None else drawn.rare,
    )
