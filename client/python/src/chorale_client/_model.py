"""Descriptions of models."""

from __future__ import annotations

from dataclasses import dataclass

from chorale_client._v1 import chorale_pb2 as pb

_TASKS = {pb.Model.TASK_REGRESSION: "regression"}


@dataclass(frozen=True)
class Model:
    """A model that the server has loaded.

    Attributes:
        name: The name, for `register(model=...)`.
        digest: The SHA-256 of the model's files, in hexadecimal.
        model_type: The architecture.
        row_encoder: The part of the architecture that encodes the features of a row.
        parameter_count: The number of learned parameters.
        buffer_size: K: the largest number of query rows in a call for which it was trained.
        max_features: The maximum number of feature columns; 0 means no limit.
        trained_rows: The maximum number of rows of a context in training; 0 if it is not known.
        trained_features: The maximum number of features in training; 0 if it is not known.
        task: The kind of prediction: "regression", or "" if the server does not report it.
        component_count: M: the number of mixture components.
        resident_bytes_per_row: The device memory of a resident context, in bytes per row.
        is_default: Whether contexts that do not name a model use this model.
        notice: A notice from the model's authors to users; may be empty.
        form: The form in which the server's GPU computes the model: "fused", or "unfused" if the
            model is too large for the fused kernels. The last bits of samples differ. Empty on
            devices with a single form, such as CPUs.
    """

    name: str
    digest: str
    model_type: str
    row_encoder: str
    parameter_count: int
    buffer_size: int
    max_features: int
    trained_rows: int
    trained_features: int
    task: str
    component_count: int
    resident_bytes_per_row: int
    is_default: bool
    notice: str
    form: str

    @classmethod
    def of(cls, message: pb.Model) -> Model:
        """Converts the server's message."""
        return cls(
            name=message.name.removeprefix("models/"),
            digest=message.digest,
            model_type=message.model_type,
            row_encoder=message.row_encoder,
            parameter_count=message.parameter_count,
            buffer_size=message.buffer_size,
            max_features=message.max_features,
            trained_rows=message.trained_rows,
            trained_features=message.trained_features,
            task=_TASKS.get(message.task, ""),
            component_count=message.component_count,
            resident_bytes_per_row=message.resident_bytes_per_row,
            is_default=message.is_default,
            notice=message.notice,
            form=message.form,
        )
