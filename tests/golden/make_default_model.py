#!/usr/bin/env python3
"""Makes tests/golden/default_model: what the default model says of three real tables, computed by
the training code's own forward pass in float64.

Usage: make_default_model.py [FOLDER]

To be run whenever models/default changes; the tests of the server refuse the files of other
weights. See README.md in this folder for what the files hold.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import sys

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from models.research.evaluate import tables  # noqa: E402
from models.research.training.mixture import Mixture  # noqa: E402
from models.research.training.predictor import EncodedContext, Predictor  # noqa: E402

MODEL = ROOT / "models" / "default"
OUTPUT = ROOT / "tests" / "golden" / "default_model"
EVERY = 10  # of a table that comes in one piece, every tenth row is a target, from this one on
FIRST = 2  # with it one make of cars has no row but a target: an unknown category
DRAWN_PATHS = 3
ORDERS = 3
SEED = 1

Array = np.ndarray
Tensors = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class GoldenTable:
    """A real table, some of whose rows are targets. Cells of x: numbers, or places of categories in
    the sorted list of all that the table has; NaN is missing."""

    target_column: str
    columns: list[str]
    categories: list[list[str] | None]  # of each column; None where it is numeric
    context_x: Array  # [Nctx, F]
    context_y: Array  # [Nctx]
    target_x: Array  # [T, F]
    target_y: Array  # [T]

    @property
    def is_categorical(self) -> Array:
        return np.array([names is not None for names in self.categories])


def read(context: pd.DataFrame, targets: pd.DataFrame, column: str) -> GoldenTable:
    """Columns of text are categorical."""
    whole = pd.concat([context, targets], ignore_index=True)
    features = whole.drop(columns=[column])
    cells, categories = [], []
    for _, values in features.items():
        if pd.api.types.is_numeric_dtype(values):
            cells.append(values.to_numpy(dtype=np.float64))
            categories.append(None)
        else:
            names = sorted(values.dropna().unique())
            place = {name: float(at) for at, name in enumerate(names)}
            cells.append(np.array([place.get(name, np.nan) for name in values]))
            categories.append(names)
    x, y = np.stack(cells, axis=1), whole[column].to_numpy(dtype=np.float64)
    n = len(context)
    return GoldenTable(column, list(features), categories, x[:n], y[:n], x[n:], y[n:])


def read_penguins() -> GoldenTable:
    folder = ROOT / "datasets"
    parts = (pd.read_csv(folder / name) for name in ("penguins.csv", "penguins_heldout.csv"))
    return read(*parts, "body_mass_g")


def read_evaluated(name: str) -> GoldenTable:
    """One of the tables of models/research/evaluate."""
    source = tables.SOURCES[name]
    frame = source.load().dropna(subset=[source.target])
    is_target = np.arange(len(frame)) % EVERY == FIRST
    return read(frame[~is_target], frame[is_target], source.target)


def golden_tables() -> dict[str, GoldenTable]:
    """Categories, missing cells and many columns; a table with none of that and one column."""
    return {
        "penguins": read_penguins(),
        "autos": read_evaluated("autos"),
        "engel": read_evaluated("engel"),
    }


def model_digest(folder: pathlib.Path) -> str:
    """The digest by which the server knows a model: see engine/model/model.cc."""
    config = (folder / "config.json").read_bytes()
    weights = (folder / "model.safetensors").read_bytes()
    length = len(config).to_bytes(8, "little")
    return hashlib.sha256(length + config + weights).hexdigest()


def draw_scaled(context: EncodedContext, rows: torch.Tensor, paths: int) -> torch.Tensor:
    """[B, T] z-scored values, each drawn given those before it on its path."""
    random = np.random.default_rng(SEED)
    y = torch.zeros(paths, len(rows), dtype=torch.float64)
    for step in range(len(rows)):
        seen = rows[: step + 1].expand(paths, -1, -1)
        mixture = Mixture(*(part[:, step] for part in context.along(seen, y[:, : step + 1])))
        for path in range(paths):
            weight = mixture.log_weight[path].exp().numpy()
            component = random.choice(len(weight), p=weight / weight.sum())
            drawn = random.normal(mixture.mean[path, component], mixture.std[path, component])
            y[path, step] = drawn
    return y


def in_user_units(mixture: Mixture, context: EncodedContext, prefix: str) -> Tensors:
    table = context.table
    return {
        f"{prefix}_weight": mixture.log_weight.exp().numpy(),
        f"{prefix}_mean": (mixture.mean * table.y_std + table.y_mean).numpy(),
        f"{prefix}_std": (mixture.std * table.y_std).numpy(),
    }


def scaled_cells(context: EncodedContext, x: Array) -> Array:
    """[R, F] as the row encoder reads them; NaN is missing."""
    cells = context.table.cells(x, context.device, torch.float64)
    return torch.where(cells.missing, torch.nan, cells.value)[0].numpy()


def draw_paths(predictor: Predictor, table: GoldenTable) -> Array:
    """[B, T]: the known values, and paths that the model draws, in the units of y."""
    with torch.inference_mode():
        context = predictor.encode(table.context_x, table.context_y, table.is_categorical)
        drawn = draw_scaled(context, context.encode(table.target_x), DRAWN_PATHS).numpy()
    drawn = drawn * context.table.y_std + context.table.y_mean
    return np.concatenate([table.target_y[None], drawn])


@torch.inference_mode()
def expected(predictor: Predictor, table: GoldenTable, path_y: Array) -> Tensors:
    """Everything that a server with this model must answer, in the units of y."""
    context = predictor.encode(table.context_x, table.context_y, table.is_categorical)
    rows, known = context.encode(table.target_x), context.scale_y(table.target_y)
    jacobian = np.log(context.table.y_std)

    paths = context.scale_y(path_y)
    along = context.along(rows.expand(len(paths), -1, -1), paths)

    random = np.random.default_rng(SEED)
    orders = np.array([random.permutation(len(rows)) for _ in range(ORDERS)])
    reordered = context.along(rows[orders], known[orders])

    return {
        "context_cells": scaled_cells(context, table.context_x),
        "target_cells": scaled_cells(context, table.target_x),
        "context_encoding": context.rows[0].numpy().astype(np.float32),
        "target_encoding": rows.numpy().astype(np.float32),
        **in_user_units(context.alone(rows), context, "alone"),
        "path_y": path_y,
        "path_log_density": along.log_density(paths).numpy() - jacobian,
        **in_user_units(along, context, "path"),
        "orders": orders.astype(np.float64),
        "order_log_density": reordered.log_density(known[orders]).numpy() - jacobian,
    }


def save(table: GoldenTable, tensors: Tensors, digest: str, path: pathlib.Path) -> None:
    given = {
        "context_x": table.context_x,
        "context_y": table.context_y,
        "target_x": table.target_x,
        "target_y": table.target_y,
    }
    columns = [
        {"name": name} if categories is None else {"name": name, "categories": categories}
        for name, categories in zip(table.columns, table.categories, strict=True)
    ]
    metadata = {
        "model_digest": digest,
        "target_column": table.target_column,
        "columns": json.dumps(columns),
    }
    for name, array in tensors.items():
        if not name.endswith("_cells") and not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} is not finite")
    arrays = {name: np.ascontiguousarray(array) for name, array in {**given, **tensors}.items()}
    save_file(arrays, path, metadata)


def main() -> None:
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    output.mkdir(parents=True, exist_ok=True)
    predictor = Predictor(MODEL, dtype=torch.float64)
    digest = model_digest(MODEL)
    for name, table in golden_tables().items():
        path = output / f"{name}.safetensors"
        save(table, expected(predictor, table, draw_paths(predictor, table)), digest, path)
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
