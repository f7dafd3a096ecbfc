"""A regressor for scikit-learn, of a model that learns in context."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import (
        _check_y,
        check_consistent_length,
        check_is_fitted,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "chorale_client.sklearn needs scikit-learn 1.6 or newer: "
        "pip install 'chorale-client[sklearn]'"
    ) from error

from chorale_client.categorical_features import Choice, categorical_names
from chorale_client.columns import Kind
from chorale_client.connection import Client, connect
from chorale_client.context import Context
from chorale_client.errors import InvalidArgumentError, NotFoundError
from chorale_client.held_contexts import Held, hold, renew
from chorale_client.labels import Labels
from chorale_client.modes import modes
from chorale_client.questions import table_to_register

Floats = npt.NDArray[np.float64]
OutputType = Literal["mean", "median", "mode", "quantiles", "main", "full"]
Result = TypeVar("Result")

_TARGET = "target"
_OUTPUT_TYPES = ("mean", "median", "mode", "quantiles", "main", "full")
_DECILES = tuple(i / 10 for i in range(1, 10))


class ChoraleRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by a model that learns in context: `fit` registers a table, and trains nothing.

    X may be an array, a DataFrame of pandas or polars, also a lazy one, or a table of PyArrow, with
    numbers, texts, categories, booleans, dates and missing cells (`chorale_client.column_reading`
    says what becomes of each); an unknown category counts as missing. Sparse matrices are refused.
    Rows have no weights: `fit` takes no `sample_weight`.

    `fit` registers the table with the server under a name that follows from its content. It is
    deleted there when no estimator in this process uses it any more (fitted anew, copied away or
    garbage-collected): at the next `fit`, or when the process ends. Should another process delete
    it, or the server lose it, it is registered again when it is needed, since the estimator keeps
    the table; so do copies and pickles. What is left by processes that were killed, or closed the
    `Client` that they had given, is deleted by another one's `fit` a day later.

    Args:
        server: The server's address, or a `Client`. None: $CHORALE_SERVER, else a server of your
            own (`chorale_client.serving.shared_address`).
        model: The model's name; None: the server's default.
        categorical_features: Columns that are categories although their types do not say so: names
            or positions; a mask [columns], as an array, a list or a Series that has the columns'
            names; a slice; or a function of X that returns one of these, such as scikit-learn's
            `make_column_selector`. Texts, and columns whose type is one of categories, are without
            that, and "from_dtype" or None says that only these are.

    Attributes:
        n_features_in_: The number of columns.
        feature_names_in_: Their names [columns], if X is a DataFrame whose names are texts.
        context_: The `chorale_client.Context`, for everything that this class does not do.
    """

    def __init__(
        self,
        server: str | Client | None = None,
        *,
        model: str | None = None,
        categorical_features: Choice | npt.NDArray[Any] = None,
    ) -> None:
        self.server = server
        self.model = model
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: npt.ArrayLike) -> ChoraleRegressor:  # noqa: N803
        """Registers the table.

        Args:
            X: [rows, columns].
            y: [rows], numbers, none of them missing.

        Raises:
            InvalidArgumentError: The server refuses the table, y has class labels, or there is no
                such column as `categorical_features` names; a `ValueError`, as are those of
                scikit-learn.
            UnavailableError: There is no server.
        """
        X = self._check(X, y, reset=True)  # noqa: N806
        _check_numeric(y)
        values: Floats = np.asarray(_check_y(y, y_numeric=True, estimator=self), np.float64)
        check_consistent_length(X, values)
        columns = self._columns(X)
        chosen = categorical_names(self.categorical_features, X, list(columns))
        kinds: dict[str, Kind] = dict.fromkeys(chosen, "categorical")
        target = _TARGET
        while target in columns:
            target += "_"
        table, _, _ = table_to_register(
            {**columns, target: values}, target, None, self.model, kinds
        )
        # Without the rows' labels: they would change nothing, and need memory.
        labels = Labels().of_length(table.row_count)
        self._table = dataclasses.replace(table, labels=labels)
        self._target = target
        self._model = self.model
        self._held: Held | None = None
        self._held = hold(self._client(), self._table, target, self._model)
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
        """Predicts each row by itself.

        Args:
            X: [rows, columns].
            output_type: What to return:
                "mean", "median", "mode": [rows]. Means and modes are those of the predictive
                    density, never snapped to the values that y can take, as medians are;
                "quantiles": a list of arrays [rows], one for each probability;
                "main": a dictionary of these four;
                "full": the same and "mixtures", a `chorale_client.Mixtures`.
            quantiles: Probabilities between 0 and 1; None: 0.1, 0.2, ..., 0.9.
            return_std: Whether to return means and standard deviations, each [rows], as
                `GaussianProcessRegressor` does; only with the output type "mean".
        """
        if output_type not in _OUTPUT_TYPES:
            raise InvalidArgumentError(
                f"output_type: {output_type!r}, must be one of {', '.join(_OUTPUT_TYPES)}",
                fields=["output_type"],
            )
        if return_std and output_type != "mean":
            raise InvalidArgumentError(
                f"return_std: not with output_type={output_type!r}, only with 'mean'",
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
        """Quantiles of each row by itself, [rows, probabilities]."""
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
        """Draws joint samples: each column is one plausible whole.

        Args:
            X: [rows, columns]; no more rows than the model was trained for, unless `wrap`.
            n_samples: How many samples.
            random_state: An int gives the same samples again; None: others each time. Two calls
                with one int for different rows are not independent.
            wrap: Whether more rows are allowed.

        Returns:
            [rows, n_samples], as `GaussianProcessRegressor.sample_y`.
        """
        seed = _seed(random_state)
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
        """The joint log-density of values of the rows (natural logarithm, in the target's unit).

        Args:
            X: [rows, columns].
            y: [rows], or [vectors, rows].
            orders: Over how many random orders of the rows the density is averaged; 0: the order
                given.
            random_state: Of the random orders.
            wrap: Whether more rows are allowed than the model was trained for.

        Returns:
            A float, or [vectors].
        """
        values = np.asarray(y, dtype=np.float64)
        seed = _seed(random_state) if orders else None
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
        """The process that reads a pickle registers the table itself."""
        state = dict(super().__getstate__())
        if "_held" in state:
            state["_held"] = None
        return state

    # ---- Tables ----------------------------------------------------------------------------

    def _check(self, X: Any, y: Any, *, reset: bool) -> Any:  # noqa: N803
        """Checks the form of X, and its names and number of columns against those of `fit`."""
        if reset and y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is"
                " None."
            )
        X = _eager(X)  # noqa: N806
        if hasattr(X, "columns") and not hasattr(X, "toarray"):
            # A frame is read column by column: an array of it would lose the types.
            validate_data(self, X, reset=reset, skip_check_array=True)
            if 0 in X.shape:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) while a "
                    "minimum of 1 is required."
                )
            return X
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")

    def _columns(self, X: Any) -> dict[str, Any]:  # noqa: N803
        """Columns by name."""
        names = self._names()
        if isinstance(X, np.ndarray):
            return {name: X[:, i] for i, name in enumerate(names)}
        frame = nw.from_native(X, eager_only=True)
        columns = (series.to_native() for series in frame.iter_columns())
        return dict(zip(names, columns, strict=True))

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"x{i}" for i in range(self.n_features_in_)]
        return [str(name) for name in names]

    # ---- The context -----------------------------------------------------------------------

    def _client(self) -> Client:
        if isinstance(self.server, Client):
            return _client_of_process(self.server)
        address = self.server or os.environ.get("CHORALE_SERVER")
        if not address:
            from chorale_client.serving import shared_address  # there is none for all systems

            address = shared_address()
        return _client_at(address)

    def _current(self) -> Held:
        check_is_fitted(self)
        client = self._client()
        held = self._held
        if held is None or held.context.client is not client:
            held = self._held = hold(client, self._table, self._target, self._model)
        return held

    def _ask(
        self,
        X: Any,  # noqa: N803
        call: Callable[[Context, dict[str, Any]], Result],
    ) -> Result:
        """Makes a call about rows, once more if somebody has deleted the context."""
        check_is_fitted(self)
        rows = self._columns(self._check(X, None, reset=False))
        held = self._current()
        try:
            return call(held.context, rows)
        except NotFoundError:
            held = renew(held.context.client, self._table, self._target, self._model)
            self._held = held
            return call(held.context, rows)


