"""A data folder, and what lies in it for the processes that share its server.

The files are in the folder "embedded" of the data folder:

    users        a shared lock of it is held by who uses the server
    start        locked by who looks for a server, or starts one
    keeper       locked while there is a server, by its keeper (chorale_client.server_keeper)
    server.json  where the server is
    server.log   what it says; emptied when it starts, and when it is large
    socket       by which it is reached

The locks are the kernel's: they go with the process that holds them, however it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chorale_client.errors import FailedPreconditionError, UnavailableError
from chorale_client.server_program import missing

if sys.platform == "win32":
    raise UnavailableError(missing())

import fcntl

TRY = fcntl.LOCK_EX | fcntl.LOCK_NB


class ServedFolder:
    """A data folder, which is made if it does not exist; `temporary`: it goes with its server."""

    def __init__(self, data: Path, *, temporary: bool = False) -> None:
        self.data = data
        self.temporary = temporary
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        (data / "embedded").mkdir(mode=0o700, exist_ok=True)

    def path(self, name: str) -> Path:
        """Of one of the files above."""
        return self.data / "embedded" / name

    def open(self, name: str) -> int:
        """Opens one of the files that are locked."""
        return os.open(self.path(name), os.O_CREAT | os.O_RDWR, 0o600)

    def use(self) -> int:
        """Locks "users" as one of them, until the file is closed.

        Waits while an earlier server ends.
        """
        file = self.open("users")
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
        except BaseException:
            os.close(file)
            raise
        return file

    @contextlib.contextmanager
    def locked(self, name: str, how: int = fcntl.LOCK_EX) -> Iterator[int | None]:
        """Locks a file; gives its descriptor, or None if `how` has LOCK_NB and it is locked."""
        file = self.open(name)
        try:
            try:
                fcntl.flock(file, how)
            except BlockingIOError:
                yield None
            else:
                yield file
        finally:
            os.close(file)

    def has_keeper(self) -> bool:
        """Whether there is a server, or one that starts or ends."""
        with self.locked("keeper", TRY) as free:
            return free is None

    def end_server_if_unused(self) -> None:
        """Ends the server and waits for that, unless somebody uses it."""
        with self.locked("users", TRY) as alone:
            if alone is None:
                with self.locked("users", fcntl.LOCK_SH | fcntl.LOCK_NB) as others:
                    if others is not None:
                        return
            # Without the lock, the keeper has it: for good, or for a moment if it then waits.
            running = self.running()
            if alone is None and running is not None and running["grace"] > 0:
                return
            if alone is not None and running is not None and self.has_keeper():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(running["keeper"], signal.SIGTERM)
            with self.locked("keeper"):  # when it has ended
                pass

    def running(self) -> dict[str, Any] | None:
        """What the keeper has written about its server; None if it has not, or was killed."""
        try:
            found: dict[str, Any] = json.loads(self.path("server.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if found["place"] != place():
            raise FailedPreconditionError(
                f"{self.data} is served on {found['place'][0]}, out of reach: take another folder "
                "(CHORALE_HOME)"
            )
        return found if _is_there(found["keeper"]) else None


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def place() -> list[str]:
    """This machine, and the processes that can be seen from here."""
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = ""
    return [socket.gethostname(), processes]
