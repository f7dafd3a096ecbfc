"""The floor: the Gaussian with the context's mean and standard deviation, whatever the features."""

from __future__ import annotations

import numpy as np

from models.research.evaluate.mixture import Mixture
from models.research.evaluate.split import Split


def predict(split: Split) -> Mixture:
    """The same Gaussian for every target."""
    y = split.context_y
    # The variance of a new value: that of the values, and that of their mean.
    std = y.std(ddof=1) * np.sqrt(1 + 1 / len(y))
    targets = len(split.target_y)
    return Mixture.gaussian(np.full(targets, y.mean()), np.full(targets, std))
