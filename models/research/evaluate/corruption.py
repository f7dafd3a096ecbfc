"""How a rule of scaling bears corrupt cells, constant columns and heavy tails:
python3 -m models.research.evaluate.corruption.

The same model under several rules, on the tables of the evaluation as they are and damaged
(damage.py), and on made-up tables with heavy tails (heavy_tails.py). Writes corruption.md and the
raw scores.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import sys
import time
import zlib

import numpy as np
import torch

from models.research.evaluate import cells, corruption_report, heavy_tails, scores
from models.research.evaluate.cells import Cell
from models.research.evaluate.corruption_rules import RULES
from models.research.evaluate.damage import DAMAGES
from models.research.evaluate.mixture import Mixture
from models.research.evaluate.split import Split
from models.research.training.predictor import Predictor, Table
from models.research.training.prior.scaling import ScalingRule
from models.research.training.row_encoders import Cells

CELLS_AT_ONCE = 1_500_000  # of the tables that are predicted together
PAIRS_AT_ONCE = 50_000_000  # of their rows
SCORES = ("log_density", "crps", "rmse", "bias", "bias_of_sum")

Scored = dict[str, dict[str, list[list[float]]]]  # damage, rule -> draws, in the order of SCORES


class Question:
    """A split as the model reads it under one rule."""

    def __init__(self, split: Split, rule: ScalingRule):
        device = torch.device("cpu")
        table = Table(split.context_x, split.context_y, split.is_categorical, rule)
        self.context = table.context_cells(device, torch.float32)
        self.target = table.cells(split.target_x, device, torch.float32)
        self.y = table.context_y(device, torch.float32)[None]
        self.mean, self.std = table.y_mean, table.y_std
        parts = (*self.context, *self.target, self.y)
        digests = [zlib.crc32(part.numpy().tobytes()) for part in parts]
        self.key = (*self.shape(), self.mean, self.std, *digests)

    def shape(self) -> tuple[int, int, int]:
        return (*self.context.value.shape[1:], self.target.value.shape[1])


@torch.inference_mode()
def predict(predictor: Predictor, questions: list[Question]) -> list[Mixture]:
    """Questions of one shape, each target alone; in the units of their y."""

    def together(parts: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat(parts).to(predictor.device)

    model = predictor.model
    context, target = (
        Cells(*(together(list(part)) for part in zip(*(getattr(q, name) for q in questions))))
        for name in ("context", "target")
    )
    y = together([q.y for q in questions])
    state = model.row_encoder.fit(context, y)
    rows = model.row_encoder.encode(state, context)
    asked = model.row_encoder.encode(state, target)
    nothing = torch.zeros(asked.shape[1], dtype=torch.long, device=y.device)
    mixture = model.trunk(rows, y, asked[:, :0], y[:, :0], asked, nothing)
    weight, mean, std = (part.double().cpu().numpy() for part in mixture)
    return [
        Mixture(np.exp(weight[i]), mean[i] * q.std + q.mean, std[i] * q.std)
        for i, q in enumerate(questions)
    ]


def predict_all(predictor: Predictor, questions: list[Question]) -> dict[tuple, Mixture]:
    """By the questions' keys; what is asked twice is answered once."""
    by_shape: dict[tuple, dict[tuple, Question]] = {}
    for question in questions:
        by_shape.setdefault(question.shape(), {})[question.key] = question
    found: dict[tuple, Mixture] = {}
    for (n, f, t), different in by_shape.items():
        at_once = max(1, min(CELLS_AT_ONCE // ((n + t) * f), PAIRS_AT_ONCE // (n + t) ** 2))
        keys = list(different)
        for begin in range(0, len(keys), at_once):
            some = keys[begin : begin + at_once]
            found |= zip(some, predict(predictor, [different[key] for key in some]))
    return found


def score(mixture: Mixture, split: Split, truth: np.ndarray | None) -> list[float]:
    """SCORES. Where the targets' true means are known, errors are those of the predicted means."""
    found = scores.marginal(mixture, split)
    error = mixture.point() - (split.target_y if truth is None else truth)
    if truth is not None:
        found["rmse"] = float(np.sqrt(np.mean(error**2)))
    found["bias"] = float(error.mean())
    of = split.target_y if truth is None else truth
    found["bias_of_sum"] = float(error.sum() / np.abs(of).sum())
    return [round(found[name], 6) for name in SCORES]


def score_draws(predictor: Predictor, draws: list[tuple[str, Split, np.ndarray | None]]) -> Scored:
    """draws: the damage, the split and the true means of its targets, where they are known."""
    asked = [(draw, {name: Question(draw[1], rule) for name, rule in RULES.items()}) for draw in draws]
    answers = predict_all(predictor, [q for _, by_rule in asked for q in by_rule.values()])
    found: Scored = {}
    for (damage, split, truth), by_rule in asked:
        kept: dict[tuple, list[float]] = {}
        for name, question in by_rule.items():
            if question.key not in kept:
                kept[question.key] = score(answers[question.key], split, truth)
            found.setdefault(damage, {}).setdefault(name, []).append(kept[question.key])
    return found


def draws_of(part: str, name: str, size: str, draws: int) -> list:
    if part == "heavy":
        made = [heavy_tails.split(name, int(size), draw) for draw in range(draws)]
        return [("clean", split, truth) for split, truth in made]
    found = []
    for draw in range(draws):
        split = Cell(part, name, size).split(draw)
        for number, (damage, change) in enumerate(DAMAGES.items()):
            random = np.random.default_rng([zlib.crc32(name.encode()), draw, number])
            found.append((damage, change(split, random), None))
    return found


_predictor: Predictor | None = None


def _start(model: str, device: str) -> None:
    global _predictor
    torch.set_num_threads(1)
    if device == "cuda":  # one of several, in turn
        device = f"cuda:{os.getpid() % torch.cuda.device_count()}"
    _predictor = Predictor(model, device)


def _run(task: tuple[str, str, str, int]) -> tuple[str, Scored]:
    return "/".join(task[:3]), score_draws(_predictor, draws_of(*task))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m models.research.evaluate.corruption", description=__doc__)
    default = pathlib.Path(__file__).resolve().parents[2] / "default"
    parser.add_argument("--model", type=pathlib.Path, default=default, metavar="FOLDER")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--draws", type=int, default=10, help="of each table and context size")
    parser.add_argument("--heavy-draws", type=int, default=40, help="of each heavy tail and size")
    parser.add_argument("--tables", type=lambda text: text.split(","), help="only these, A,B")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/corruption"))
    return parser.parse_args()


def _tasks(options: argparse.Namespace) -> list[tuple[str, str, str, int]]:
    tables = [cell for cell in cells.of_part("tables") if not options.tables or cell.name in options.tables]
    tasks = [("tables", cell.name, cell.size, options.draws) for cell in tables]
    tasks += [
        ("heavy", kind, str(size), options.heavy_draws)
        for kind in heavy_tails.KINDS
        for size in heavy_tails.SIZES
    ]
    # What takes longest comes first.
    return sorted(tasks, key=lambda task: -(4096 if task[2] == "all" else int(task[2])))


def main() -> None:
    options = _arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    tasks, found, begin = _tasks(options), {}, time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(
        options.workers,
        multiprocessing.get_context("spawn"),
        _start,
        (str(options.model), options.device),
    ) as pool:
        running = [pool.submit(_run, task) for task in tasks]
        for done in concurrent.futures.as_completed(running):
            name, scored = done.result()
            found[name] = scored
            print(f"{time.monotonic() - begin:5.0f} s {len(found)}/{len(tasks)} {name}", file=sys.stderr, flush=True)
    found = {"/".join(task[:3]): found["/".join(task[:3])] for task in tasks}
    (options.out / "corruption.json").write_text(json.dumps(found))
    page = corruption_report.page(found, SCORES)
    (options.out / "corruption.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
