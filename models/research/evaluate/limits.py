"""How a model bears sizes beyond those of its training: python3 -m models.research.evaluate.limits.

On one made-up function of six standard normal features with noise of 0.2, whose true log-density
is about 0.19. Writes Markdown to standard output.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np

from models.research.evaluate.chorale import Predictor
from models.research.evaluate.mixture import Mixture

FEATURES, TARGETS, DRAWS, NOISE = 6, 256, 4, 0.2
ROWS = (256, 512, 1024, 2048, 4096, 8192)
MORE_COLUMNS, ROWS_OF_COLUMNS = (0, 10, 26, 58, 94), 512
ORDERS, ROWS_OF_ORDERS = 12, 256

Table = tuple[np.ndarray, np.ndarray]


def signal(x: np.ndarray) -> np.ndarray:
    """The function itself, [R, FEATURES or more] -> [R]."""
    return np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + np.abs(x[:, 3]) - 0.5 * x[:, 4]


def draw(seed: int, rows: int, more_columns: int = 0) -> Table:
    """x [rows + TARGETS, FEATURES + more_columns], of which the last ones mean nothing, and y."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows + TARGETS, FEATURES + more_columns))
    return x, signal(x) + NOISE * random.standard_normal(len(x))


def log_density(predictor: Predictor, rows: int, more_columns: int = 0) -> float:
    """Of a target given the context alone, mean over targets and draws."""
    found = []
    for seed in range(DRAWS):
        x, y = draw(seed, rows, more_columns)
        mixture = Mixture(*predictor.mixture(x[:rows], y[:rows], x[rows:]))
        found.append(mixture.log_density(y[rows:]).mean())
    return float(np.mean(found))


def spread_over_orders(predictor: Predictor) -> tuple[float, float]:
    """Standard deviation of a target's mean over orders of the columns, and that of y."""
    x, y = draw(DRAWS, ROWS_OF_ORDERS)
    random, means, rows = np.random.default_rng(0), [], ROWS_OF_ORDERS
    for _ in range(ORDERS):
        shuffled = x[:, random.permutation(FEATURES)]
        weight, mean, _ = predictor.mixture(shuffled[:rows], y[:rows], shuffled[rows:])
        means.append((weight * mean).sum(axis=1))
    return float(np.std(means, axis=0).mean()), float(y.std())


def page(predictor: Predictor) -> str:
    lines = ["## Sizes", ""]
    lines += [f"One made-up function of {FEATURES} features, {DRAWS} draws; log-density per target.", ""]
    lines += ["| context rows | " + " | ".join(map(str, ROWS)) + " |"]
    lines += ["| --- " * (1 + len(ROWS)) + "|"]
    densities = [f"{log_density(predictor, rows):.3f}" for rows in ROWS]
    lines += ["| log-density | " + " | ".join(densities) + " |", ""]
    lines += [f"| columns that mean nothing, {ROWS_OF_COLUMNS} rows | "]
    lines[-1] += " | ".join(map(str, MORE_COLUMNS)) + " |"
    lines += ["| --- " * (1 + len(MORE_COLUMNS)) + "|"]
    densities = [f"{log_density(predictor, ROWS_OF_COLUMNS, more):.3f}" for more in MORE_COLUMNS]
    lines += ["| log-density | " + " | ".join(densities) + " |", ""]
    spread, scale = spread_over_orders(predictor)
    lines += [
        f"Over {ORDERS} orders of the columns, at {ROWS_OF_ORDERS} rows, a target's mean has a standard "
        f"deviation of {spread:.3f}, where y has {scale:.2f}."
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    from models.research.training.predictor import Predictor as TorchPredictor

    parser = argparse.ArgumentParser(prog="python3 -m models.research.evaluate.limits", description=__doc__)
    default = pathlib.Path(__file__).resolve().parents[2] / "default"
    parser.add_argument("--model", type=pathlib.Path, default=default, metavar="FOLDER")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    print(page(TorchPredictor(str(options.model), options.device)), end="")


if __name__ == "__main__":
    main()
