"""The numbers that the baselines see: one-hot categories, imputed and scaled numeric columns."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from models.research.evaluate.split import Split


def design_matrices(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """[Nctx, P] and [T, P] float64 without missing values; learnt from the context alone.

    A missing number becomes its column's median and sets an indicator column; a missing category is
    no category. Columns constant in the context are dropped.
    """
    numeric = np.flatnonzero(~split.is_categorical)
    categorical = np.flatnonzero(split.is_categorical)
    transformer = ColumnTransformer(
        [
            (
                "numeric",
                make_pipeline(
                    SimpleImputer(strategy="median", add_indicator=True), StandardScaler()
                ),
                numeric,
            ),
            (
                "categorical",
                OneHotEncoder(handle_unknown="ignore", sparse_output=False, drop="if_binary"),
                categorical,
            ),
        ]
    )
    context = transformer.fit_transform(split.context_x)
    with warnings.catch_warnings():  # a missing cell in a column that has none in the context
        warnings.filterwarnings("ignore", message="Found unknown categories")
        target = transformer.transform(split.target_x)
    varies = np.ptp(context, axis=0) > 0
    if not varies.any():
        return np.zeros((len(context), 1)), np.zeros((len(target), 1))
    return context[:, varies], target[:, varies]
