"""Ctrl-C at the start of a call."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Uninterrupted:
    """Defers Ctrl-C until the end of the with-block.

    An interrupt within gRPC's function that starts a call would leave no object with which to
    cancel the call, and the server would continue its work.
    """

    def __init__(self) -> None:
        self._before: signal._HANDLER = None
        self._caught: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Uninterrupted:
        # Only the main thread is interrupted.
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._caught = (number, frame)

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
            if self._caught is not None:
                self._before(*self._caught)
