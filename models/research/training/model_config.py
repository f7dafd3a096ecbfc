"""What config.json says about a model; the server reads the same file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path


@dataclasses.dataclass
class ModelConfig:
    """Sizes are those of ARCHITECTURE.md: D, H, L, Dff, M and K in this order."""

    model_type: str = "ar_tabpfn"
    row_encoder: str = "feature_mean"
    d_model: int = 128
    n_heads: int = 4
    n_layers: int = 12
    d_ff: int = 256
    num_components: int = 20
    buffer_size: int = 64
    num_features: int = 32  # most features of a table that training saw regularly
    max_features: int = 0  # 0: no limit
    trained_rows: int = 0  # most rows of a context in training; 0: unknown
    trained_features: int = 0  # most features in training; 0: unknown
    std_min: float = 1e-3
    std_max: float = 10.0
    layer_norm_eps: float = 1e-5
    normalize_x: str = "none"
    normalize_y: str = "none"
    season_column: str = "none"  # or "phase": see prior/phase_column.py
    # Of the row encoders that have an inside; 0 where one does not use it.
    encoder_width: int = 0  # E, of a cell, or of the hidden layer of slot_mlp
    encoder_heads: int = 0
    encoder_induced_points: int = 0  # I, of a column
    encoder_row_layers: int = 0
    encoder_pooled_tokens: int = 0  # P, of a row

    @staticmethod
    def load(folder: str | Path) -> ModelConfig:
        values = json.loads((Path(folder) / "config.json").read_text())
        known = {field.name for field in dataclasses.fields(ModelConfig)}
        values.pop("notice", None)
        unknown = set(values) - known
        if unknown:
            raise ValueError(f"{folder}/config.json: unknown keys {sorted(unknown)}")
        return ModelConfig(**values)

    def save(self, folder: str | Path) -> None:
        text = json.dumps(dataclasses.asdict(self), indent=1)
        (Path(folder) / "config.json").write_text(text + "\n")


def default_config(row_encoder: str) -> ModelConfig:
    """The default model's sizes, with the row encoder of that name."""
    config = ModelConfig(
        row_encoder=row_encoder,
        max_features=100,
        normalize_x="zscore",
        normalize_y="zscore",
        season_column="phase",
    )
    if row_encoder == "slot_mlp":
        config.encoder_width = 512
    elif row_encoder == "cell_attention":
        config.encoder_width = 64
        config.encoder_heads = 4
        config.encoder_induced_points = 16
        config.encoder_row_layers = 1
        config.encoder_pooled_tokens = 4
    else:
        raise ValueError(f"no default sizes for the row encoder {row_encoder!r}")
    return config
