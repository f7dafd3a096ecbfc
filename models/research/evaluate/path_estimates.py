"""Errors of statistics of joint paths, by estimator and random numbers, over many seeds.

python3 -m models.research.evaluate.path_estimates --address HOST:PORT

Asks a server, with the package chorale_client, for statistics of 14 rows of each table, with each
combination of `estimator` and `sampling`. Prints tables of gains, the factors by which the variance
over the seeds of the statistics of independent values is larger, without rows whose estimates are
exact; and of the ratios of the reported to the actual errors. `path_estimates.md` has the results.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from typing import Any

import chorale_client
import numpy as np
import numpy.typing as npt
import pandas as pd
from chorale_client import functionals

from models.research.evaluate import tables

ROWS = 14
CONTEXT_ROWS = 150
TABLES = (
    "autos",
    "births",
    "birth_weight",
    "diabetes",
    "dietox",
    "elnino",
    "engel",
    "star98",
    "statecrime",
    "wine",
)
IN_TIME = ("dietox", "elnino")  # whose rows follow each other in time
WAYS = tuple(itertools.product(("values", "conditional"), ("independent", "sobol")))
Floats = npt.NDArray[np.float64]


def frames(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Context and query rows: successive rows of a table, in the table's order of a fixed shuffle.

    The rows of dietox and elnino follow each other in time, so they depend on each other strongly.
    """
    table = tables.load(name)
    frame = frame_of(table, _order(name, len(table.y)))
    return frame[:-ROWS], frame[-ROWS:].drop(columns="y")


def frame_of(table: tables.Table, order: npt.NDArray[np.intp]) -> pd.DataFrame:
    """These rows of a table: its features, with categories as texts, and the target "y"."""
    columns: dict[str, Any] = {}
    for j, is_categorical in enumerate(table.is_categorical):
        cells = table.x[order, j]
        columns[f"x{j}"] = (
            [None if np.isnan(cell) else f"c{cell:.0f}" for cell in cells]
            if is_categorical
            else cells
        )
    return pd.DataFrame(columns | {"y": table.y[order]})


def target_values(name: str) -> Floats:
    """The values of the target in the context and query rows."""
    y = tables.load(name).y
    return np.asarray(y[_order(name, len(y))])


def _order(name: str, rows: int) -> npt.NDArray[np.intp]:
    """The context and query rows of the table, in their order."""
    order = np.arange(rows)
    if name not in IN_TIME:
        order = np.random.default_rng(3).permutation(order)
    return order[: CONTEXT_ROWS + ROWS]


def statistics(summary: chorale_client.Summary) -> dict[str, tuple[Floats, Floats]]:
    """Statistics and their reported errors, by name."""
    total = summary.functionals["total"]
    assert total.quantiles is not None
    assert total.quantile_errors is not None
    of_sum = {
        "mean of the sum": (total.mean, total.mean_error),
        "90 % quantile of the sum": (total.quantiles[0], total.quantile_errors[0]),
    }
    for name, title in (
        ("beyond", "P(sum > s)"),
        ("count", "values above c"),
        ("largest", "mean of the largest"),
    ):
        one = summary.functionals[name]
        of_sum[title] = (one.mean, one.mean_error)
    return {
        "mean of a row": (summary.means, summary.mean_errors),
        "90 % quantile of a row": (summary.quantiles[:, 0], summary.quantile_errors[:, 0]),
    } | {title: (np.atleast_1d(a), np.atleast_1d(b)) for title, (a, b) in of_sum.items()}


def measure(
    context: chorale_client.Context, rows: pd.DataFrame, paths: int, seeds: int
) -> dict[tuple[str, str], dict[str, tuple[Floats, Floats]]]:
    """For each way, [seeds, ...] statistics and errors by name."""
    drawn = context.sample(rows, paths=2000, seed=1, snap=False).values
    asked = {
        "total": functionals.sum(),
        "beyond": functionals.sum_beyond(above=float(np.quantile(drawn.sum(axis=1), 0.8))),
        "count": functionals.count(above=float(np.quantile(drawn, 0.8))),
        "largest": functionals.max(),
    }
    found = {}
    for estimator, sampling in WAYS:
        runs = [
            statistics(
                context.summarize(
                    rows,
                    functionals=asked,
                    quantiles=[0.9],
                    paths=paths,
                    seed=seed,
                    snap=False,
                    estimator=estimator,
                    sampling=sampling,
                )
            )
            for seed in range(seeds)
        ]
        found[estimator, sampling] = {
            name: (np.stack([run[name][0] for run in runs]), np.stack([run[name][1] for run in runs]))
            for name in runs[0]
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--paths", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    with chorale_client.connect(arguments.address) as client:
        for name in arguments.tables:
            known, rows = frames(name)
            context = client.register(known, target="y")
            found = measure(context, rows, arguments.paths, arguments.seeds)
            base = {n: a.var(axis=0, ddof=1) for n, (a, _) in found["values", "independent"].items()}
            for way, by_name in found.items():
                for title, (values, errors) in by_name.items():
                    variance = values.var(axis=0, ddof=1)
                    # The first row does not depend on others, so its conditional estimate is exact.
                    inexact = variance > 1e-8 * base[title]
                    reported = np.sqrt((errors**2).mean(axis=0)[inexact] / variance[inexact])
                    gain = base[title][inexact] / variance[inexact]
                    lines.append(
                        {
                            "table": name,
                            "estimator": way[0],
                            "sampling": way[1],
                            "statistic": title,
                            "gain": np.exp(np.log(gain).mean()),
                            "reported error": np.exp(np.log(reported).mean()),
                        }
                    )
            print(f"{name}: done", flush=True)
    frame = pd.DataFrame(lines)
    ways = ["estimator", "sampling"]
    for what in ("gain", "reported error"):
        logs = frame.assign(**{what: np.log(frame[what])})
        mean = np.exp(logs.pivot_table(what, "statistic", ways, sort=False))
        print(f"\n{what}, geometric mean over the tables\n{mean.round(2).to_string()}")
    by_table = frame.pivot_table("gain", ["statistic", "table"], ways, sort=False)
    print(f"\ngain by table\n{by_table.round(2).to_string()}")


if __name__ == "__main__":
    main()
