"""Calls that end early and keep the results that have arrived."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from chorale_client._errors import ChoraleError, DataLossError, UnimplementedError


@contextlib.contextmanager
def keeping(attribute: str, results: Callable[[], Any]) -> Iterator[None]:
    """Adds the results so far to an error that ends the with-block early.

    Args:
        attribute: The attribute of the error: "samples" or "predictions".
        results: Returns the results; None if there are none.
    """
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError, ChoraleError) as error:
        if not isinstance(error, DataLossError | UnimplementedError):
            setattr(error, attribute, results())
        raise
