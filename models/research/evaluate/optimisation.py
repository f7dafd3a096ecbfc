"""Bayesian optimisation of the Branin function in batches of four, with a server and with BoTorch:
python3 -m models.research.evaluate.optimisation.

Requires a server, whose address is in the environment variable CHORALE_SERVER, and the packages
chorale-client and pandas; for the comparison also botorch. Writes Markdown to standard output.
`optimisation.md` describes the results.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

BATCH = 4
FIRST = 8  # points that are evaluated before the first batch
LOW, HIGH = np.array([-5.0, 0.0]), np.array([10.0, 15.0])
MINIMUM = 0.397887
NEAR = 0.05  # the spread of candidates around the best points, of the width of the domain

# Returns the next batch [4, 2] for points [n, 2] and their values [n].
Propose = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def branin(points: np.ndarray) -> np.ndarray:
    """[n] for points [n, 2]."""
    x, y = points.T
    curve = y - 5.1 * x**2 / (4 * np.pi**2) + 5 * x / np.pi - 6
    return curve**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


def uniform(random: np.random.Generator, *shape: int) -> np.ndarray:
    """[*shape, 2] of the domain."""
    return random.uniform(LOW, HIGH, (*shape, 2))


def candidates(
    points: np.ndarray, values: np.ndarray, random: np.random.Generator, count: int
) -> np.ndarray:
    """[count, 4, 2]: each point is uniform, or with probability 1/2 near one of the best four."""
    best = points[np.argsort(values)[:BATCH]]
    near = best[random.integers(len(best), size=(count, BATCH))]
    near = near + NEAR * (HIGH - LOW) * random.standard_normal(near.shape)
    local = random.random((count, BATCH, 1)) < 0.5
    return np.where(local, np.clip(near, LOW, HIGH), uniform(random, count, BATCH))


def at_random(points: np.ndarray, values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A batch that ignores the values."""
    return uniform(random, BATCH)


def table(points: np.ndarray) -> pd.DataFrame:
    """The features of points."""
    return pd.DataFrame({"x": points[:, 0], "y": points[:, 1]})


class Chorale:
    """The candidate batch with the largest expected improvement over joint paths."""

    def __init__(self, count: int, paths: int, finalists: int, final_paths: int) -> None:
        import chorale_client

        self._client = chorale_client.connect(timeout=600)
        self._count, self._paths = count, paths
        self._finalists, self._final_paths = finalists, final_paths

    def start(self, points: np.ndarray, values: np.ndarray) -> None:
        """Registers the first points."""
        self._context = self._client.register(
            table(points), target=values, name="branin", replace=True
        )

    def __call__(
        self, points: np.ndarray, values: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        if len(points) > self._context.row_count:  # the values of the last batch are told
            new = slice(self._context.row_count, None)
            self._context.append(table(points[new]), target=values[new])
            self._context.warm(encode_anew=True)
        batches = candidates(points, values, random, self._count)
        for count, paths in ((self._finalists, self._paths), (1, self._final_paths)):
            improvement = self._improvement(batches, float(values.min()), paths, random)
            batches = batches[np.argsort(-improvement)[:count]]
        return batches[0]

    def _improvement(
        self, batches: np.ndarray, best: float, paths: int, random: np.random.Generator
    ) -> np.ndarray:
        """[batches]: the expected improvement over the best value."""
        from chorale_client import functionals

        summary = self._context.summarize(
            table(batches.reshape(-1, 2)),
            functionals={"improvement": functionals.improvement(below=best)},
            quantiles=(),
            groupby=np.repeat(np.arange(len(batches)), BATCH),
            paths=paths,
            seed=int(random.integers(2**53)),
        )
        return np.asarray(summary.functionals["improvement"].mean)


class BoTorch:
    """BoTorch's qLogEI of a SingleTaskGP, both with their defaults."""

    def start(self, points: np.ndarray, values: np.ndarray) -> None:
        """Nothing is kept between batches."""

    def __call__(
        self, points: np.ndarray, values: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        import torch
        from botorch.acquisition.logei import qLogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Normalize, Standardize
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        torch.manual_seed(int(random.integers(2**31)))
        bounds = torch.tensor(np.stack([LOW, HIGH]))
        model = SingleTaskGP(
            torch.tensor(points),
            torch.tensor(-values)[:, None],
            input_transform=Normalize(2, bounds=bounds),
            outcome_transform=Standardize(1),
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = qLogExpectedImprovement(model, best_f=float(-values.min()))
        batch, _ = optimize_acqf(acquisition, bounds, q=BATCH, num_restarts=10, raw_samples=256)
        return batch.detach().numpy()


def run(method: Propose, seed: int, batches: int) -> tuple[np.ndarray, np.ndarray]:
    """The regret after the first points and each batch [1 + batches], and seconds [batches]."""
    random = np.random.default_rng(seed)
    points = uniform(random, FIRST)
    values = branin(points)
    if hasattr(method, "start"):
        method.start(points, values)
    regrets, seconds = [values.min() - MINIMUM], []
    for _ in range(batches):
        begin = time.monotonic()
        batch = method(points, values, random)
        seconds.append(time.monotonic() - begin)
        points = np.concatenate([points, batch])
        values = np.append(values, branin(batch))
        regrets.append(values.min() - MINIMUM)
    return np.array(regrets), np.array(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="random,chorale,botorch", metavar="A,B")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--candidates", type=int, default=512)
    parser.add_argument("--paths", type=int, default=16)
    parser.add_argument("--finalists", type=int, default=16)
    parser.add_argument("--final-paths", type=int, default=128)
    options = parser.parse_args()
    methods: dict[str, Callable[[], Propose]] = {
        "random": lambda: at_random,
        "chorale": lambda: Chorale(
            options.candidates, options.paths, options.finalists, options.final_paths
        ),
        "botorch": BoTorch,
    }
    shown = [n for n in (0, 1, 2, 5, 10) if n <= options.batches]
    heads = [f"after {n}" for n in shown] + ["largest at the end", "seconds a batch"]
    print("| method | " + " | ".join(heads) + " |\n" + "| --- " * (1 + len(heads)) + "|")
    for name in options.methods.split(","):
        found = [run(methods[name](), seed, options.batches) for seed in range(options.seeds)]
        regrets, seconds = (np.array(part) for part in zip(*found, strict=True))
        cells = [f"{np.median(regrets[:, n]):.4f}" for n in shown]
        cells += [f"{regrets[:, -1].max():.4f}", f"{np.median(seconds):.2f}"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
