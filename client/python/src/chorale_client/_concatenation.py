"""Joins the samples of several calls. Their class imports this module."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from chorale_client._errors import InvalidArgumentError
from chorale_client._known_values import KnownLogDensity
from chorale_client._models_and_contexts import Source


def concat_samples(parts: Iterable[Any]) -> Any:
    """Joins samples; see `Samples.concat`."""
    ordered = sorted(parts, key=lambda part: part.first_path)
    if not ordered:
        raise _invalid("there are none")
    first = ordered[0]
    for before, part in itertools.pairwise(ordered):
        _check_same(first, part)
        following = before.first_path + before.paths
        if part.first_path != following:
            raise _invalid(
                f"the paths from {part.first_path} follow those up to {following - 1}: paths are "
                f"{'missing' if part.first_path > following else 'repeated'}"
            )
    densities = [part.log_densities for part in ordered if part.log_densities is not None]
    if 0 < len(densities) < len(ordered):
        raise _invalid("some have no log-densities")
    return dataclasses.replace(
        first,
        values=np.concatenate([part.values for part in ordered]),
        log_densities=np.concatenate(densities) if densities else None,
        source=Source(
            _digest(ordered, "context_digest"),
            _digest(ordered, "model_digest"),
        ),
        timings=ordered[-1].timings,
        warnings=tuple({str(one): one for part in ordered for one in part.warnings}.values()),
        known_log_density=_known_log_density(ordered),
    )


def _check_same(first: Any, part: Any) -> None:
    """Raises InvalidArgumentError if samples are not of the same paths."""
    for name in ("seed", "target", "groups"):
        if getattr(part, name) != getattr(first, name):
            raise _invalid(
                f"{name} is {getattr(first, name)!r} in some and {getattr(part, name)!r} in others"
            )
    if part.labels.names() != first.labels.names():
        raise _invalid("the rows differ")


def _digest(parts: list[Any], name: str) -> str:
    """Returns a digest of the source; calls that have ended early may lack that of the model."""
    digests = {getattr(part.source, name) for part in parts} - {""}
    if len(digests) > 1:
        raise _invalid(f"the {name} of the source differs")
    return digests.pop() if digests else ""


def _known_log_density(parts: list[Any]) -> KnownLogDensity:
    """Returns that of all paths; None if the calls of some parts have ended before it was sent."""
    known: list[KnownLogDensity] = [part.known_log_density for part in parts]
    sent = [one for one in known if one is not None]
    if not sent:
        return None
    of_each_path = np.ndim(sent[0]) > (0 if parts[0].groups is None else 1)
    if not of_each_path:
        return sent[0]
    return np.concatenate([np.atleast_1d(one) for one in sent]) if len(sent) == len(known) else None


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"parts: {message}", fields=["parts"])
