"""What the server says of contexts, models and answers, as Python objects."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from google.protobuf import duration_pb2

from chorale_client.columns import Kind
from chorale_client.data_warnings import DataWarning
from chorale_client.meanings import Meaning
from chorale_client.v1 import chorale_pb2 as pb

ClientT = TypeVar("ClientT")  # of the sync or the asyncio client


@dataclass(frozen=True)
class Source:
    """What a result was computed from. Names can be given to something else; digests cannot.

    Attributes:
        context_digest: SHA-256 of the context's content, in hexadecimal.
        model_digest: SHA-256 of the model's files.
    """

    context_digest: str = ""
    model_digest: str = ""

    @classmethod
    def of(cls, message: pb.Source) -> Source:
        """From the server's message."""
        return cls(message.context_digest, message.model_digest)

    def message(self) -> pb.Source:
        """For a request."""
        return pb.Source(context_digest=self.context_digest, model_digest=self.model_digest)


@dataclass(frozen=True)
class Timings:
    """Where the time of a call went in the server, in seconds.

    Attributes:
        queued: The wait for admission.
        encoding: The wait for the context to become resident.
        first_step: From the call's arrival to the first values.
        total: From the call's arrival to its end.
    """

    queued: float = 0.0
    encoding: float = 0.0
    first_step: float = 0.0
    total: float = 0.0

    @classmethod
    def of(cls, message: pb.Timings) -> Timings:
        """From the server's message."""

        def seconds(duration: duration_pb2.Duration) -> float:
            return duration.seconds + duration.nanos * 1e-9

        return cls(
            seconds(message.queued),
            seconds(message.encoding),
            seconds(message.first_step),
            seconds(message.total),
        )


_MEANINGS: dict[int, Meaning] = {  # an unknown one, of a newer server, is "number"
    pb.NumericValues.MEANING_BOOLEAN: "boolean",
    pb.NumericValues.MEANING_DATE: "date",
    pb.NumericValues.MEANING_DURATION: "duration",
}


@dataclass(frozen=True)
class Feature:
    """A feature column of a context.

    Attributes:
        name: The column's name.
        kind: "numeric" or "categorical".
        categories: The number of distinct categories; 0 for a numeric column.
        missing: The number of missing cells.
        outside_bulk: The number of cells far outside the bulk of the column.
        left_out: Whether the column says nothing, and is left out.
        season_steps: The period of the season that the target has by this column, which counts the
            rows; 0 if none was found.
        meaning: What its numbers were: "number", "boolean", "date" (days since 1970-01-01) or
            "duration" (days); "category" for a categorical column. Rows that are asked about are
            read accordingly. Contexts that were registered before servers kept it have "number".
    """

    name: str
    kind: Kind
    categories: int
    missing: int
    outside_bulk: int
    left_out: bool
    season_steps: float = 0.0
    meaning: Meaning | Literal["category"] = "number"

    @classmethod
    def of(cls, message: pb.ColumnSummary) -> Feature:
        """From the server's message."""
        categorical = message.type == pb.ColumnSummary.CATEGORICAL
        return cls(
            message.name,
            "categorical" if categorical else "numeric",
            message.category_count,
            message.missing_count,
            message.outside_bulk_count,
            message.left_out,
            message.season_steps,
            "category" if categorical else _MEANINGS.get(message.meaning, "number"),
        )


@dataclass(frozen=True)
class Model:
    """A model that the server has loaded.

    Attributes:
        name: Its name, as `register(model=...)` takes it.
        digest: SHA-256 of its files, in hexadecimal.
        model_type: The architecture.
        row_encoder: The part of it that encodes a row's features.
        parameter_count: Of learned parameters.
        buffer_size: K: the most rows of one call that the model was trained for.
        max_features: The most feature columns; 0 means no limit.
        component_count: M: components of its mixtures.
        resident_bytes_per_row: Device memory of a resident context.
        is_default: Whether contexts that do not name a model use it.
        notice: Of the model's authors to users; may be empty.
        form: How the server's GPU computes it: "fused", or "wide" if it is too large for that;
            the last bits of samples differ. Empty where there is one form, as on a CPU.
    """

    name: str
    digest: str
    model_type: str
    row_encoder: str
    parameter_count: int
    buffer_size: int
    max_features: int
    component_count: int
    resident_bytes_per_row: int
    is_default: bool
    notice: str
    form: str

    @classmethod
    def of(cls, message: pb.Model) -> Model:
        """From the server's message."""
        return cls(
            name=message.name.removeprefix("models/"),
            digest=message.digest,
            model_type=message.model_type,
            row_encoder=message.row_encoder,
            parameter_count=message.parameter_count,
            buffer_size=message.buffer_size,
            max_features=message.max_features,
            component_count=message.component_count,
            resident_bytes_per_row=message.resident_bytes_per_row,
            is_default=message.is_default,
            notice=message.notice,
            form=message.form,
        )


class Description(Generic[ClientT]):
    """What is known of a context since it was registered, read or refreshed."""

    def __init__(
        self, client: ClientT, message: pb.Context, warnings: tuple[DataWarning, ...] = ()
    ) -> None:
        self._client = client
        self._message = message
        self._warnings = warnings

    @property
    def client(self) -> ClientT:
        """The connection that calls go through."""
        return self._client

    @property
    def warnings(self) -> tuple[DataWarning, ...]:
        """Of the table, if this object was made by `register`."""
        return self._warnings

    @property
    def name(self) -> str:
        """The context's name."""
        return self._message.name.removeprefix("contexts/")

    @property
    def digest(self) -> str:
        """SHA-256 of the content, in hexadecimal."""
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
    def state(self) -> str:
        """Whether the next call begins at once: "resident", "encoding" or "evicted"."""
        return pb.Context.State.Name(self._message.state).lower()

    @property
    def created(self) -> datetime.datetime:
        """When the context was registered, in UTC."""
        return self._message.create_time.ToDatetime(datetime.timezone.utc)

    @property
    def resident_bytes(self) -> int:
        """Bytes of device memory that the context takes while it is resident."""
        return self._message.resident_bytes

    @property
    def dataset_bytes(self) -> int:
        """Bytes of the content on the server's disk."""
        return self._message.dataset_bytes

    @property
    def far_target_count(self) -> int:
        """How many values of the target are taken for errors."""
        return self._message.far_target_count

    @property
    def source(self) -> Source:
        """What calls about this context hold to: its digest."""
        return Source(context_digest=self.digest)

    def _kinds(self) -> dict[str, Kind]:
        return {feature.name: feature.kind for feature in self.features}

    def _meanings(self) -> dict[str, Meaning]:
        return {
            feature.name: feature.meaning
            for feature in self.features
            if feature.meaning != "category"
        }

    def __repr__(self) -> str:
        return (
            f"<Context {self.name!r}: {self.row_count} rows, {len(self._message.features)} "
            f"features, target {self.target!r}, model {self.model!r}, {self.state}>"
        )
