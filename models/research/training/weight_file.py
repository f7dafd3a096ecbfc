"""model.safetensors: names and types of a model's tensors in the file that is served."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.research.training.model import JointModel
from models.research.training.model_config import ModelConfig

TRUNK = "trunk."
# The reference architecture's own encoder has its weights among the trunk's.
FEATURE_MEAN = ("row_encoder.x_embed.", "embedder.x_embed.")
# Of the single feature token's attention; a softmax over one key is 1 whatever they hold.
UNUSED = ("q_proj", "k_proj")


def file_name(name: str) -> str:
    if name.startswith(FEATURE_MEAN[0]):
        return name.replace(*FEATURE_MEAN)
    return name.removeprefix(TRUNK)


def save_weights(state: dict[str, Tensor], folder: str | Path, dtype: torch.dtype) -> None:
    """state is a model's state dict."""
    tensors = {file_name(name): value.to(dtype).contiguous().cpu() for name, value in state.items()}
    for name, value in list(tensors.items()):
        if name.endswith("attn_features.v_proj.weight"):
            for unused in UNUSED:
                tensors[name.replace("v_proj", unused)] = torch.zeros_like(value)
    save_file(tensors, Path(folder) / "model.safetensors")


def load_model(folder: str | Path, dtype: torch.dtype = torch.float32) -> JointModel:
    """A model in evaluation mode, on the CPU."""
    model = JointModel(ModelConfig.load(folder)).to(dtype)
    tensors = load_file(Path(folder) / "model.safetensors")
    state = {name: tensors.pop(file_name(name)).to(dtype) for name in model.state_dict()}
    model.load_state_dict(state)
    left = [name for name in tensors if not any(f"attn_features.{u}." in name for u in UNUSED)]
    if left:
        raise ValueError(f"{folder}/model.safetensors: unknown tensors {left}")
    return model.eval()
