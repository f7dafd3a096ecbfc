"""Samples as objects of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from chorale_client._columns import Floats


def to_xarray(samples: Any, values: Floats) -> Any:
    """Returns the values of samples as an `xarray.DataArray`."""
    try:
        import xarray
    except ImportError:
        raise ImportError(
            "to_xarray() requires xarray: pip install 'chorale-client[xarray]'"
        ) from None
    return xarray.DataArray(
        values,
        dims=("path", "row"),
        coords={
            "path": samples.first_path + np.arange(samples.paths),
            "row": np.asarray(samples.index),
        },
        name=samples.target,
        attrs={
            "seed": str(samples.seed),
            "context_digest": samples.source.context_digest,
            "model_digest": samples.source.model_digest,
        },
    )


def to_arviz(samples: Any, values: Floats) -> Any:
    """Returns the values of samples as an `arviz.InferenceData`."""
    try:
        import arviz
    except ImportError:
        raise ImportError(
            "to_arviz() requires arviz: pip install 'chorale-client[arviz]'"
        ) from None
    return arviz.from_dict(
        posterior_predictive={samples.target: values[None, :, :]},
        dims={samples.target: ["row"]},
        coords={"row": np.asarray(samples.index)},
    )
