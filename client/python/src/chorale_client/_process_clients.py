"""Clients that this process keeps for estimators, one for each server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from chorale_client._channel import find_address
from chorale_client._client import Client, connect

_clients: dict[Any, Client] = {}
_clients_mutex = threading.Lock()


def client_for(server: str | Client | None) -> Client:
    """Returns the client for a server: an address, a client, or None, as for `connect`.

    In a forked process, it replaces a client of the parent by an equivalent new client.
    """
    if not isinstance(server, Client):
        address = find_address(server)
        return _kept(address, lambda: connect(address))
    if server._process == os.getpid():
        return server
    return _kept(id(server), lambda: Client(server._settings))


def _kept(key: Any, create: Callable[[], Client]) -> Client:
    with _clients_mutex:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = create()
        return client


def _after_fork_in_child() -> None:
    global _clients_mutex
    _clients_mutex = threading.Lock()
    _clients.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
