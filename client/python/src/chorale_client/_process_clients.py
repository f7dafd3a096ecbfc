"""Clients that this process keeps for estimators, one for each server."""

from __future__ import annotations

import os
import threading
from typing import Any

from chorale_client._channel import find_address
from chorale_client._client import Client, connect

_clients: dict[Any, Client] = {}
_clients_mutex = threading.Lock()


def client_for(server: str | Client | None) -> Client:
    """Returns the client for a server: an address, a client, or None, as for `connect`."""
    if isinstance(server, Client):
        return _client_of_process(server)
    return _client_at(find_address(server))


def _client_at(address: str) -> Client:
    """Returns this process's client for a server."""
    with _clients_mutex:
        client = _clients.get(address)
        if client is None:
            client = _clients[address] = connect(address)
        return client


def _client_of_process(client: Client) -> Client:
    """Returns the client, or an equivalent new client in a forked process."""
    if client._process == os.getpid():
        return client
    with _clients_mutex:
        own = _clients.get(id(client))
        if own is None:
            own = _clients[id(client)] = Client(client._settings)
        return own


def _after_fork_in_child() -> None:
    global _clients_mutex
    _clients_mutex = threading.Lock()
    _clients.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
