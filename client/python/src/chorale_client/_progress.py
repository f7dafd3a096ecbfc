"""Progress of calls that take longer than a second."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Option = bool | Callable[[int, int], object] | None

_DELAY_SECONDS = 1.0


class Progress:
    """Shows the progress of a call while the with-block runs.

    Args:
        option: True: show a bar; False: do not; a function: call it with (done, total); None: show
            a bar when the call takes longer than a second, if standard error is a terminal or the
            code runs in a notebook, and tqdm is installed.
        total: The total amount.
        what: The unit of the amount: "rows" or "values".
    """

    def __init__(self, option: Option, total: int, what: str) -> None:
        self._total = total
        self._call = option if callable(option) else None
        self._bar: Any = None
        if callable(option) or option is False or (option is None and not _is_watched()):
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            if option:
                raise ImportError(
                    "progress=True requires tqdm: pip install 'chorale-client[progress]'"
                ) from None
            return
        self._bar = tqdm(
            total=total,
            unit=f" {what}",
            unit_scale=True,
            delay=0 if option else _DELAY_SECONDS,
            leave=bool(option),
        )

    def __call__(self, done: int) -> None:
        """Updates the amount done so far."""
        if self._call is not None:
            self._call(done, self._total)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
