#!/usr/bin/env python3
"""Appended rows, through the server: their cost and their accuracy.

Usage: tests/bench/appended_rows.py --bundle BUNDLE [--rows N] [--flag=FLAG ...]

BUNDLE is an unpacked release bundle; the Python client has to be importable. Prints two Markdown
tables, of a context of --rows rows:

  cost       seconds until all keys and values are resident, after 1, 16 and 256 rows were
             appended, and after the whole table was registered; medians of 15
  accuracy   mean log-density of 512 held-out rows in nat, of the rows before the append, with 1, 10
             and 50 % of them appended, in one call and in 16, and with all rows encoded anew

Tables: `function`, a smooth function of three features with noise; `drift`, whose function changes
with the first feature, time, and whose appended and held-out rows are the latest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from typing import Any

import numpy as np
from long_contexts import HELD_OUT, features, target

APPENDED = (1, 16, 256)
SHARES = (1, 10, 50)
REPEATS = 15


def table_of(name: str, rows: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A table, and its held-out rows."""
    random = np.random.default_rng(1)
    x = features(name, rows, random)
    columns = dict(zip('abc', x.T), y=target(name, x, random))
    return part(columns, 0, rows), part(columns, rows, rows + HELD_OUT)


def part(table: dict[str, np.ndarray], begin: int, end: int) -> dict[str, np.ndarray]:
    return {name: values[begin:end] for name, values in table.items()}


def without_target(table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values for name, values in table.items() if name != 'y'}


def cost(client: Any, rows: int) -> None:
    print('| appended rows | append | register | ratio |')
    print('| --- | --- | --- | --- |')
    table, _ = table_of('function', rows + max(APPENDED))
    for count in APPENDED:
        seconds: dict[str, list[float]] = {'append': [], 'register': []}
        for repeat in range(REPEATS):
            context = client.register(part(table, 0, rows), target='y', name=f'base{repeat}')
            context.warm()
            start = time.perf_counter()
            context.append(part(table, rows, rows + count))
            context.warm()
            seconds['append'].append(time.perf_counter() - start)
            context.delete()
            start = time.perf_counter()
            context = client.register(part(table, 0, rows + count), target='y', name='anew')
            context.warm()
            seconds['register'].append(time.perf_counter() - start)
            context.delete()
        append, register = (statistics.median(of) for of in seconds.values())
        print(f'| {count} | {append:.4f} | {register:.3f} | {register / append:.1f} |', flush=True)


def log_density(context: Any, held_out: dict[str, np.ndarray]) -> float:
    found = context.predict(without_target(held_out), mixtures=True)
    density = found.mixtures.density(held_out['y'][:, None])
    return float(np.mean(np.log(np.maximum(density, 1e-300))))


def accuracy(client: Any, name: str, rows: int) -> None:
    for share in SHARES:
        base = rows * 100 // (100 + share)
        table, held_out = table_of(name, rows)
        context = client.register(part(table, 0, base), target='y', name=f'{name}{share}')
        found = [log_density(context, held_out)]
        context.append(part(table, base, rows))
        found.append(log_density(context, held_out))
        pieces = client.register(part(table, 0, base), target='y', name=f'{name}{share}-pieces')
        for piece in np.array_split(np.arange(base, rows), 16):
            pieces.append(part(table, piece[0], piece[-1] + 1))
        found.append(log_density(pieces, held_out))
        pieces.warm(encode_anew=True)
        found.append(log_density(pieces, held_out))
        context.delete()
        pieces.delete()
        print('|', ' | '.join([name, f'{share} %', *(f'{x:.3f}' for x in found)]), '|', flush=True)


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bundle', required=True)
    parser.add_argument('--rows', type=int, default=4000)
    parser.add_argument('--flag', action='append', default=[], help='of the server')
    arguments = parser.parse_args()
    os.environ['CHORALE_SERVER_BUNDLE'] = arguments.bundle
    import chorale_client

    warnings.simplefilter('ignore', chorale_client.DataWarning)
    flags = ['--max_appended_percent=100', *arguments.flag]
    with chorale_client.serve(flags=flags) as server, server.connect() as client:
        cost(client, arguments.rows)
        print()
        print('| table | appended | before | in one call | in 16 calls | encoded anew |')
        print('| --- | --- | --- | --- | --- | --- |')
        for name in ('function', 'drift'):
            accuracy(client, name, arguments.rows)


if __name__ == '__main__':
    main()
