"""A data folder, and what lies in it for the processes that share its server.

The files are in the folder "embedded" of the data folder:

    users        a shared lock of it is held by who uses the server
    start        locked by who looks for a server, or starts one
    keeper       locked while there is a server, by its keeper (chorale_client.server_keeper)
    server.json  where the server is
    server.log   what it says; emptied when it starts, and when it is large
    socket       by which it is reached

The locks are the kernel's: they go with the process that holds them, however it ends.

What lies there is believed: where to connect, and which process to end. So the folder has to be
this user's alone, whoever made the data folder around it.
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

from chorale_client.errors import FailedPreconditionError, UnavailableError
from chorale_client.server_program import missing

if sys.platform == "win32":
    raise UnavailableError(missing())

import fcntl

TRY = fcntl.LOCK_EX | fcntl.LOCK_NB
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR, errno.EEXIST}


class ServedFolder:
    """A data folder, which is made if it does not exist; `temporary`: it goes with its server.

    Raises:
        FailedPreconditionError: Others may write in it, or the folder "embedded" is not this user's
            alone.
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
        """Of one of the files above."""
        return self.data / "embedded" / name

    def open(self, name: str, flags: int = os.O_CREAT | os.O_RDWR) -> int:
        """Opens one of the files, which is no link."""
        with self._refused():
            return os.open(self.path(name), flags | os.O_NOFOLLOW, 0o600)

    @contextlib.contextmanager
    def _refused(self) -> Iterator[None]:
        """What the system refuses here, as an error with advice; not that a file is missing."""
        try:
            yield
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            raise self._unusable(f"{error.filename}: {error.strerror}") from error

    def _check(self, path: Path, found: os.stat_result, owners: set[int], denied: int) -> None:
        """Refuses what is of another owner than these, or gives others one of the rights."""
        if not stat.S_ISDIR(found.st_mode):
            raise self._unusable(f"{path} is not a folder")
        if found.st_uid not in owners:
            raise self._unusable(f"{path} belongs to another user ({found.st_uid})")
        # In a folder like /tmp everybody may write, and only owners may remove or rename.
        if found.st_mode & denied and not found.st_mode & stat.S_ISVTX:
            raise self._unusable(
                f"others have rights to {path} ({stat.filemode(found.st_mode)}), chmod "
                f"{stat.S_IMODE(found.st_mode) & ~denied:o} takes them away"
            )

    def _unusable(self, why: str) -> FailedPreconditionError:
        return FailedPreconditionError(
            f"no server can be kept in {self.data}: {why}; or take another folder (the argument "
            "data_dir, or CHORALE_HOME)"
        )

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
            if alone is not None and running is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._end(running["keeper"])
            with self.locked("keeper"):  # when it has ended
                pass

    def _end(self, keeper: int) -> None:
        process = os.pidfd_open(keeper)  # from here on no other process can have the number
        try:
            if self.has_keeper():
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)

    def running(self) -> dict[str, Any] | None:
        """What the keeper has written about its server; None if it has not, or was killed."""
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
                f"{self.data} is served on {found['place'][0]}, out of reach: take another folder "
                "(CHORALE_HOME)"
            )
        return found if _is_there(found["keeper"]) else None


def _state(text: str) -> dict[str, Any] | None:
    """What server.json says; None if no keeper can have written it."""
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
    except (ProcessLookupError, PermissionError):  # gone, or the number is another user's now
        return False
    return True


def place() -> list[str]:
    """This machine, and the processes that can be seen from here."""
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = ""
    return [socket.gethostname(), processes]
