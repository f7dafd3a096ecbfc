"""Contexts that exist while this process uses them.

Estimators register tables without names, hundreds of them in a grid search, which would fill a
server. A context is therefore held by `Held` objects, and deleted after the last of them is
garbage-collected. The deletion is deferred, because garbage collection can occur at any moment,
even within a call: the context's name is queued, and the context is deleted when the next context
is held, or when the process ends. If a process is killed, another process deletes its contexts a
day later.

Names are derived from the content. Processes may therefore share a context, and a process may
delete a context that another process holds. A process that gets `NotFoundError` for a `Held`
context registers it again, which takes as long as the first registration.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import datetime
import multiprocessing.util
import os
import queue
import threading
import weakref

from chorale_client import _calls
from chorale_client._client import Client, Context
from chorale_client._data_warnings import tell
from chorale_client._errors import ChoraleError, DeadlineError, UnavailableError
from chorale_client._requests import RegisterOptions, name_from_content
from chorale_client._tables import Table

PREFIX = "sklearn-"
_ABANDONED = datetime.timedelta(days=1)
_DELETE_SECONDS = 5.0

_Key = tuple[str, str]  # the server's address, the context's name


class Held:
    """A context that this process uses; created by `hold`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.process = os.getpid()
        end = weakref.finalize(self, _dropped.put, (context.client, context.name, self.process))
        end.atexit = False  # at exit, forget_all deletes all held contexts


def hold(
    client: Client, table: Table, target: str, model: str | None, options: RegisterOptions
) -> Held:
    """Registers a table under a name derived from its content, and holds it.

    Issues the warnings about the table as a Python warning.
    """
    _prepare(client)
    name = PREFIX + name_from_content(table, target, model, options)
    key = (client.address, name)
    with _mutex:
        held = _held.get(key)
        if held is None:
            # With the lock, so that no other thread deletes the context during registration.
            untold = dataclasses.replace(table, warnings=[])
            job = _calls.register_table(name, untold, target, model, _no_bar, options)
            held = _held[key] = Held(Context(client, *client._run(job, None)))
        _forget_dropped()
    tell((*table.warnings, *held.context.warnings))
    return held


def renew(
    client: Client, table: Table, target: str, model: str | None, options: RegisterOptions
) -> Held:
    """Registers and holds a context again that another process has deleted."""
    name = PREFIX + name_from_content(table, target, model, options)
    with _mutex:
        _held.pop((client.address, name), None)
    return hold(client, table, target, model, options)


def forget_all() -> None:
    """Deletes the contexts that this process holds or has held, when the process ends."""
    with _mutex:
        for held in list(_held.values()):
            _dropped.put((held.context.client, held.context.name, held.process))
        _held.clear()
        _forget_dropped()


def _no_bar(done: int) -> None:
    """Ignores progress."""


def _forget_dropped() -> None:
    """Deletes the queued contexts that this process no longer holds. Requires the lock.

    Ignores errors: a context may already be deleted, the caller may lack the permission, the server
    may have ended, or the client may be closed (a ValueError of gRPC).
    """
    away: set[str] = set()  # servers that did not answer, which are skipped
    with contextlib.suppress(queue.Empty):
        while True:
            client, name, process = _dropped.get_nowait()
            if process != os.getpid() or (client.address, name) in _held or client.address in away:
                continue
            try:
                client.delete(name, timeout=_DELETE_SECONDS)
            except (UnavailableError, DeadlineError):
                away.add(client.address)
            except (ChoraleError, ValueError):
                pass


def _prepare(client: Client) -> None:
    """Deletes the contexts of killed processes, once for each server."""
    with _mutex:
        if not _prepared:
            atexit.register(forget_all)
            # Processes of multiprocessing do not run the functions of atexit.
            multiprocessing.util.Finalize(None, forget_all, exitpriority=0)
        if client.address in _prepared:
            return
        _prepared.add(client.address)
        oldest = datetime.datetime.now(datetime.timezone.utc) - _ABANDONED
        with contextlib.suppress(ChoraleError):
            for context in client.contexts():
                if context.name.startswith(PREFIX) and context.created < oldest:
                    with contextlib.suppress(ChoraleError):
                        context.delete(timeout=_DELETE_SECONDS)


_mutex = threading.Lock()
_held: weakref.WeakValueDictionary[_Key, Held] = weakref.WeakValueDictionary()
_dropped: queue.SimpleQueue[tuple[Client, str, int]] = queue.SimpleQueue()
_prepared: set[str] = set()


def _after_fork_in_child() -> None:
    """Clears the held contexts, which belong to the parent process."""
    global _mutex, _held
    _mutex = threading.Lock()
    _held = weakref.WeakValueDictionary()
    _prepared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
