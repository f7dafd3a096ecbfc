"""The modes of predictive distributions."""

from __future__ import annotations

import numpy as np

from chorale_client._columns import Floats
from chorale_client._predictions import Mixtures

_STEPS = 200
_TOLERANCE = 1e-6  # in standard deviations of a component
_MAX_CELLS = 1 << 21  # in the arrays of a batch


def modes(mixtures: Mixtures) -> Floats:
    """Returns the value with the highest density of each row's mixture [rows].

    Mean-shift steps lead from the mean of each component to a mode: at x, component m has the
    weight p_m(x) / std_m^2, and the next x is the weighted mean of the components' means. A step
    never decreases the density, because it is a step of expectation maximisation. The result is
    the mode with the highest density.
    """
    rows, components = mixtures.means.shape
    size = max(1, _MAX_CELLS // (components * components))
    parts = [
        _modes_of(*(a[i : i + size] for a in (mixtures.means, mixtures.stds, mixtures.weights)))
        for i in range(0, rows, size)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _modes_of(means: Floats, stds: Floats, weights: Floats) -> Floats:
    """Returns the modes [rows] for arrays [rows, components]."""
    part = Mixtures(means, stds, weights)
    at = means.copy()
    for _ in range(_STEPS):
        z = (at[:, :, None] - means[:, None, :]) / stds[:, None, :]
        with np.errstate(divide="ignore"):
            log_pull = np.log(weights / stds**3)[:, None, :] - 0.5 * z * z
        pull = np.exp(log_pull - log_pull.max(axis=-1, keepdims=True))
        new = (pull * means[:, None, :]).sum(axis=-1) / pull.sum(axis=-1)
        moved = np.abs(new - at) / stds
        at = new
        if moved.max() < _TOLERANCE:
            break
    best = part.density(at).argmax(axis=1)
    return np.asarray(np.take_along_axis(at, best[:, None], axis=1)[:, 0])
