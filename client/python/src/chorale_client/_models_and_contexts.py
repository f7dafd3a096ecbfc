"""Descriptions of contexts and results."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from google.protobuf import duration_pb2

from chorale_client._columns import Kind
from chorale_client._data_warnings import DataWarning
from chorale_client._meanings import Meaning
from chorale_client._v1 import chorale_pb2 as pb

ClientT = TypeVar("ClientT")  # the blocking or the asyncio client


def _seconds(duration: duration_pb2.Duration) -> float:
    return duration.seconds + duration.nanos * 1e-9


@dataclass(frozen=True)
class Source:
    """The origin of a result. A name can refer to other content later; a digest cannot.

    Attributes:
        context_digest: The SHA-256 of the context's content, in hexadecimal.
        model_digest: The SHA-256 of the model's files, in hexadecimal.
    """

    context_digest: str = ""
    model_digest: str = ""

    @classmethod
    def of(cls, message: pb.Source) -> Source:
        """Converts the server's message."""
        return cls(message.context_digest, message.model_digest)

    def message(self) -> pb.Source:
        """Returns the message for a request."""
        return pb.Source(context_digest=self.context_digest, model_digest=self.model_digest)


@dataclass(frozen=True)
class Timings:
    """The durations of the phases of a call on the server, in seconds.

    Attributes:
        queued: The wait for admission.
        encoding: The wait until the context was resident.
        first_step: The time from the arrival of the call to its first values.
        total: The time from the arrival of the call to its end.
    """

    queued: float = 0.0
    encoding: float = 0.0
    first_step: float = 0.0
    total: float = 0.0

    @classmethod
    def of(cls, message: pb.Timings) -> Timings:
        """Converts the server's message."""
        return cls(
            _seconds(message.queued),
            _seconds(message.encoding),
            _seconds(message.first_step),
            _seconds(message.total),
        )


@dataclass(frozen=True)
class Estimate:
    """The cost of work that the server has validated and not done.

    Attributes:
        device_bytes: The device memory that the work occupies, in bytes; exact.
        seconds: The duration of the work, without waiting for other calls: a rough estimate from
            the speed of earlier work. None if the server has not done such work since its start.
    """

    device_bytes: int
    seconds: float | None

    @classmethod
    def of(cls, message: pb.Estimate) -> Estimate:
        """Converts the server's message."""
        measured = message.HasField("duration")
        return cls(message.device_bytes, _seconds(message.duration) if measured else None)


MEANING_CODES: dict[Meaning, pb.NumericValues.Meaning] = {
    "number": pb.NumericValues.MEANING_UNSPECIFIED,
    "boolean": pb.NumericValues.MEANING_BOOLEAN,
    "date": pb.NumericValues.MEANING_DATE,
    "duration": pb.NumericValues.MEANING_DURATION,
}
# Other codes, of a newer server, are omitted.
_CALENDAR: dict[int, str] = {
    pb.ColumnSummary.CALENDAR_FEATURE_WEEKDAY: "weekday",
    pb.ColumnSummary.CALENDAR_FEATURE_HOUR: "hour",
    pb.ColumnSummary.CALENDAR_FEATURE_DAY_OF_MONTH: "day_of_month",
    pb.ColumnSummary.CALENDAR_FEATURE_MONTH: "month",
}
# Other codes become "number".
_MEANINGS: dict[int, Meaning] = {code: meaning for meaning, code in MEANING_CODES.items()}

MemoryPolicy = Literal["merge", "heavy", "sample"]

MEMORY_POLICY_CODES: dict[MemoryPolicy, pb.MemoryPolicy] = {
    "merge": pb.MEMORY_POLICY_MERGE,
    "heavy": pb.MEMORY_POLICY_HEAVY,
    "sample": pb.MEMORY_POLICY_SAMPLE,
}
# Other codes become None.
_MEMORY_POLICIES: dict[int, MemoryPolicy] = {
    code: policy for policy, code in MEMORY_POLICY_CODES.items()
}


@dataclass(frozen=True)
class Feature:
    """A feature column of a context.

    Attributes:
        name: The column's name.
        kind: "numeric" or "categorical".
        categories: The number of distinct categories; 0 for a numeric column.
        missing: The number of missing cells.
        outliers: The number of outliers: cells far outside the bulk of the column.
        dropped: Whether the column is dropped, because all of its cells are equal or missing.
        season_steps: The period of the season of the target, in time steps, if this column counts
            time; 0 if the server found no season.
        meaning: The meaning of the numbers: "number", "boolean", "date" (days since 1970-01-01) or
            "duration" (days); "category" for a categorical column. Query rows are read accordingly.
            Contexts that were registered with a server version that did not store the meaning have
            "number".
        calendar: The numbers that the model gets in addition to a column of dates: "weekday",
            "hour", "day_of_month", "month".
    """

    name: str
    kind: Kind
    categories: int
    missing: int
    outliers: int
    dropped: bool
    season_steps: float = 0.0
    meaning: Meaning | Literal["category"] = "number"
    calendar: tuple[str, ...] = ()

    @classmethod
    def of(cls, message: pb.ColumnSummary) -> Feature:
        """Converts the server's message."""
        categorical = message.type == pb.ColumnSummary.TYPE_CATEGORICAL
        return cls(
            message.name,
            "categorical" if categorical else "numeric",
            message.category_count,
            message.missing_count,
            message.outlier_count,
            message.dropped,
            message.season_steps,
            "category" if categorical else _MEANINGS.get(message.meaning, "number"),
            tuple(_CALENDAR[code] for code in message.calendar_features if code in _CALENDAR),
        )


