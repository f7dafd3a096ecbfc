"""Paths that a summary draws until the mean of a sum has a target error.

python3 -m models.research.evaluate.target_errors --address HOST:PORT

Asks a server, with the package chorale_client, for the mean of the sum of 14 rows of each table, with
a target error of some percent of the standard deviation of the sum, by estimator and sampling.
Prints the numbers of paths that were drawn, and the ratio of the actual error over the seeds to the
target. `path_estimates.md` has the results.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings

import chorale_client
import numpy as np
import pandas as pd
from chorale_client import functionals

from models.research.evaluate.path_estimates import TABLES, WAYS, frames

MOST_PATHS = 49_152  # of 14 rows: fewer than 2^20 values


def measure(
    context: chorale_client.Context, rows: pd.DataFrame, percent: float, seeds: int
) -> list[dict[str, object]]:
    """A line for each way: paths, actual error divided by the target, and seconds of a call."""
    known = context.summarize(rows, functionals=["sum"], paths=8_192, seed=10_000, snap=False)
    scale = float(known.functionals["sum"].std)
    target = percent / 100 * scale
    total = functionals.sum().with_target_errors(mean=target)
    lines: list[dict[str, object]] = []
    for estimator, sampling in WAYS:
        began = time.perf_counter()
        found = [
            context.summarize(
                rows,
                functionals={"sum": total},
                quantiles=[],
                paths=MOST_PATHS,
                seed=seed,
                snap=False,
                estimator=estimator,
                sampling=sampling,
            )
            for seed in range(seeds)
        ]
        seconds = (time.perf_counter() - began) / seeds
        means = np.array([one.functionals["sum"].mean for one in found])
        lines.append(
            {
                "estimator": estimator,
                "sampling": sampling,
                "paths": float(np.mean([one.paths for one in found])),
                "met": float(
                    np.mean([one.functionals["sum"].mean_error <= target for one in found])
                ),
                "error / target": float(means.std(ddof=1) / target),
                "ms": 1000 * seconds,
            }
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--percent", type=float, nargs="*", default=[5.0, 1.0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: list[dict[str, object]] = []
    with chorale_client.connect(arguments.address) as client:
        for name, percent in itertools.product(arguments.tables, arguments.percent):
            known, rows = frames(name)
            context = client.register(known, target="y")
            labels: dict[str, object] = {"table": name, "percent": percent}
            lines += [labels | line for line in measure(context, rows, percent, arguments.seeds)]
            print(f"{name}, {percent} %: done", flush=True)
    frame = pd.DataFrame(lines)
    print(frame.round(3).to_string())
    keys = ["percent", "estimator", "sampling"]
    print(
        frame.groupby(keys)[["paths", "met", "error / target", "ms"]].median().round(3).to_string()
    )


if __name__ == "__main__":
    main()
