"""Errors of densities that are averaged over random orders, in pairs and independent.

python3 -m models.research.evaluate.order_averages --address HOST:PORT

Asks a server, with the package chorale_client, for the joint log-density of the values of 14 rows of
each table in many random orders, and divides the variance of averages over independent orders by
that of averages over pairs of an order and its reverse. `order_averages.md` has the results.
"""

from __future__ import annotations

import argparse
import warnings

import chorale_client
import numpy as np
import numpy.typing as npt
import pandas as pd

from models.research.evaluate.path_estimates import ROWS, TABLES, frames, target_values

Floats = npt.NDArray[np.float64]


def log_mean_exp(values: Floats) -> Floats:
    """The logarithms of the means over the last axis."""
    return np.asarray(np.logaddexp.reduce(values, axis=-1) - np.log(values.shape[-1]))


def measure(
    context: chorale_client.Context, rows: pd.DataFrame, y: Floats, orders: int, averages: int
) -> dict[str, float]:
    """Standard deviations of averages over independent orders and over pairs, and their errors."""
    single = [
        float(context.log_density(rows, y, orders=1, seed=seed))
        for seed in range(orders * averages)
    ]
    pairs = [context.log_density(rows, y, orders=orders, seed=seed) for seed in range(averages)]
    joint = np.array([float(one) for one in pairs])
    errors = np.array([one.standard_errors for one in pairs if one.standard_errors is not None])
    independent = log_mean_exp(np.reshape(single, (averages, orders)))
    return {
        "one order": float(np.std(single, ddof=1)),
        "independent": float(independent.std(ddof=1)),
        "pairs": float(joint.std(ddof=1)),
        "reported": float(np.sqrt((errors**2).mean())) if len(errors) else np.nan,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument("--averages", type=int, default=256)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {}
    with chorale_client.connect(arguments.address) as client:
        for name in arguments.tables:
            known, rows = frames(name)
            y = target_values(name)[-ROWS:]
            context = client.register(known, target="y")
            found[name] = measure(context, rows, y, arguments.orders, arguments.averages)
            print(f"{name}: done", flush=True)
    table = pd.DataFrame(found).T
    table["variance ratio"] = (table["independent"] / table["pairs"]) ** 2
    table["reported / actual"] = table["reported"] / table["pairs"]
    print(table.round(4).to_string())
    mean = np.exp(np.log(table[["variance ratio", "reported / actual"]]).mean())
    print(f"\ngeometric means\n{mean.round(3).to_string()}")


if __name__ == "__main__":
    main()
