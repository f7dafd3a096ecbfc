"""Joint samples given the total of their rows: effective sample sizes and coverage.

python3 -m models.research.evaluate.known_totals --address HOST:PORT

For each table and each of 12 blocks of 14 rows, draws the block without its total, with its exact
total, and with its total within 2 %, and compares the central intervals of the rows with their
values. Prints a table, which `known_totals.md` has.
"""

from __future__ import annotations

import argparse
import warnings

import chorale_client
import numpy as np
import numpy.typing as npt
import pandas as pd

from models.research.evaluate import tables
from models.research.evaluate.path_estimates import CONTEXT_ROWS, IN_TIME, ROWS, TABLES, frame_of

BLOCKS = 12
TOLERANCE = 0.02
LEVEL = 0.9
Floats = npt.NDArray[np.float64]


def frames(name: str, block: int) -> tuple[pd.DataFrame, pd.DataFrame, Floats]:
    """Context rows, query rows and their values: a random choice, or successive rows in time."""
    table = tables.load(name)
    rows = len(table.y)
    if name in IN_TIME:
        used = min(rows, CONTEXT_ROWS + ROWS)
        first = (rows - used) * block // (BLOCKS - 1)
        order = np.arange(first, first + used)
    else:
        order = np.random.default_rng(block).permutation(rows)[: CONTEXT_ROWS + ROWS]
    frame = frame_of(table, order)
    query = frame[-ROWS:]
    return frame[:-ROWS], query.drop(columns="y"), query["y"].to_numpy()


def covered(samples: chorale_client.Samples, values: Floats) -> tuple[float, float]:
    """The share of values in the central intervals of their rows, and the mean width of these."""
    low, high = samples.interval(LEVEL).T
    return float(((low <= values) & (values <= high)).mean()), float((high - low).mean())


def measure(
    context: chorale_client.Context, rows: pd.DataFrame, values: Floats, paths: int, seed: int
) -> dict[str, tuple[float, float, float]]:
    """Effective sample size, coverage and mean width, by what is known of the total."""
    total = float(values.sum())
    margin = TOLERANCE * abs(total)
    found = {}
    for name, known in (
        ("none", None),
        ("exact", total),
        ("within 2 %", (total - margin, total + margin)),
    ):
        samples = context.sample(rows, paths=paths, seed=seed, total=known)
        size = np.atleast_1d(samples.effective_sample_size)[0]
        if size == 0:  # the total is not possible on any path
            found[name] = (0.0, np.nan, np.nan)
            continue
        plain = samples if known is None else samples.resample(seed=seed)
        found[name] = (float(size), *covered(plain, values))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--paths", type=int, default=512)
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    with chorale_client.connect(arguments.address) as client:
        for name in arguments.tables:
            for block in range(arguments.blocks):
                known, rows, values = frames(name, block)
                context = client.register(known, target="y")
                found = measure(context, rows, values, arguments.paths, block + 1)
                context.delete()
                for total, (size, coverage, width) in found.items():
                    lines.append(
                        {
                            "table": name,
                            "total": total,
                            "paths": size,
                            "covered": coverage,
                            "width": width / found["none"][2],
                        }
                    )
    frame = pd.DataFrame(lines)
    by_table = frame.groupby(["table", "total"], sort=False)
    of_each = by_table.agg(
        median_paths=("paths", "median"),
        least_paths=("paths", "min"),
        covered=("covered", "mean"),
        width=("width", "mean"),
    )
    print(of_each.round(3).to_string())
    overall = frame.groupby("total", sort=False).agg(
        median_paths=("paths", "median"), covered=("covered", "mean"), width=("width", "mean")
    )
    print(overall.round(3).to_string())


if __name__ == "__main__":
    main()
