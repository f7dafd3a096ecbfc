"""How the programs of this folder say what went wrong."""

from __future__ import annotations

ONLY_LATE = 75  # sysexits.h: try again


class Late(str):
    """What went wrong with a time: another program may have been in the way."""


def report(wrong: list[str]) -> int:
    """Prints it; returns the exit status: 0, ONLY_LATE if nothing but times was wrong, else 1."""
    for what in wrong[:20]:
        print('FAILED', what)
    if not wrong:
        return 0
    return ONLY_LATE if all(isinstance(what, Late) for what in wrong) else 1
