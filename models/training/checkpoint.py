"""Saving a run and taking it up again. In several files, each small enough to be carried alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from models.training.model import JointModel
from models.training.model_config import ModelConfig
from models.training.optimisation import WeightAverage


def _write(value: Any, path: Path) -> None:
    """Whole or not at all: a run may be stopped while it saves."""
    partial = path.with_suffix(".partial")
    torch.save(value, partial)
    os.replace(partial, path)


def save_checkpoint(
    folder: Path,
    model: JointModel,
    average: WeightAverage,
    optimizers: list[torch.optim.Optimizer],
    run: dict[str, Any],
) -> None:
    """`run` holds step, elapsed and what else is needed to go on; plain JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(model.state_dict(), folder / "model.pt")
    _write(average.average, folder / "average.pt")
    for place, optimizer in enumerate(optimizers):
        _write(optimizer.state_dict(), folder / f"optimizer{place}.pt")
    model.config.save(folder)
    (folder / "run.json").write_text(json.dumps(run, indent=1) + "\n")


@torch.no_grad()
def load_average(folder: Path, model: JointModel) -> None:
    """Gives the model the averaged weights of a checkpoint."""
    device = next(model.parameters()).device
    average = torch.load(folder / "average.pt", map_location=device, weights_only=True)
    for parameter, value in zip(model.parameters(), average, strict=True):
        parameter.copy_(value)


def load_checkpoint(
    folder: Path,
    model: JointModel,
    average: WeightAverage,
    optimizers: list[torch.optim.Optimizer],
) -> dict[str, Any]:
    device = next(model.parameters()).device

    def read(name: str) -> Any:
        return torch.load(folder / name, map_location=device, weights_only=True)

    if ModelConfig.load(folder) != model.config:
        raise ValueError(f"{folder}: the checkpoint is of a model of another configuration")
    model.load_state_dict(read("model.pt"))
    for kept, loaded in zip(average.average, read("average.pt"), strict=True):
        kept.copy_(loaded)
    for place, optimizer in enumerate(optimizers):
        optimizer.load_state_dict(read(f"optimizer{place}.pt"))
    return json.loads((folder / "run.json").read_text())