def _eager(X: Any) -> Any:  # noqa: N803
    """X; a lazy frame with its rows."""
    frame = nw.from_native(X, pass_through=True)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else X


def _check_numeric(y: Any) -> None:
    """InvalidArgumentError if there are texts among the values which are no numbers."""
    values = np.asarray(y)
    if values.dtype.kind not in "OUST":
        return
    for value in values.ravel():
        if isinstance(value, str | bytes):
            try:
                float(value)
            except ValueError:
                raise InvalidArgumentError(
                    f"y: it has {str(value)!r}, but a target must be numeric; classification is "
                    "not supported",
                    fields=["y"],
                ) from None


def _seed(random_state: Any) -> int | None:
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    return int(check_random_state(random_state).randint(1, 2**31 - 1))


_clients: dict[Any, Client] = {}
_clients_mutex = threading.Lock()


def _client_at(address: str) -> Client:
    """This process's client of a server."""
    with _clients_mutex:
        client = _clients.get(address)
        if client is None:
            client = _clients[address] = connect(address)
        return client


def _client_of_process(client: Client) -> Client:
    """The client, or, in a child after a fork, one that is made like it."""
    if client._process == os.getpid():
        return client
    with _clients_mutex:
        own = _clients.get(id(client))
        if own is None:
            make, arguments = client.__reduce__()
            own = _clients[id(client)] = make(*arguments)
        return own


def _after_fork_in_child() -> None:
    global _clients_mutex
    _clients_mutex = threading.Lock()
    _clients.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
