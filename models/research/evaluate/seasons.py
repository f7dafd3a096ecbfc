"""Whether a column with the phase of a season that the context shows helps the model, and whom it harms:
python3 -m models.research.evaluate.seasons.

A draw in which no season is found is the same with and without; only the others are scored, twice. Writes
Markdown to standard output and all scores to a file. `seasons.md` says what came of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable

import numpy as np

from models.research.evaluate import cells, chorale, protocol
from models.research.evaluate.cells import Cell
from models.research.evaluate.split import Split
from models.research.training.prior.phase_column import Season, find_season
from models.research.training.prior.running_index import ROWS

SCORES = ("joint_16", "log_density", "crps", "rmse")
NULLS = ("normal", "heavy tails", "lognormal", "counts", "random walk", "random walk and noise", "levels")
NULL_SIZES = (16, 32, 64, 128, 256, 512)


def index_alone(split: Split) -> Split:
    """Without the column that tells the season; the first column of a series is its index."""
    return dataclasses.replace(
        split,
        context_x=split.context_x[:, :1],
        target_x=split.target_x[:, :1],
        is_categorical=split.is_categorical[:1],
    )


def season_of(split: Split, beside_others: bool = True) -> Season | None:
    return find_season(split.context_x, split.context_y, split.is_categorical, beside_others)


def with_phase(split: Split, season: Season) -> Split:
    """One column more, the last."""
    return dataclasses.replace(
        split,
        context_x=np.column_stack([split.context_x, season.phase(split.context_x)]),
        target_x=np.column_stack([split.target_x, season.phase(split.target_x)]),
        is_categorical=np.append(split.is_categorical, False),
    )


# How a cell is asked: what becomes of its splits, and whether other columns can tell the season.
Way = tuple[Callable[[Split], Split], bool]
WAYS: dict[str, Way] = {
    "as it is": (lambda split: split, True),
    "index alone": (index_alone, True),
    "added to a column that tells the season": (lambda split: split, False),
}


def ways(cell: Cell) -> list[str]:
    """The second and third are for series that have a column beside the index."""
    tells = cell.part == "series" and len(cell.split(0).is_categorical) > 1
    return list(WAYS) if tells else ["as it is"]


def score(predictor: chorale.Predictor, cell: Cell, way: str, draw: int) -> dict | None:
    """Without and with the column, and the period; None where no season is found."""
    change, beside_others = WAYS[way]
    split = change(cell.split(draw))
    season = season_of(split, beside_others)
    if season is None:
        return None
    without, with_column = (chorale.score(predictor, s) for s in (split, with_phase(split, season)))
    return {"period": season.period, "chance": season.chance, "without": without, "with": with_column}


def null_series(kind: str, rows: int, seed: int) -> np.ndarray:
    """[rows] of a series without a season."""
    random = np.random.default_rng([NULLS.index(kind), rows, seed])
    noise = random.standard_normal(rows)
    if kind == "normal":
        return noise
    if kind == "heavy tails":
        return random.standard_t(2, rows)
    if kind == "lognormal":
        return np.exp(1.2 * noise)
    if kind == "counts":
        return random.poisson(1.0, rows).astype(np.float64)
    if kind == "random walk":
        return noise.cumsum()
    if kind == "random walk and noise":
        return noise.cumsum() + 2.0 * random.standard_normal(rows)
    return 2.0 * random.standard_normal(9).repeat(-(-rows // 9))[:rows] + 0.3 * noise


def alarms(kind: str, rows: int, draws: int) -> int:
    """In how many series without a season one is found."""
    x, numeric = np.arange(rows, dtype=np.float64)[:, None], np.zeros(1, dtype=bool)
    return sum(find_season(x, null_series(kind, rows, seed), numeric) is not None for seed in range(draws))


def differences(found: list[dict | None], name: str) -> np.ndarray | None:
    """[draws] with less without; 0 where no season is found."""
    if not all(row is None or name in row["without"] for row in found):
        return None
    return np.array([0.0 if row is None else row["with"][name] - row["without"][name] for row in found])


def _figure(values: np.ndarray | None) -> str:
    if values is None or len(values) < 2:
        return ""
    return f"{values.mean():+.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def line(name: str, found: list[dict | None]) -> str:
    """Paired differences over all draws of a cell, with their standard errors."""
    rows = [row for row in found if row is not None]
    period = f"{np.median([row['period'] for row in rows]):.2f}" if rows else ""
    parts = [name, f"{len(rows)} of {len(found)}", period]
    parts += [_figure(differences(found, score)) if rows else "" for score in SCORES]
    return "| " + " | ".join(parts) + " |"


HEAD = (
    "| cell | found | period | joint of 16 | log-density | CRPS | RMSE |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> None:
    from models.research.training.predictor import Predictor

    parser = argparse.ArgumentParser(prog="python3 -m models.research.evaluate.seasons", description=__doc__)
    default = pathlib.Path(__file__).resolve().parents[2] / "default"
    parser.add_argument("--model", type=pathlib.Path, default=default, metavar="FOLDER")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parts", default=",".join(cells.PARTS), metavar="A,B")
    parser.add_argument("--draws", type=int, default=protocol.DRAWS)
    parser.add_argument("--null-draws", type=int, default=200, help="of each kind of series without a season")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/seasons.json"), metavar="FILE")
    options = parser.parse_args()
    predictor, raw = Predictor(str(options.model), options.device, seasons=False), {}
    for part in options.parts.split(",") if options.parts else []:
        for cell in cells.of_part(part):
            for way in ways(cell) if cell.rows() >= ROWS else []:
                found = [score(predictor, cell, way, draw) for draw in range(options.draws)]
                raw[f"{cell} {way}"] = found
                print(line(f"{cell} {way}", found), file=sys.stderr, flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(raw))
    print(HEAD)
    for name, found in raw.items():
        print(line(name, found))
    print("\n| no season | " + " | ".join(map(str, NULL_SIZES)) + " |\n" + "| --- " * (1 + len(NULL_SIZES)) + "|")
    for kind in NULLS if options.null_draws else []:
        counts = [alarms(kind, rows, options.null_draws) for rows in NULL_SIZES]
        print(f"| {kind} | " + " | ".join(map(str, counts)) + " |", flush=True)


if __name__ == "__main__":
    main()
