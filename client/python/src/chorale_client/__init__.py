"""Client for Chorale, a server for joint samples from in-context tabular models.

Examples:
    >>> import chorale_client
    >>> client = chorale_client.connect("127.0.0.1:50051")
    >>> penguins = client.register(frame, target="body_mass_g")
    >>> samples = penguins.sample(rows, paths=1000)
    >>> samples.sum()  # [paths]: the sum over the rows of each path

A table is a pandas or polars DataFrame, a PyArrow table, a dictionary of columns, or a numpy array.
The type of a series or an array determines how a column is read; otherwise its cells do:

| cells | column |
| --- | --- |
| of a categorical type (pandas' category, Enum, Categorical, Arrow's dictionary), whatever the type of the categories | categorical, by the string form; integers as "1" |
| integers, floats, decimals | numeric |
| booleans | numeric, 0 and 1; as categories "True" and "False" |
| dates and times, periods (their start) | numeric: days since 1970-01-01, with the time of day as a fraction; in UTC if they have a time zone |
| durations | numeric: days |
| strings, also mixed with other cells; dates or durations mixed with other cells; integers of which some are beyond 2**53 | the string form of each cell, from which the server infers the type: numeric if all are numbers, true and false, or ISO 8601 dates, otherwise categorical |
| None, NaN, NaT, NA, and strings without a visible character | missing |
"""  # noqa: E501

from types import ModuleType
from typing import TYPE_CHECKING, Any

from chorale_client import aio, functionals
from chorale_client._appends import Appended
from chorale_client._channel import Tls
from chorale_client._client import Client, Context, connect
from chorale_client._data_warnings import DataWarning
from chorale_client._errors import (
    AlreadyExistsError,
    ChoraleError,
    DataLossError,
    DeadlineError,
    EtagMismatchError,
    ExhaustedError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    RowCountMismatchError,
    SourceChangedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from chorale_client._imputation import Imputation
from chorale_client._log_densities import LogDensities
from chorale_client._model import Model
from chorale_client._models_and_contexts import Estimate, Feature, Source, Timings
from chorale_client._predictions import Mixtures, Predictions
from chorale_client._retry import Retry
from chorale_client._samples import Samples
from chorale_client._sampling import Block
from chorale_client._server_info import ServerInfo, ServerLimits, TenantQuotas
from chorale_client._summaries import FunctionalSummary, Summary

if TYPE_CHECKING:
    from chorale_client._serving import Server as Server
    from chorale_client._serving import serve as serve

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "Appended",
    "Block",
    "ChoraleError",
    "Client",
    "Context",
    "DataLossError",
    "DataWarning",
    "DeadlineError",
    "Estimate",
    "EtagMismatchError",
    "ExhaustedError",
    "FailedPreconditionError",
    "Feature",
    "FunctionalSummary",
    "Imputation",
    "InternalError",
    "InvalidArgumentError",
    "LogDensities",
    "Mixtures",
    "Model",
    "NotFoundError",
    "PermissionDeniedError",
    "Predictions",
    "Retry",
    "RowCountMismatchError",
    "Samples",
    "ServerInfo",
    "ServerLimits",
    "Source",
    "SourceChangedError",
    "Summary",
    "TenantQuotas",
    "Timings",
    "Tls",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "aio",
    "connect",
    "functionals",
]

# These show the module from which users import them, not the module that defines them.
for _name in __all__:
    if not isinstance(globals()[_name], ModuleType):
        globals()[_name].__module__ = __name__
del _name


def __getattr__(name: str) -> Any:
    """Imports `serve` and `Server` on first use, because some systems do not support them."""
    if name in ("Server", "serve"):
        from chorale_client import _serving

        return getattr(_serving, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
