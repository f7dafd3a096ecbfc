"""Saving a run and taking it up again."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import torch

from models.research.training.model import JointModel
from models.research.training.model_config import ModelConfig
from models.research.training.optimisation import WeightAverage
from models.research.training.weight_file import load_model


def save_checkpoint(
    folder: Path,
    model: JointModel,
    average: WeightAverage,
    optimizers: list[torch.optim.Optimizer],
    run: dict[str, Any],
) -> None:
    """`run` holds step, elapsed and what else is needed to go on; plain JSON. A run may be stopped
    while it saves: files take the place of the older ones when all are written."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"model.pt": model.state_dict(), "average.pt": average.average}
    values |= {f"optimizer{index}.pt": o.state_dict() for index, o in enumerate(optimizers)}
    for name, value in values.items():
        torch.save(value, folder / f"{name}.partial")
    model.config.save(folder)
    (folder / "run.json.partial").write_text(json.dumps(run, indent=1) + "\n")
    for name in (*values, "run.json"):
        os.replace(folder / f"{name}.partial", folder / name)


def _check_config(folder: Path, config: ModelConfig) -> None:
    if ModelConfig.load(folder) != config:
        raise ValueError(f"{folder}: the checkpoint is of a model of another configuration")


@torch.no_grad()
def load_average(folder: Path, model: JointModel) -> None:
    """Gives the model the averaged weights of a checkpoint, or the weights of a folder that is
    served. The trunk's heads may be others: their number is in the shape of no weight."""
    heads = ModelConfig.load(folder).n_heads
    _check_config(folder, dataclasses.replace(model.config, n_heads=heads))
    if (folder / "average.pt").exists():
        device = next(model.parameters()).device
        average = torch.load(folder / "average.pt", map_location=device, weights_only=True)
    else:
        average = list(load_model(folder).parameters())
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

    _check_config(folder, model.config)
    model.load_state_dict(read("model.pt"))
    for kept, loaded in zip(average.average, read("average.pt"), strict=True):
        kept.copy_(loaded)
    for index, optimizer in enumerate(optimizers):
        state = read(f"optimizer{index}.pt")
        # Rates, and how the step is run, are this process's: it may be on another device.
        state["param_groups"] = [
            saved | {key: value for key, value in group.items() if key != "params"}
            for saved, group in zip(state["param_groups"], optimizer.param_groups, strict=True)
        ]
        optimizer.load_state_dict(state)
    return json.loads((folder / "run.json").read_text())
