"""Joint samples of tables from in-context models: a client of the Chorale server.

import chorale

client = chorale.connect("127.0.0.1:50051")
penguins = client.register(frame, target="body_mass_g")
samples = penguins.sample(new_rows, paths=1000)
samples.sum()  # [paths]: the sum over the rows, on each path
"""

from typing import TYPE_CHECKING, Any

from chorale import aio
from chorale.assembly import Block
from chorale.channel import Tls
from chorale.connection import Client, connect
from chorale.context import Context
from chorale.data_warnings import DataWarning
from chorale.descriptions import Feature, Model, Source, Timings
from chorale.errors import (
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
from chorale.log_densities import LogDensities
from chorale.predictions import Mixtures, Predictions
from chorale.retry import Retry
from chorale.samples import Samples

if TYPE_CHECKING:
    from chorale.serving import Server as Server
    from chorale.serving import serve as serve

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
    """`serve` and `Server`: imported when they are used, as they cannot be on every system."""
    if name in ("Server", "serve"):
        from chorale import serving

        return getattr(serving, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