class Description(Generic[ClientT]):
    """The description of a context when it was last registered, read or refreshed."""

    def __init__(
        self,
        client: ClientT,
        message: pb.Context,
        warnings: tuple[DataWarning, ...] = (),
        estimate: Estimate | None = None,
        query_rows: Any = None,
    ) -> None:
        self._client = client
        self._message = message
        self._warnings = warnings
        self._estimate = estimate
        self._query_rows = query_rows

    @property
    def client(self) -> ClientT:
        """The client that makes the calls."""
        return self._client

    @property
    def warnings(self) -> tuple[DataWarning, ...]:
        """Warnings about the table; empty unless `register` returned this object."""
        return self._warnings

    @property
    def estimate(self) -> Estimate | None:
        """The cost of encoding the context; None unless `register` only validated the table."""
        return self._estimate

    @property
    def query_rows(self) -> Any:
        """The rows of the table that have no target value, as a table of the same kind.

        None unless `register` returned this object and `missing_targets` was "query".
        """
        return self._query_rows

    @property
    def name(self) -> str:
        """The context's name."""
        return self._message.name.removeprefix("contexts/")

    @property
    def digest(self) -> str:
        """The SHA-256 of the content, in hexadecimal."""
        return self._message.digest

    @property
    def model(self) -> str:
        """The name of the model that encodes the context."""
        return self._message.model.removeprefix("models/")

    @property
    def target(self) -> str:
        """The name of the column to predict."""
        return self._message.target_column

    @property
    def features(self) -> list[Feature]:
        """The feature columns, in the order of registration."""
        return [Feature.of(feature) for feature in self._message.features]

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._message.row_count

    @property
    def appended_rows(self) -> int:
        """The number of rows that were appended since the context was last encoded as a whole."""
        return self._message.appended_row_count

    @property
    def memory_rows(self) -> int | None:
        """The `memory_rows` of the registration; None if it had none.

        The context is reduced only if it has more rows.
        """
        return self._message.memory_row_count or None

    @property
    def memory_policy(self) -> MemoryPolicy | None:
        """The `memory_policy` of the registration; None without `memory_rows`, or if unknown."""
        return _MEMORY_POLICIES.get(self._message.memory_policy)

    @property
    def state(self) -> str:
        """The state: "resident", "encoding" or "not_resident"."""
        return pb.Context.State.Name(self._message.state).removeprefix("STATE_").lower()

    @property
    def created(self) -> datetime.datetime:
        """The time of registration, in UTC."""
        return self._message.create_time.ToDatetime(datetime.timezone.utc)

    @property
    def updated(self) -> datetime.datetime:
        """The time of the last change of content, description, labels or expiry, in UTC."""
        return self._message.update_time.ToDatetime(datetime.timezone.utc)

    @property
    def last_used(self) -> datetime.datetime | None:
        """The time of the last use, in UTC; None if it is not known.

        The server stores it about every 5 minutes.
        """
        if not self._message.HasField("last_use_time"):
            return None
        return self._message.last_use_time.ToDatetime(datetime.timezone.utc)

    @property
    def expires(self) -> datetime.datetime | None:
        """The time after which the server may delete the context, in UTC; None: never."""
        if not self._message.HasField("expire_time"):
            return None
        return self._message.expire_time.ToDatetime(datetime.timezone.utc)

    @property
    def description(self) -> str:
        """The description."""
        return self._message.description

    @property
    def labels(self) -> dict[str, str]:
        """The labels."""
        return dict(self._message.labels)

    @property
    def etag(self) -> str:
        """A text that changes with the content, the description, the labels and the expiry."""
        return self._message.etag

    @property
    def resident_bytes(self) -> int:
        """The size of the context in device memory while it is resident, in bytes."""
        return self._message.resident_bytes

    @property
    def dataset_bytes(self) -> int:
        """The size of the content on the server's disk, in bytes."""
        return self._message.dataset_bytes

    @property
    def clipped_target_count(self) -> int:
        """The number of target values that the server clips, because they are probably errors."""
        return self._message.clipped_target_count

    @property
    def source(self) -> Source:
        """The digest that calls about this context expect."""
        return Source(context_digest=self.digest)

    def _kinds(self) -> dict[str, Kind]:
        return {feature.name: feature.kind for feature in self.features}

    def _meanings(self) -> dict[str, Meaning]:
        return {
            feature.name: feature.meaning
            for feature in self.features
            if feature.meaning != "category"
        }

    def __reduce__(self) -> tuple[Any, ...]:
        message = self._message.SerializeToString()
        details = (self._warnings, self._estimate, self._query_rows)
        return _restore, (type(self), self._client, message, *details)

    def __repr__(self) -> str:
        return (
            f"<Context {self.name!r}: {self.row_count} rows, {len(self._message.features)} "
            f"features, target {self.target!r}, model {self.model!r}, {self.state}>"
        )


def _restore(kind: Callable[..., Any], client: Any, message: bytes, *details: Any) -> Any:
    return kind(client, pb.Context.FromString(message), *details)
