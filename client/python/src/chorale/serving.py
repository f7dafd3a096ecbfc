"""Servers that this package starts itself."""

from __future__ import annotations

from chorale.errors import UnavailableError


def shared_address() -> str:
    """The address of this user's own server, which is started if nobody has."""
    raise UnavailableError(
        "there is no server: give connect() its address, or set CHORALE_SERVER to it"
    )
