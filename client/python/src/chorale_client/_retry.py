"""Retries of failed calls."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from chorale_client._errors import (
    ChoraleError,
    ExhaustedError,
    InvalidArgumentError,
    UnavailableError,
)

_MOST_JITTER = 0.25
_MAX_TIMEOUT_SECONDS = 1e9  # gRPC ends calls with much longer timeouts immediately


@dataclass(frozen=True)
class Retry:
    """How the client retries calls that fail with a transient error.

    The client retries idempotent calls, which are all calls except `delete`, if the server is
    unavailable or returns a retry delay. It retries a stream only if no block has arrived. If the
    next attempt would start after the call's timeout, the client raises the error immediately.

    Attributes:
        max_attempts: The maximum number of attempts; 1 means no retries.
        first_delay: Seconds before the second attempt, unless the server returns a retry delay.
        max_delay: The maximum number of seconds between attempts, unless the server returns a
            longer retry delay.
        multiplier: The factor between successive delays.
        on_retry: A function that is called with the error and the delay in seconds before each
            wait.

    Examples:
        >>> retry = chorale_client.Retry(max_attempts=6, max_delay=30.0)
        >>> client = chorale_client.connect("127.0.0.1:50051", retry=retry)
    """

    max_attempts: int = 4
    first_delay: float = 0.2
    max_delay: float = 10.0
    multiplier: float = 2.0
    on_retry: Callable[[ChoraleError, float], None] | None = None


def is_transient(error: ChoraleError) -> bool:
    """Whether a retry can succeed."""
    # RESOURCE_EXHAUSTED without a delay is a quota, or a message that is too large.
    return isinstance(error, UnavailableError) or (
        isinstance(error, ExhaustedError) and error.retry_delay is not None
    )


def delay_after(failed_attempts: int, error: ChoraleError, retry: Retry, jitter: float) -> float:
    """Returns the seconds to wait after the n-th failed attempt.

    `jitter` in [0, 1) adds up to a quarter, so that clients do not all retry at the same time.
    """
    delay = error.retry_delay
    if delay is None:
        delay = min(retry.max_delay, retry.first_delay * retry.multiplier ** (failed_attempts - 1))
    return delay * (1.0 + _MOST_JITTER * jitter)


def check_timeout(timeout: float) -> None:
    """Raises InvalidArgumentError if `timeout` is not a valid number of seconds for a call."""
    try:
        valid = not isinstance(timeout, bool) and 0.0 < timeout <= _MAX_TIMEOUT_SECONDS
    except TypeError:
        valid = False
    if not valid:
        raise InvalidArgumentError(
            f"timeout: {timeout!r}, must be a number of seconds above 0 and at most "
            f"{_MAX_TIMEOUT_SECONDS:g}",
            fields=["timeout"],
            limit=_MAX_TIMEOUT_SECONDS,
        )


class Attempts:
    """Counts the attempts of one call until its deadline."""

    def __init__(self, retry: Retry, timeout: float) -> None:
        self.timeout = timeout
        self._retry = retry
        self._deadline = time.monotonic() + timeout
        self._failed = 0

    def remaining(self) -> float:
        """Returns the seconds until the deadline; not negative."""
        return max(self._deadline - time.monotonic(), 0.0)

    def delay_or_raise(self, error: ChoraleError, *, repeatable: bool = True) -> float:
        """Returns the seconds until the next attempt; raises `error` if there is none.

        `repeatable` is whether the call may be sent again.
        """
        self._failed += 1
        if not repeatable or not is_transient(error) or self._failed >= self._retry.max_attempts:
            raise error
        delay = delay_after(self._failed, error, self._retry, random.random())
        if delay >= self.remaining():
            raise error
        if self._retry.on_retry is not None:
            self._retry.on_retry(error, delay)
        return delay
