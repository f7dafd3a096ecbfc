"""Client for Chorale, a server for joint samples from in-context tabular models.

Examples:
    >>> import chorale_client
    >>> client = chorale_client.connect("127.0.0.1:50051")
    >>> penguins = client.register(frame, target="body_mass_g")
    >>> samples = penguins.sample(rows, paths=1000)
    >>> samples.sum()  # [paths]: the sum over the rows of each path
"""

from typing import TYPE_CHECKING, Any

from chorale_client import aio
from chorale_client.assembly import Block
from chorale_client.channel import Tls
from chorale_client.connection import Client, connect
from chorale_client.context import Context
from chorale_client.data_warnings import DataWarning
from chorale_client.descriptions import Feature, Model, Source, Timings
from chorale_client.errors import (
    AlreadyExistsError,
    ChoraleError,
    DataLossError,
    DeadlineError,
    ExhaustedError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    SourceChangedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from chorale_client.log_densities import LogDensities
from chorale_client.predictions import Mixtures, Predictions
from chorale_client.retry import Retry
from chorale_client.samples import Samples

if TYPE_CHECKING:
    from chorale_client.serving import Server as Server
    from chorale_client.serving import serve as serve

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "Block",
    "ChoraleError",
    "Client",
    "Context",
    "DataLossError",
    "DataWarning",
    "DeadlineError",
    "ExhaustedError",
    "FailedPreconditionError",
    "Feature",
    "InternalError",
    "InvalidArgumentError",
    "LogDensities",
    "Mixtures",
    "Model",
    "NotFoundError",
    "PermissionDeniedError",
    "Predictions",
    "Retry",
    "Samples",
    "Source",
    "SourceChangedError",
    "Timings",
    "Tls",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "aio",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Imports `serve` and `Server` on first use, because some systems do not support them."""
    if name in ("Server", "serve"):
        from chorale_client import serving

        return getattr(serving, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
