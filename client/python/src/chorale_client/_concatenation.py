"""Joins the samples or the predictions of several calls. Their classes import this module."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from chorale_client._data_warnings import merge_warnings
from chorale_client._errors import InvalidArgumentError
from chorale_client._groups import GroupLabels
from chorale_client._known_values import KnownLogDensity
from chorale_client._labels import Labels
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
    weights = [part.log_weights for part in ordered if part.log_weights is not None]
    if 0 < len(weights) < len(ordered):
        raise _invalid("some have no weights")
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
        log_weights=np.concatenate(weights) if weights else None,
    )


def concat_predictions(parts: Iterable[Any]) -> Any:
    """Joins predictions; see `Predictions.concat`."""
    ordered = list(parts)
    if not ordered:
        raise _invalid("there are none")
    first = ordered[0]
    for part in ordered[1:]:
        _check_equal("target", first.target, part.target)
        _check_equal("probabilities", first.probabilities.tolist(), part.probabilities.tolist())
    mixtures = [part.mixtures for part in ordered if part.mixtures is not None]
    if 0 < len(mixtures) < len(ordered):
        raise _invalid("some have no mixtures")
    groups, known_log_density = _groups(ordered)
    return dataclasses.replace(
        first,
        means=np.concatenate([part.means for part in ordered]),
        stds=np.concatenate([part.stds for part in ordered]),
        quantiles=np.concatenate([part.quantiles for part in ordered]),
        mixtures=_mixtures(mixtures) if mixtures else None,
        labels=Labels.concat([part.labels for part in ordered]),
        source=Source(_digest(ordered, "context_digest"), _digest(ordered, "model_digest")),
        warnings=merge_warnings(part.warnings for part in ordered),
        known_log_density=known_log_density,
        groups=groups,
    )


def _mixtures(parts: list[Any]) -> Any:
    fields = ("means", "stds", "weights")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in fields}
    return dataclasses.replace(parts[0], **arrays)


def _groups(parts: list[Any]) -> tuple[GroupLabels, KnownLogDensity]:
    """Returns the groups of all parts, and the log-densities of their known values."""
    known = [part.known_log_density for part in parts if part.known_log_density is not None]
    with_groups = [part for part in parts if part.groups is not None]
    if 0 < len(with_groups) < len(parts):
        raise _invalid("some have no groups")
    if not with_groups:
        return None, known[0] if known else None
    densities: dict[Hashable, float] = {}
    for part in parts:
        of_part = part.known_log_density
        for i, label in enumerate(part.groups):
            densities.setdefault(label, 0.0 if of_part is None else float(of_part[i]))
    return tuple(densities), np.array(list(densities.values())) if known else None


def _check_equal(name: str, first: Any, other: Any) -> None:
    """Raises InvalidArgumentError if parts differ in an attribute."""
    if first != other:
        raise _invalid(f"{name} is {first!r} in some and {other!r} in others")


def _check_same(first: Any, part: Any) -> None:
    """Raises InvalidArgumentError if samples are not of the same paths."""
    for name in ("seed", "target", "groups"):
        _check_equal(name, getattr(first, name), getattr(part, name))
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
