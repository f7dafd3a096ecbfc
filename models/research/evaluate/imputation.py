"""Imputation of tables with holes, with a server and with scikit-learn's IterativeImputer:
python3 -m models.research.evaluate.imputation.

Requires a server, whose address is in the environment variable CHORALE_SERVER, and the packages
chorale-client, pandas, scikit-learn and statsmodels. Writes Markdown to standard output.
`imputation.md` describes the results.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

from models.research.evaluate import tables

TARGETS = ("diabetes", "wine", "birth_weight", "star98", "engel")
WHOLE = ("iris", "elnino")  # holes in all numeric columns
SHARE = 0.2
LEVELS = (0.05, 0.95)
ITERATIONS = 10  # of IterativeImputer, where several columns have holes

# [draws, holes] of each column with holes.
Draws = dict[str, np.ndarray]
Method = Callable[[pd.DataFrame, list[str], int], Draws]
Punch = Callable[[pd.DataFrame, int], pd.DataFrame]


def frame(name: str) -> pd.DataFrame:
    """The features x0, x1, ..., categories as strings, and the target y."""
    table = tables.load(name)
    columns: dict[str, object] = {}
    for i, is_categorical in enumerate(table.is_categorical):
        cells = table.x[:, i]
        texts = [None if np.isnan(cell) else f"c{cell:g}" for cell in cells]
        columns[f"x{i}"] = pd.Categorical(texts) if is_categorical else cells
    return pd.DataFrame({**columns, "y": table.y})


def numeric(data: pd.DataFrame) -> list[str]:
    """The numeric columns of more than ten values."""
    return [n for n, c in data.items() if c.dtype.kind == "f" and c.nunique() > 10]


def holes_in_target(data: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Missing at random: three times as often where a numeric feature is above its median.

    The feature is the complete one with the largest rank correlation with the target.
    """
    random = np.random.default_rng(seed)
    features = [n for n in numeric(data) if n != "y" and data[n].notna().all()]
    driver = data[features].corrwith(data["y"], method="spearman").abs().idxmax()
    above = data[driver] > data[driver].median()
    chance = np.where(above, 1.5 * SHARE, 0.5 * SHARE)
    return data.assign(y=data["y"].mask(random.random(len(data)) < chance))


def holes_everywhere(data: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Missing completely at random, in all numeric columns."""
    random = np.random.default_rng(seed)
    with_holes = {n: data[n].mask(random.random(len(data)) < SHARE) for n in numeric(data)}
    return data.assign(**with_holes)


def by_mean(data: pd.DataFrame, columns: list[str], seed: int) -> Draws:
    return {name: np.full((1, data[name].isna().sum()), data[name].mean()) for name in columns}


def by_chorale(paths: int) -> Method:
    import chorale_client

    client = chorale_client.connect(timeout=600)

    def impute(data: pd.DataFrame, columns: list[str], seed: int) -> Draws:
        imputation = client.impute(data, columns=columns, paths=paths, seed=seed, progress=False)
        return {name: imputation[name].values for name in columns}

    return impute


def by_sklearn(draws: int) -> Method:
    """With one draw: the point estimates; otherwise draws of the posterior."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    def impute(data: pd.DataFrame, columns: list[str], seed: int) -> Draws:
        numbers = pd.get_dummies(data, dtype=float)
        scale = numbers.std().replace(0.0, 1.0)
        center = numbers.mean()
        places = [numbers.columns.get_loc(name) for name in columns]
        missing = {name: data[name].isna().to_numpy() for name in columns}
        # A single column with holes does not change between iterations.
        iterations = ITERATIONS if numbers.isna().any().sum() > 1 else 1
        found: dict[str, list[np.ndarray]] = {name: [] for name in columns}
        for draw in range(draws):
            imputer = IterativeImputer(
                max_iter=iterations,
                sample_posterior=draws > 1,
                skip_complete=True,
                random_state=seed * 1000 + draw,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # ConvergenceWarning
                completed = imputer.fit_transform((numbers - center) / scale)
            for name, place in zip(columns, places, strict=True):
                values = completed[missing[name], place]
                found[name].append(values * scale[name] + center[name])
        return {name: np.array(values) for name, values in found.items()}

    return impute


def evaluate(data: pd.DataFrame, punch: Punch, method: Method, seeds: int) -> dict[str, float]:
    """Errors in standard deviations of a column, and how often intervals contain the total."""
    squares, held, widths, seconds = [], [], [], []
    for seed in range(seeds):
        with_holes = punch(data, seed)
        new = {n: with_holes[n].isna() & data[n].notna() for n in data}
        columns = [n for n in data if new[n].any()]
        begin = time.monotonic()
        draws = method(with_holes, columns, seed + 1)
        seconds.append(time.monotonic() - begin)
        for name in columns:
            own = new[name][with_holes[name].isna()].to_numpy()  # without cells missing before
            true, drawn = data[name][new[name]].to_numpy(), draws[name][:, own]
            squares.append(np.mean(((drawn.mean(axis=0) - true) / data[name].std()) ** 2))
            low, high = np.quantile(drawn.sum(axis=1), LEVELS, method="weibull")
            held.append(low <= true.sum() <= high)
            widths.append((high - low) / data[name].std() / np.sqrt(len(true)))
    return {
        "rmse": float(np.sqrt(np.mean(squares))),
        "held": sum(held),
        "intervals": len(held),
        "width": float(np.mean(widths)),
        "seconds": float(np.median(seconds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--draws", type=int, default=50, help="for the intervals")
    parser.add_argument("--targets", default=",".join(TARGETS), metavar="A,B")
    parser.add_argument("--whole", default=",".join(WHOLE), metavar="A,B")
    options = parser.parse_args()
    chorale, sklearn = by_chorale(options.draws), by_sklearn(options.draws)
    point = by_sklearn(1)
    print(
        "| table | rows | RMSE: mean | IterativeImputer | Chorale | 90 % of totals: "
        "IterativeImputer | Chorale | width: IterativeImputer | Chorale | seconds |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for part, punch in ((options.targets, holes_in_target), (options.whole, holes_everywhere)):
        for name in part.split(",") if part else []:
            data = frame(name)
            means, points, posterior, own = (
                evaluate(data, punch, method, options.seeds)
                for method in (by_mean, point, sklearn, chorale)
            )
            cells = [
                name if punch is holes_in_target else f"{name}, all columns",
                str(len(data)),
                *(f"{found['rmse']:.3f}" for found in (means, points, own)),
                *(f"{found['held']} of {found['intervals']}" for found in (posterior, own)),
                *(f"{found['width']:.2f}" for found in (posterior, own)),
                f"{own['seconds']:.1f}",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
