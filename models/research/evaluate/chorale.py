"""Scores of the model: each target alone, blocks jointly, and the same blocks independently."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from models.research.evaluate import scores
from models.research.evaluate.mixture import Mixture
from models.research.evaluate.scores import Scores
from models.research.evaluate.split import Split


class Predictor(Protocol):
    """What `models.research.training.predictor.Predictor` offers. Values and densities are in units of y."""

    def mixture(
        self,
        context_x: np.ndarray,
        context_y: np.ndarray,
        target_x: np.ndarray,
        is_categorical: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weight, mean and std, each [T, M], of independent targets."""

    def joint_log_density(
        self,
        context_x: np.ndarray,
        context_y: np.ndarray,
        target_x: np.ndarray,
        target_y: np.ndarray,
        orders: np.ndarray,
        is_categorical: np.ndarray | None = None,
    ) -> np.ndarray:
        """[R] total log-density of the targets taken in each of the orders [R, T]."""


def score(predictor: Predictor, split: Split) -> Scores:
    """Marginal scores, and per target joint_S, mixed_S and independent_S of blocks of S targets.

    joint_S is the mean over orders, mixed_S the log-mean-exp over the same orders; independent_S
    scores the same targets, each by itself.
    """
    context = (split.context_x, split.context_y)
    parts = predictor.mixture(*context, split.target_x, split.is_categorical)
    mixture = Mixture(*(np.asarray(part, dtype=np.float64) for part in parts))
    found = scores.marginal(mixture, split)
    alone = mixture.log_density(split.target_y)
    for size in split.block_sizes:
        blocks = scores.blocks(split, size)
        if not blocks:
            continue
        orders = scores.orders(split, size)
        joint = [
            scores.of_joint(
                np.asarray(
                    predictor.joint_log_density(
                        *context,
                        split.target_x[block],
                        split.target_y[block],
                        orders,
                        split.is_categorical,
                    ),
                    dtype=np.float64,
                ),
                size,
            )
            for block in blocks
        ]
        found[f"joint_{size}"], found[f"mixed_{size}"] = np.mean(joint, axis=0).tolist()
        found[f"independent_{size}"] = float(np.mean([alone[block].mean() for block in blocks]))
    return found
