"""Computes the scores of all methods but the model, over several processes."""

from __future__ import annotations

import collections
import concurrent.futures
import multiprocessing
import time
from collections.abc import Callable, Iterable

import threadpoolctl

from models.research.evaluate import references, scores
from models.research.evaluate.baselines import BASELINES, REVISION
from models.research.evaluate.cells import Cell
from models.research.evaluate.score_cache import Columns, ScoreCache
from models.research.evaluate.scores import Scores
from models.research.evaluate.split import Split

# For the parts other than "tables".
REFERENCES: dict[str, dict[str, Callable[[Split], Scores]]] = {
    "gp": {"exact": references.exact, "fitted": references.fitted},
    "forecast": {"exact": references.exact, "fitted": references.fitted},
    "series": {"gaussian_process": references.series_gaussian_process},
}


def methods(part: str, of_tables: list[str]) -> list[str]:
    """What a part compares the model with; of the tables' baselines, only those wanted."""
    if part == "tables":
        return [name for name in BASELINES if name in of_tables]
    return list(REFERENCES[part])


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


def fill(
    cache: ScoreCache,
    wanted: list[tuple[Cell, str]],
    draws: int,
    workers: int,
    say: Callable[[str], None],
) -> None:
    """Computes what the cache lacks of the wanted cells and methods; saves after each pair."""
    missing = [job for job in wanted if cache.get(*job, REVISION, draws) is None]
    if not missing:
        return
    missing.sort(key=lambda job: -job[0].rows())  # so that no worker is left with it at the end
    started, done = time.monotonic(), 0
    found: dict[tuple[Cell, str], dict[int, Scores]] = collections.defaultdict(dict)
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _start_worker
    )
    try:
        pending = {
            pool.submit(score, *job, draw): (job, draw) for job in missing for draw in range(draws)
        }
        for future in concurrent.futures.as_completed(pending):
            job, draw = pending[future]
            found[job][draw] = future.result()
            if len(found[job]) == draws:
                by_draw = found.pop(job)
                cache.put(*job, REVISION, columns(by_draw[i] for i in range(draws)))
                done += 1
                say(
                    f"{time.monotonic() - started:7.0f} s  {done}/{len(missing)}  {job[0]} {job[1]}"
                )
    finally:
        pool.shutdown(cancel_futures=True)  # after a failure, without the rest of the work
