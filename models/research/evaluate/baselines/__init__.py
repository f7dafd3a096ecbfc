"""The methods that the model is compared with, each fitted on the split's context alone."""

from __future__ import annotations

from collections.abc import Callable

from models.research.evaluate.baselines import (
    bayesian_ridge,
    constant,
    gaussian_process,
    gradient_boosting,
    random_forest,
)
from models.research.evaluate.mixture import Mixture
from models.research.evaluate.split import Split

# Part of the key of cached scores: raise it when a baseline changes.
REVISION = 1

BASELINES: dict[str, Callable[[Split], Mixture]] = {
    "gaussian_process": gaussian_process.predict,
    "bayesian_ridge": bayesian_ridge.predict,
    "random_forest": random_forest.predict,
    "gradient_boosting": gradient_boosting.predict,
    "constant": constant.predict,
}
