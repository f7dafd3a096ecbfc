"""Which failed calls are tried again, and when."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from chorale_client.errors import ChoraleError, ExhaustedError, UnavailableError

_MOST_JITTER = 0.25


@dataclass(frozen=True)
class Retry:
    """How calls that failed for a passing reason are tried again.

    Tried again are calls that change nothing when they are repeated, which is all but `delete`, if
    the server was unavailable or asked to come back later. A stream is tried again only if none of
    its blocks has arrived. A wait that would end after the call's timeout is not begun.

    Attributes:
        max_attempts: Attempts in all; 1 means no retries.
        first_delay: Seconds before the second attempt, unless the server says how long to wait.
        max_delay: The most seconds between two attempts, unless the server asks for more.
        multiplier: By which delays grow.
        on_retry: Called with the error and the delay in seconds before each wait.
    """

    max_attempts: int = 4
    first_delay: float = 0.2
    max_delay: float = 10.0
    multiplier: float = 2.0
    on_retry: Callable[[ChoraleError, float], None] | None = None


def is_transient(error: ChoraleError) -> bool:
    """Whether another attempt can succeed."""
    # Without a delay, RESOURCE_EXHAUSTED is a quota, or gRPC's error for a message too large.
    return isinstance(error, UnavailableError) or (
        isinstance(error, ExhaustedError) and error.retry_delay is not None
    )


def delay_after(failed_attempts: int, error: ChoraleError, retry: Retry, jitter: float) -> float:
    """Seconds to wait after the n-th failed attempt.

    `jitter` in [0, 1) adds up to a quarter, so that clients do not all come back at one time.
    """
    delay = error.retry_delay
    if delay is None:
        delay = min(retry.max_delay, retry.first_delay * retry.multiplier ** (failed_attempts - 1))
    return delay * (1.0 + _MOST_JITTER * jitter)


class Attempts:
    """Counts the attempts of one call until its deadline."""

    def __init__(self, retry: Retry, timeout: float) -> None:
        self.timeout = timeout
        self._retry = retry
        self._deadline = time.monotonic() + timeout
        self._failed = 0

    def remaining(self) -> float:
        """Seconds until the deadline; not negative."""
        return max(self._deadline - time.monotonic(), 0.0)

    def delay_or_raise(self, error: ChoraleError) -> float:
        """Seconds to wait before the next attempt; raises `error` if there is to be none."""
        self._failed += 1
        if not is_transient(error) or self._failed >= self._retry.max_attempts:
            raise error
        delay = delay_after(self._failed, error, self._retry, random.random())
        if delay >= self.remaining():
            raise error
        if self._retry.on_retry is not None:
            self._retry.on_retry(error, delay)
        return delay
