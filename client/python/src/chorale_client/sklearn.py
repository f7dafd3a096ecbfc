"""A scikit-learn regressor that uses an in-context model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import (
        _check_y,
        check_consistent_length,
        check_is_fitted,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "chorale_client.sklearn requires scikit-learn 1.6 or newer: "
        "pip install 'chorale-client[sklearn]'"
    ) from error

from chorale_client._categorical_features import Choice, categorical_names
from chorale_client._choices import check_choice
from chorale_client._client import Client, Context
from chorale_client._columns import Floats, Kind
from chorale_client._context_cache import Held, hold, renew
from chorale_client._errors import InvalidArgumentError, NotFoundError
from chorale_client._estimator_inputs import check_numeric, columns_of, eager, seed_of
from chorale_client._inputs import table_to_register
from chorale_client._labels import Labels
from chorale_client._modes import modes
from chorale_client._process_clients import client_for
from chorale_client._requests import RegisterOptions

OutputType = Literal["mean", "median", "mode", "quantiles", "main", "full"]
Result = TypeVar("Result")

_TARGET = "target"
_OUTPUT_TYPES = get_args(OutputType)
_DECILES = tuple(i / 10 for i in range(1, 10))


class ChoraleRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression with an in-context model: `fit` registers a table, and trains nothing.

    X is an array, a pandas or polars DataFrame (also a LazyFrame), or a PyArrow table, with
    numbers, strings, categories, booleans, dates and missing cells. `help(chorale_client)`
    describes how columns are read. An unknown category is read as missing. Sparse matrices are
    rejected. `fit` does not support `sample_weight`.

    `fit` registers the table with the server under a name derived from its content. If no
    estimator in this process uses the table, because estimators were fitted again or
    garbage-collected, the table is deleted from the server at the next `fit`, or when the process
    ends. Estimators, their copies and their pickles keep the table. If another process deletes it
    from the server, or the server loses it, the estimator registers it again when needed. If a
    process is killed, or closes the `Client` that it passed as `server`, a `fit` of another process
    deletes its tables a day later.

    Args:
        server: The server's address, or a `Client`. None: $CHORALE_SERVER, or otherwise a server of
            your own, as for `chorale_client.connect`.
        model: The name of the model; None: the server's default model.
        categorical_features: Columns to read as categories regardless of their types: names or
            positions; a mask [columns], as an array, a list or a Series labelled with the columns'
            names; a slice; or a function of X that returns any of these, such as scikit-learn's
            `make_column_selector`. Columns of a categorical type are always categories, and so are
            columns of strings, unless all are numbers, booleans or dates. "from_dtype" and None add
            no others.
        memory_rows: For tables of many rows: the number of keys, at least 64, to which each layer
            and K/V head of the model reduces the rows; see `chorale_client.Client.register`. None:
            all rows.

    Attributes:
        n_features_in_: The number of columns.
        feature_names_in_: The names of the columns [columns], if X is a DataFrame whose column
            names are strings.
        context_: The `chorale_client.Context`, for calls that this class does not provide.

    Examples:
        >>> model = ChoraleRegressor("127.0.0.1:50051").fit(X, y)
        >>> means, stds = model.predict(X_new, return_std=True)
    """

    def __init__(
        self,
        server: str | Client | None = None,
        *,
        model: str | None = None,
        categorical_features: Choice | npt.NDArray[Any] = None,
        memory_rows: int | None = None,
    ) -> None:
        self.server = server
        self.model = model
        self.categorical_features = categorical_features
        self.memory_rows = memory_rows

    def fit(self, X: Any, y: npt.ArrayLike) -> ChoraleRegressor:  # noqa: N803
        """Registers the table.

        Args:
            X: [rows, columns]: the features.
            y: [rows]: numbers without missing values.

        Returns:
            The estimator.

        Raises:
            InvalidArgumentError: The server rejects the table, y contains class labels, or
                `categorical_features` names an unknown column. A `ValueError`, like the errors of
                scikit-learn.
            UnavailableError: No server answers.
        """
        X = self._check(X, y, reset=True)  # noqa: N806
        check_numeric(y)
        values: Floats = np.asarray(_check_y(y, y_numeric=True, estimator=self), np.float64)
        check_consistent_length(X, values)
        columns = self._columns(X)
        chosen = categorical_names(self.categorical_features, X, list(columns))
        kinds: dict[str, Kind] = dict.fromkeys(chosen, "categorical")
        target = _TARGET
        while target in columns:
            target += "_"
        options = RegisterOptions(memory_rows=self.memory_rows)
        table, *_ = table_to_register(
            {**columns, target: values}, target, None, self.model, kinds, options
        )
        # The labels of the rows have no effect and need memory.
        labels = Labels().of_length(table.row_count)
        self._table = dataclasses.replace(table, labels=labels)
        self._target = target
        self._model = self.model
        self._options = options
        self._held: Held | None = None
        client = client_for(self.server)
        self._held = hold(client, self._table, target, self._model, options)
        return self

    @property
    def context_(self) -> Context:
        """The registered table."""
        return self._current().context

    def predict(
        self,
        X: Any,  # noqa: N803
        output_type: OutputType = "mean",
        quantiles: Sequence[float] | None = None,
        *,
        return_std: bool = False,
    ) -> Any:
        """Returns marginal predictions, in the unit of y.

        Args:
            X: [rows, columns]: the query rows.
            output_type: The result to return:
                "mean", "median", "mode": [rows]. Medians are snapped to the possible values of y.
                    Means and modes belong to the continuous distribution;
                "quantiles": a list of arrays [rows], one for each probability;
                "main": a dictionary of these four;
                "full": the same dictionary with "mixtures", a `chorale_client.Mixtures`.
            quantiles: Probabilities between 0 and 1; None: 0.1, 0.2, ..., 0.9.
            return_std: Whether to return a tuple of means and standard deviations, each [rows], as
                `GaussianProcessRegressor` does; only with the output type "mean".

        Returns:
            The result for `output_type`.

        Raises:
            InvalidArgumentError: An argument is invalid; a `ValueError`.

        Examples:
            >>> model.predict(X_new)  # [rows]
            >>> low, high = model.predict(X_new, "quantiles", [0.05, 0.95])
        """
        check_choice("output_type", output_type, _OUTPUT_TYPES)
        if return_std and output_type != "mean":
            raise InvalidArgumentError(
                f"return_std: requires output_type='mean', not {output_type!r}",
                fields=["return_std"],
            )
        wanted = list(_DECILES if quantiles is None else quantiles)
        several = output_type in ("main", "full")
        asked = [0.5] if several or output_type == "median" else []
        if several or output_type == "quantiles":
            asked += wanted
        answer = self._ask(
            X,
            lambda context, rows: context.predict(
                rows, quantiles=asked, mixtures=several or output_type == "mode"
            ),
        )
        if output_type == "mean":
            return (answer.means, answer.stds) if return_std else answer.means
        if output_type == "median":
            return answer.quantiles[:, 0]
        if output_type == "quantiles":
            return list(answer.quantiles.T)
        assert answer.mixtures is not None
        mode = modes(answer.mixtures)
        if output_type == "mode":
            return mode
        result = {
            "mean": answer.means,
            "median": answer.quantiles[:, 0],
            "mode": mode,
            "quantiles": list(answer.quantiles[:, 1:].T),
        }
        return {**result, "mixtures": answer.mixtures} if output_type == "full" else result

    def predict_quantiles(
        self,
        X: Any,  # noqa: N803
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    ) -> Floats:
        """Returns marginal quantiles.

        Args:
            X: [rows, columns]: the query rows.
            quantiles: Probabilities between 0 and 1.

        Returns:
            Quantiles [rows, probabilities], in the unit of y.
        """
        answer = self._ask(X, lambda context, rows: context.predict(rows, quantiles=quantiles))
        return answer.quantiles

    def sample_y(
        self,
        X: Any,  # noqa: N803
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        *,
        wrap: bool = False,
    ) -> Floats:
        """Draws joint samples.

        Args:
            X: [rows, columns]: the query rows.
            n_samples: The number of joint samples.
            random_state: The same integer returns the same samples; None: other samples in each
                call. Two calls with the same integer for different rows are not independent.
            wrap: Whether to allow more rows than the model was trained for.

        Returns:
            Samples [rows, n_samples], in the unit of y; each column is a joint sample. The shape is
            that of `GaussianProcessRegressor.sample_y`.

        Examples:
            >>> draws = model.sample_y(X_new, n_samples=1000, random_state=1)
            >>> draws.sum(axis=0)  # [n_samples]: draws of the sum over the rows
        """
        seed = seed_of(random_state)
        samples = self._ask(
            X,
            lambda context, rows: context.sample(
                rows, paths=n_samples, seed=seed, wrap=wrap, progress=False
            ),
        )
        return np.ascontiguousarray(np.asarray(samples.values).T)

    def log_density(
        self,
        X: Any,  # noqa: N803
        y: npt.ArrayLike,
        *,
        orders: int = 0,
        random_state: int | np.random.RandomState | None = None,
        wrap: bool = False,
    ) -> Any:
        """Returns the joint log-density of values of the rows.

        Args:
            X: [rows, columns]: the query rows.
            y: [rows] or [vectors, rows]: the values.
            orders: The number of random orders of the rows over which the density is averaged; 0:
                the given order.
            random_state: The seed of the random orders.
            wrap: Whether to allow more rows than the model was trained for.

        Returns:
            A float for a single vector, otherwise an array [vectors]; natural logarithms of
            densities per unit of y.
        """
        values = np.asarray(y, dtype=np.float64)
        seed = seed_of(random_state) if orders else None
        answer = self._ask(
            X,
            lambda context, rows: context.log_density(
                rows, values, orders=orders, seed=seed, wrap=wrap
            ),
        )
        return float(answer.joint[0]) if values.ndim == 1 else answer.joint

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_table")

    def __getstate__(self) -> dict[str, Any]:
        """Omits the held context: the process that reads the pickle registers the table again."""
        state = dict(super().__getstate__())
        if "_held" in state:
            state["_held"] = None
        return state

    # ---- Tables ----------------------------------------------------------------------------

    def _check(self, X: Any, y: Any, *, reset: bool) -> Any:  # noqa: N803
        """Checks the type of X, and that its columns match those of `fit`."""
        if reset and y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is"
                " None."
            )
        X = eager(X)  # noqa: N806
        if hasattr(X, "columns") and not hasattr(X, "toarray"):
            # Frames are read column by column, because an array of them would lose the types.
            validate_data(self, X, reset=reset, skip_check_array=True)
            if 0 in X.shape:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) while a "
                    "minimum of 1 is required."
                )
            return X
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")

    def _columns(self, X: Any) -> dict[str, Any]:  # noqa: N803
        """Returns the columns by name."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{i}" for i in range(self.n_features_in_)]
        return dict(zip(map(str, names), columns_of(X), strict=True))

    # ---- The context -----------------------------------------------------------------------

    def _current(self) -> Held:
        check_is_fitted(self)
        client = client_for(self.server)
        held = self._held
        if held is None or held.context.client is not client:
            held = hold(client, self._table, self._target, self._model, self._options)
            self._held = held
        return held

    def _ask(
        self,
        X: Any,  # noqa: N803
        call: Callable[[Context, dict[str, Any]], Result],
    ) -> Result:
        """Makes a call about rows, and repeats it if another process has deleted the context."""
        check_is_fitted(self)
        rows = self._columns(self._check(X, None, reset=False))
        held = self._current()
        try:
            return call(held.context, rows)
        except NotFoundError:
            client = held.context.client
            held = renew(client, self._table, self._target, self._model, self._options)
            self._held = held
            return call(held.context, rows)
