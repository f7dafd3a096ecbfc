"""Contexts that live as long as somebody in this process uses them.

Estimators register tables that nobody has named, hundreds of them in a search, and would fill a
server. So a context is held by `Held` objects, and is deleted when the last one for it is gone.
That is not done at once, since objects go at any moment, even within a call: the names are noted,
and the contexts deleted when the next one is held, and when the process ends. What a process leaves
that is killed, another one finds and deletes a day later.

Names follow from the content, so processes may share a context, and one may delete what another
holds. Who gets `NotFoundError` for a `Held` context registers it again, which takes as long as the
first time.
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

from chorale_client.connection import Client
from chorale_client.context import Context
from chorale_client.data_warnings import tell
from chorale_client.errors import ChoraleError, DeadlineError, UnavailableError
from chorale_client.jobs import register_job
from chorale_client.requests import name_from_content
from chorale_client.tables import Table

PREFIX = "sklearn-"
_ABANDONED = datetime.timedelta(days=1)
_DELETE_SECONDS = 5.0

_Key = tuple[str, str]  # the server's address, the context's name


class Held:
    """A context that this process uses; made by `hold`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.process = os.getpid()
        end = weakref.finalize(self, _dropped.put, (context.client, context.name, self.process))
        end.atexit = False  # then all that are held are deleted, dropped or not


def hold(client: Client, table: Table, target: str, model: str | None) -> Held:
    """Registers a table under a name that follows from its content, and holds it.

    The warnings about it are given to Python's.
    """
    _prepare(client)
    name = PREFIX + name_from_content(table, target, model)
    key = (client.address, name)
    with _mutex:
        held = _held.get(key)
        if held is None:
            # With the lock, so that nobody deletes what is being registered.
            job = register_job(name, dataclasses.replace(table, notes=[]), target, model, _no_bar)
            message, warnings = client._run(job, None)
            held = _held[key] = Held(Context(client, message, warnings))
        _forget_dropped()
    tell((*table.notes, *held.context.warnings), registered=True)
    return held


def renew(client: Client, table: Table, target: str, model: str | None) -> Held:
    """Holds a context anew that has been deleted by somebody else."""
    name = PREFIX + name_from_content(table, target, model)
    with _mutex:
        _held.pop((client.address, name), None)
    return hold(client, table, target, model)


def forget_all() -> None:
    """Deletes the contexts that this process holds, or has held: it ends."""
    with _mutex:
        for held in list(_held.values()):
            _dropped.put((held.context.client, held.context.name, held.process))
        _held.clear()
        _forget_dropped()


def _no_bar(done: int) -> None:
    """Progress that nobody watches."""


def _forget_dropped() -> None:
    """Deletes what nobody here holds any more, with the lock.

    It may be gone already, or not this caller's to delete, or the server has ended, or the client
    was closed (a ValueError of gRPC).
    """
    away: set[str] = set()  # servers that do not answer, which is not waited for again
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
    """Once for each server: deletes what processes have left that were killed."""
    with _mutex:
        if not _prepared:
            atexit.register(forget_all)
            # Processes of multiprocessing end without the functions of atexit.
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
    """The parent's contexts are not the child's to delete."""
    global _mutex, _held
    _mutex = threading.Lock()
    _held = weakref.WeakValueDictionary()
    _prepared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
