"""A data folder, and the files in it by which processes share its server.

The files are in the folder "embedded" of the data folder:

    users        processes that use the server hold a shared lock
    start        a process that finds or starts the server holds a lock
    keeper       the server's keeper (chorale_client._server_keeper) holds a lock while it runs
    server.json  the address of the server
    server.log   the log of the server; truncated at its start and when it is too large
    socket       the server's socket

The kernel releases the locks of a process when the process ends, in whatever way.

Processes trust these files: they connect to the address, and end the process that a file names.
The folder must therefore belong to this user, and must not be accessible to others, whoever owns
the data folder.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chorale_client._errors import FailedPreconditionError, UnavailableError
from chorale_client._server_program import missing

if sys.platform == "win32":
    raise UnavailableError(missing())

import fcntl

TRY = fcntl.LOCK_EX | fcntl.LOCK_NB
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR, errno.EEXIST}


class ServedFolder:
    """A data folder, which is created if it does not exist.

    Args:
        data: The path of the folder.
        temporary: Whether the folder is deleted when the server ends.

    Raises:
        FailedPreconditionError: Other users can write to the folder, or can access its folder
            "embedded".
    """

    def __init__(self, data: Path, *, temporary: bool = False) -> None:
        self.data = data
        self.temporary = temporary
        with self._refused():
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check(data, data.stat(), {0, os.geteuid()}, stat.S_IWOTH)
            embedded = self.path("")
            embedded.mkdir(mode=0o700, exist_ok=True)
            self._check(embedded, embedded.lstat(), {os.geteuid()}, stat.S_IRWXG | stat.S_IRWXO)

    def path(self, name: str) -> Path:
        """Returns the path of one of the files above."""
        return self.data / "embedded" / name

    def open(self, name: str, flags: int = os.O_CREAT | os.O_RDWR) -> int:
        """Opens one of the files; an error if it is a symbolic link."""
        with self._refused():
            return os.open(self.path(name), flags | os.O_NOFOLLOW, 0o600)

    @contextlib.contextmanager
    def _refused(self) -> Iterator[None]:
        """Converts errors of the system, except for missing files, to errors with a remedy."""
        try:
            yield
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            raise self._unusable(f"{error.filename}: {error.strerror}") from error

    def _check(self, path: Path, found: os.stat_result, owners: set[int], denied: int) -> None:
        """Raises an error if the owner is not among `owners`, or if others have `denied` rights."""
        if not stat.S_ISDIR(found.st_mode):
            raise self._unusable(f"{path} is not a folder")
        if found.st_uid not in owners:
            raise self._unusable(f"{path} belongs to another user ({found.st_uid})")
        # In a folder with the sticky bit, such as /tmp, only owners can delete or rename files.
        if found.st_mode & denied and not found.st_mode & stat.S_ISVTX:
            raise self._unusable(
                f"other users have access to {path} ({stat.filemode(found.st_mode)}): run "
                f"chmod {stat.S_IMODE(found.st_mode) & ~denied:o} on it"
            )

    def _unusable(self, why: str) -> FailedPreconditionError:
        return FailedPreconditionError(
            f"the folder {self.data} cannot be used for a server: {why}; or use another folder "
            "(the argument data_dir, or CHORALE_HOME)"
        )

    def use(self) -> int:
        """Locks "users" as a user of the server, until the returned file is closed.

        Waits while a previous server ends.
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
        """Locks a file; yields its descriptor, or None if it is locked and `how` has LOCK_NB."""
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
        """Whether a server is running, starting or ending."""
        with self.locked("keeper", TRY) as free:
            return free is None

    def end_server_if_unused(self) -> None:
        """Ends the server and waits until it has ended, unless another process uses it."""
        with self.locked("users", TRY) as alone:
            if alone is None:
                with self.locked("users", fcntl.LOCK_SH | fcntl.LOCK_NB) as others:
                    if others is not None:
                        return
            # If "users" is locked exclusively, the keeper holds the lock: until it ends, or, during
            # a grace period, for a moment.
            running = self.running()
            if alone is None and running is not None and running["grace"] > 0:
                return
            if alone is not None and running is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._end(running["keeper"])
            with self.locked("keeper"):  # when it has ended
                pass

    def _end(self, keeper: int) -> None:
        process = os.pidfd_open(keeper)  # from here on, the number cannot refer to another process
        try:
            if self.has_keeper():
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)

    def running(self) -> dict[str, Any] | None:
        """Returns the state that the keeper has written; None if there is no running server."""
        try:
            file = self.open("server.json", os.O_RDONLY)
        except FileNotFoundError:
            return None
        with open(file, encoding="utf-8") as text:
            found = _state(text.read())
        if found is None:
            raise self._unusable(f"{self.path('server.json')} is damaged: remove it")
        if found["place"] != place():
            raise FailedPreconditionError(
                f"{self.data} is in use by a server on {found['place'][0]}, which this process "
                "cannot reach: use another folder (CHORALE_HOME)"
            )
        return found if _is_there(found["keeper"]) else None


def _state(text: str) -> dict[str, Any] | None:
    """Parses server.json; None if it is damaged."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    match found:
        case {
            "address": str(),
            "keeper": int(keeper),
            "grace": int() | float(),
            "place": [str(), str()],
            "options": dict(),
        } if keeper > 1:
            return dict(found)
    return None


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):  # ended; the number may be another user's
        return False
    return True


def place() -> list[str]:
    """Returns the names of this machine and of its process namespace."""
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = ""
    return [socket.gethostname(), processes]
