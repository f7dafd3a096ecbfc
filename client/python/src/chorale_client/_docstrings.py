"""Docstrings of the asyncio client."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_SECTIONS = ("Args", "Returns", "Yields", "Raises", "Examples")
_HEADING = re.compile(rf"^({'|'.join(_SECTIONS)}):\n", re.MULTILINE)


def like(blocking: Callable[..., Any]) -> Callable[[Function], Function]:
    """Adds the sections of a blocking function's docstring to that of the asyncio function.

    Sections that the asyncio function has itself replace those of the blocking function, whose
    examples are omitted, because they do not await anything.
    """

    def document(function: Function) -> Function:
        if function.__doc__ and blocking.__doc__:  # python -OO removes docstrings
            head, own = _split(function.__doc__)
            _, shared = _split(blocking.__doc__)
            shared.pop("Examples", None)
            found = {**shared, **own}
            parts = [f"{name}:\n{found[name]}" for name in _SECTIONS if name in found]
            function.__doc__ = "\n\n".join([head, *parts])
        return function

    return document


def _split(docstring: str) -> tuple[str, dict[str, str]]:
    """Returns the text before the first section, and the sections by name."""
    head, *rest = _HEADING.split(inspect.cleandoc(docstring))
    sections = zip(rest[::2], rest[1::2], strict=True)
    return head.strip(), {name: text.rstrip() for name, text in sections}
