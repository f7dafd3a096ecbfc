"""Arguments that are one of several names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chorale_client._errors import InvalidArgumentError


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raises InvalidArgumentError if an argument has none of the values of `choices`."""
    names = list(choices)
    if value in names:
        return
    several = f"one of {', '.join(names)}"
    valid = f"{names[0]!r} or {names[1]!r}" if len(names) == 2 else several
    raise InvalidArgumentError(f"{name}: {value!r}, must be {valid}", fields=[name])
