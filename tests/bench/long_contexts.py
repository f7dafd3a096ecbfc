#!/usr/bin/env python3
"""Contexts of many rows, through the server: all rows, memory sets and local rows side by side.

Usage: tests/bench/long_contexts.py --bundle BUNDLE [--rows N ...] [--tables NAME ...]
                                    [--all-rows N] [--flag=FLAG ...]

BUNDLE is an unpacked release bundle; the Python client has to be importable. For each table and
number of rows, prints a line of a Markdown table for each form of the context:

  first answer   seconds from the start of the registration to the predictions of 32 rows
  rows/s         of predictions of 1,000 rows, in calls of 1,000 rows or, with local rows, of 32
  values/s       of 256 paths of 32 rows
  nat            mean log-density of 512 held-out rows, more is better

All rows are encoded only up to --all-rows. Tables: `function`, a smooth function of three features
with noise; `sorted`, the same by its first feature; `rare`, which has another function in 1 % of
the rows, and in half of the held-out rows; `drift`, whose function changes with the first feature,
time, and whose held-out rows are the latest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

HELD_OUT = 512
LOCAL_ROWS = 1024
FORMS: dict[str, dict[str, Any]] = {
    'all rows': {},
    'merge, M = 512': {'memory_rows': 512},
    'merge, M = 2,048': {'memory_rows': 2048},
    'sample, M = 2,048': {'memory_rows': 2048, 'memory_policy': 'sample'},
    'heavy, M = 2,048': {'memory_rows': 2048, 'memory_policy': 'heavy'},
    f'{LOCAL_ROWS:,} local rows': {},
}


def features(name: str, rows: int, random: np.random.Generator) -> np.ndarray:
    """Rows of a table, then of those that are held out, [rows + HELD_OUT, 3]."""
    x = random.uniform(-1, 1, (rows + HELD_OUT, 3))
    if name == 'sorted':
        x[:rows] = x[:rows][np.argsort(x[:rows, 0])]
    if name == 'rare':
        x[:, 0] = random.uniform(-1, 0.98, len(x))
        few = np.concatenate([random.random(rows) < 0.01, np.arange(HELD_OUT) % 2 == 0])
        x[few, 0] = random.uniform(0.98, 1, few.sum())
    if name == 'drift':
        x[:, 0] = np.linspace(-1, 1, len(x))
    return x


def target(name: str, x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    y = np.sin(4 * x[:, 1]) + x[:, 2] * np.cos(3 * x[:, 1])
    if name == 'rare':
        y = np.where(x[:, 0] >= 0.98, 2 - x[:, 2] ** 2 + x[:, 1], y)
    elif name == 'drift':
        y = np.sin(4 * x[:, 1] + 2 * x[:, 0]) + x[:, 0] * x[:, 2]
    else:
        y = y + 0.5 * x[:, 0]
    return y + 0.1 * random.standard_normal(len(x))


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(client: Any, name: str, rows: int, form: str) -> list[str]:
    random = np.random.default_rng(1)
    x = features(name, rows, random)
    y = target(name, x, random)
    table = {'a': x[:rows, 0], 'b': x[:rows, 1], 'c': x[:rows, 2], 'y': y[:rows]}
    held_out = {'a': x[rows:, 0], 'b': x[rows:, 1], 'c': x[rows:, 2]}
    local = {'local_rows': LOCAL_ROWS} if 'local' in form else {}

    def part(of: dict[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        return {column: values[:count] for column, values in of.items()}

    start = time.perf_counter()
    context = client.register(table, target='y', name='long', **FORMS[form])
    try:
        context.predict(part(held_out, 32), **local)
        first = time.perf_counter() - start
        many = part(table, 1000)
        del many['y']
        calls = [seconds(lambda: context.predict(many, **local)) for _ in range(3)]
        draws = [
            seconds(lambda: context.sample(part(held_out, 32), paths=256, seed=1, **local))
            for _ in range(3)
        ]
        found = context.predict(held_out, mixtures=True, **local)
        nat = np.mean(np.log(np.maximum(found.mixtures.density(y[rows:, None]), 1e-300)))
    finally:
        context.delete()
    return [
        name, f'{rows:,}', form, f'{first:.2f}', f'{1000 / statistics.median(calls):,.0f}',
        f'{256 * 32 / statistics.median(draws):,.0f}', f'{nat:.3f}',
    ]


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bundle', required=True)
    parser.add_argument('--rows', type=int, nargs='+', default=[10_000, 65_536, 100_000])
    parser.add_argument('--tables', nargs='+', default=['function'])
    parser.add_argument('--forms', nargs='+', default=list(FORMS))
    parser.add_argument('--all-rows', type=int, default=10_000)
    parser.add_argument('--flag', action='append', default=[], help='of the server')
    arguments = parser.parse_args()
    os.environ['CHORALE_SERVER_BUNDLE'] = arguments.bundle
    import chorale_client

    print('| table | rows | form | first answer | rows/s | values/s | nat |')
    print('| --- | --- | --- | --- | --- | --- | --- |')
    with chorale_client.serve(flags=arguments.flag) as server, server.connect() as client:
        for name in arguments.tables:
            for rows in arguments.rows:
                for form in arguments.forms:
                    if form == 'all rows' and rows > arguments.all_rows:
                        continue
                    print('|', ' | '.join(measure(client, name, rows, form)), '|', flush=True)


if __name__ == '__main__':
    main()
