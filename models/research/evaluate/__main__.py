"""Command line: scores the model and the baselines, writes a Markdown page and the raw scores."""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import sys
import time

from models.research.evaluate import baseline_runs, cells, chorale, protocol, report
from models.research.evaluate.baselines import BASELINES
from models.research.evaluate.cells import Cell
from models.research.evaluate.report import MODEL, Results
from models.research.evaluate.score_cache import ScoreCache

_FOLDER = pathlib.Path(__file__).parent
_QUICK_DRAWS = 3
_QUICK_NAMES = {
    "tables": {"autos", "diabetes", "engel"},
    "gp": {"rbf_d1_noise0.1", "matern32_d2_noise0.3"},
    "forecast": {"rough", "season"},
    "series": {"nile", "unemployment"},
}
_QUICK_LARGEST = 64


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m models.research.evaluate", description=__doc__)
    add = parser.add_argument
    add(
        "--model",
        type=pathlib.Path,
        default=_FOLDER.parent / "default",
        metavar="FOLDER",
        help="the model: config.json and model.safetensors",
    )
    add("--device", default="cpu", help="of the model: cpu or cuda")
    add(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("build/evaluation"),
        metavar="FOLDER",
        help="where report.md and scores.json go",
    )
    add(
        "--parts",
        type=_names,
        default=list(cells.PARTS),
        metavar="A,B",
        help=f"among {','.join(cells.PARTS)}; default all",
    )
    add(
        "--tables",
        type=_names,
        default=None,
        metavar="A,B",
        help="only tables, processes and series of these names",
    )
    add("--sizes", type=_names, default=None, metavar="A,B", help="only these context sizes")
    add(
        "--methods",
        type=_names,
        default=[MODEL, *BASELINES],
        metavar="A,B",
        help=f"for the tables, among {','.join([MODEL, *BASELINES])}; default all",
    )
    add("--draws", type=int, default=protocol.DRAWS, help="random draws of each cell")
    add(
        "--quick",
        action="store_true",
        help=f"a few small cells, {_QUICK_DRAWS} draws: does it run?",
    )
    add(
        "--baselines-only",
        action="store_true",
        help="fill the cache; no model and no PyTorch needed",
    )
    add(
        "--cache",
        type=pathlib.Path,
        default=_FOLDER / "baseline_scores.json",
        metavar="FILE",
        help="scores of the baselines, computed once",
    )
    add("--workers", type=int, default=1, help="processes for the baselines")
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace) -> list[Cell]:
    """Loads only the tables that are asked for."""
    named = [(part, name) for part in options.parts for name in cells.names(part)]
    if options.tables is not None:
        unknown = set(options.tables) - {name for _, name in named}
        if unknown:
            sys.exit(f"unknown names: {', '.join(sorted(unknown))}")
        named = [(part, name) for part, name in named if name in options.tables]
    if options.quick:
        named = [(part, name) for part, name in named if name in _QUICK_NAMES[part]]
    found = [cell for part, name in named for cell in cells.of_name(part, name)]
    if options.sizes is not None:
        found = [cell for cell in found if cell.size in options.sizes]
    if options.quick:
        found = [cell for cell in found if cell.size.isdigit() and int(cell.size) <= _QUICK_LARGEST]
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _score_model(
    chosen: list[Cell], predictor: chorale.Predictor, draws: int, results: Results
) -> None:
    started = time.monotonic()
    for i, cell in enumerate(chosen):
        rows = (chorale.score(predictor, cell.split(draw)) for draw in range(draws))
        results[cell] = {MODEL: baseline_runs.columns(rows), **results[cell]}
        _say(f"{time.monotonic() - started:7.0f} s  {i + 1}/{len(chosen)}  {cell} {MODEL}")


def weights_line(model: pathlib.Path) -> str:
    """Which weights a report is of."""
    digest = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    return f"SHA-256 of model.safetensors: {digest}\n"


def _write(results: Results, options: argparse.Namespace, draws: int) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    raw = {
        "model": str(options.model),
        "draws": draws,
        "seeds": "draw number d of a cell is seeded by the cell's name and d, see cells.py",
        "scores": {str(cell): methods for cell, methods in results.items()},
    }
    (options.out / "scores.json").write_text(json.dumps(raw))
    title = "Baselines" if options.baselines_only else f"Evaluation of {options.model}"
    page = report.page(results, f"{title}, {draws} draws a cell")
    if not options.baselines_only:
        page += "\n" + weights_line(options.model)
    (options.out / "report.md").write_text(page)
    _say(f"wrote {options.out / 'report.md'} and {options.out / 'scores.json'}")


def main(arguments: list[str]) -> None:
    """Runs what the command line asks for."""
    options = _arguments(arguments)
    draws = min(options.draws, _QUICK_DRAWS) if options.quick else options.draws
    chosen = _chosen(options)
    methods = {cell: baseline_runs.methods(cell.part, options.methods) for cell in chosen}
    cache = ScoreCache(options.cache)
    wanted = [(cell, name) for cell in chosen for name in methods[cell]]
    baseline_runs.fill(cache, wanted, draws, options.workers, _say)
    results: Results = {
        cell: {name: cache.get(cell, name, baseline_runs.REVISION, draws) for name in methods[cell]}
        for cell in chosen
    }
    if not options.baselines_only and MODEL in options.methods:
        # Here, because the baselines and the tests of this program do without PyTorch.
        from models.research.training.predictor import Predictor

        _score_model(chosen, Predictor(str(options.model), options.device), draws, results)
    _write(results, options, draws)


if __name__ == "__main__":
    main(sys.argv[1:])
