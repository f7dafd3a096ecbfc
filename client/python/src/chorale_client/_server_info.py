"""The description of a server."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from chorale_client._v1 import chorale_pb2 as pb


def _numbers(kind: type[Any], message: Any) -> dict[str, int]:
    """Returns the fields of a class, all of them numbers, from the message with the same fields."""
    return {field.name: getattr(message, field.name) for field in dataclasses.fields(kind)}


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server. A call that exceeds one raises `InvalidArgumentError`.

    Attributes:
        max_message_bytes: The size of a message, in each direction, in bytes. A call that exceeds
            it raises `ExhaustedError`.
        max_concurrent_calls: The number of concurrent calls of a connection. Further calls wait.
        max_context_rows: The number of rows of a context.
        max_features: The number of feature columns of a table; see also `Model.max_features`.
        max_categories: The number of distinct categories of a column of a context.
        max_name_bytes: The size of the name of a column, and of a category, in bytes.
        max_dataset_bytes: The size of the content of a context, in bytes.
        max_query_rows: The number of query rows of a request.
        max_paths: The number of paths, or of vectors of values, of a request.
        max_random_orders: The number of random orders of a request.
        max_values: The number of values of a request: paths times rows, times random orders.
        max_quantiles: The number of quantiles of a request.
    """

    max_message_bytes: int
    max_concurrent_calls: int
    max_context_rows: int
    max_features: int
    max_categories: int
    max_name_bytes: int
    max_dataset_bytes: int
    max_query_rows: int
    max_paths: int
    max_random_orders: int
    max_values: int
    max_quantiles: int

    @classmethod
    def of(cls, message: pb.ServerLimits) -> ServerLimits:
        """Converts the server's message."""
        return cls(**_numbers(cls, message))


@dataclass(frozen=True)
class TenantQuotas:
    """The quotas of the caller's tenant; 0 means that there is no quota.

    A call that exceeds one raises `ExhaustedError`.

    Attributes:
        max_contexts: The number of contexts.
        max_dataset_bytes: The size of the content of all contexts, in bytes.
        max_resident_bytes: The size of all resident contexts in device memory, in bytes.
        max_concurrent_calls: The number of concurrent calls.
        max_values_per_second: The number of values per second that are drawn, predicted or
            evaluated.
    """

    max_contexts: int
    max_dataset_bytes: int
    max_resident_bytes: int
    max_concurrent_calls: int
    max_values_per_second: int

    @classmethod
    def of(cls, message: pb.TenantQuotas) -> TenantQuotas:
        """Converts the server's message."""
        return cls(**_numbers(cls, message))


@dataclass(frozen=True)
class ServerInfo:
    """A server, and its limits for the caller.

    Attributes:
        version: The version, such as "0.1.0".
        commit: The commit of the sources, in hexadecimal, or "unknown".
        backend: The kind of the device that computes: "cpu" or "cuda".
        device: The instruction set of the CPU, or the name of the GPU.
        features: The features that the server has: "reflection", "authentication", "tracing",
            "memory_sets", "append_rows". Features of newer servers that this package does not know
            are omitted.
        limits: The limits of calls.
        quotas: The quotas of the caller's tenant.
    """

    version: str
    commit: str
    backend: str
    device: str
    features: tuple[str, ...]
    limits: ServerLimits
    quotas: TenantQuotas

    @classmethod
    def of(cls, message: pb.ServerInfo) -> ServerInfo:
        """Converts the server's message."""
        known = pb.ServerInfo.Feature.values()
        names = (pb.ServerInfo.Feature.Name(code) for code in message.features if code in known)
        return cls(
            version=message.version,
            commit=message.commit,
            backend=message.backend,
            device=message.device,
            features=tuple(name.removeprefix("FEATURE_").lower() for name in names),
            limits=ServerLimits.of(message.limits),
            quotas=TenantQuotas.of(message.quotas),
        )
