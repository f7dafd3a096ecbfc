"""Writes the folder that is served from a run's checkpoint: python3 -m models.research.training.export."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from models.research.training.checkpoint import load_average
from models.research.training.model import JointModel
from models.research.training.model_config import ModelConfig
from models.research.training.weight_file import save_weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="folder that training wrote")
    parser.add_argument("folder", type=Path, help="gets config.json and model.safetensors")
    arguments = parser.parse_args()
    config = ModelConfig.load(arguments.checkpoint)
    model = JointModel(config)
    load_average(arguments.checkpoint, model)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    save_weights(model.state_dict(), arguments.folder, torch.bfloat16)
    config.save(arguments.folder)


if __name__ == "__main__":
    main()
