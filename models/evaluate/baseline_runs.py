"""Computes the scores of all methods but the model, over several processes."""

from __future__ import annotations

import collections
import concurrent.futures
import multiprocessing
import pathlib
import time
from collections.abc import Callable, Iterable

import threadpoolctl

from models.evaluate import references, scores
from models.evaluate.baselines import BASELINES, REVISION
from models.evaluate.cells import Cell
from models.evaluate.score_cache import Columns, ScoreCache
from models.evaluate.scores import Scores
from models.evaluate.split import Split

# For the parts other than "tables".
REFERENCES: dict[str, dict[str, Callable[[Split], Scores]]] = {
    "gp": {"exact": references.exact, "fitted": references.fitted},
    "forecast": {"exact": references.exact, "fitted": references.fitted},
    "series": {"gaussian_process": references.series_gaussian_process},
}


def methods(part: str) -> list[str]:
    """The names of the methods that a part compares the model with."""
    return list(BASELINES if part == "tables" else REFERENCES[part])


def score(cell: Cell, method: str, draw: int) -> Scores:
    """One method on one draw."""
    split = cell.split(draw)
    if cell.part == "tables":
        return scores.marginal(BASELINES[method](split), split)
    return REFERENCES[cell.part][method](split)


def _start_worker() -> None:
    """One thread a worker: the matrices are small, and the processes fill the machine."""
    threadpoolctl.threadpool_limits(1)


def columns(draws: Iterable[Scores]) -> Columns:
    """Turns one dictionary a draw into one list a score."""
    rows = list(draws)
    return {name: [row[name] for row in rows] for name in rows[0]}


def _missing(
    cells: list[Cell], wanted: list[str], cache: ScoreCache, draws: int
) -> list[tuple[Cell, str]]:
    """What the cache lacks, long work first, so that no worker is left with it at the end."""
    found = [
        (cell, method)
        for cell in cells
        for method in methods(cell.part)
        if method in wanted and cache.get(cell, method, REVISION, draws) is None
    ]
    return sorted(found, key=lambda job: -job[0].rows())


def fill(
    cells: list[Cell],
    wanted: list[str],
    cache_path: pathlib.Path,
    draws: int,
    workers: int,
    say: Callable[[str], None],
) -> ScoreCache:
    """The cache with all draws of the wanted methods on the cells; saved after each pair."""
    cache = ScoreCache(cache_path)
    jobs = _missing(cells, wanted, cache, draws)
    if not jobs:
        return cache
    started, done = time.monotonic(), 0
    pending: dict[concurrent.futures.Future, tuple[Cell, str, int]] = {}
    found: dict[tuple[Cell, str], dict[int, Scores]] = collections.defaultdict(dict)
    with concurrent.futures.ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _start_worker
    ) as pool:
        for cell, method in jobs:
            for draw in range(draws):
                pending[pool.submit(score, cell, method, draw)] = (cell, method, draw)
        for future in concurrent.futures.as_completed(pending):
            cell, method, draw = pending[future]
            found[cell, method][draw] = future.result()
            if len(found[cell, method]) == draws:
                ordered = found.pop((cell, method))
                cache.put(cell, method, REVISION, columns(ordered[i] for i in range(draws)))
                done += 1
                say(f"{time.monotonic() - started:7.0f} s  {done}/{len(jobs)}  {cell} {method}")
    return cache
