"""Server processes that this package starts, and this user's own server.

Processes that use the same data folder share a server. `ServedFolder` describes how they find it,
and chorale_client._server_keeper when it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import Any, TypeVar

from chorale_client import _server_program
from chorale_client._errors import FailedPreconditionError, UnavailableError
from chorale_client._served_folder import TRY, ServedFolder, place

ServerT = TypeVar("ServerT", bound="ServerProcess")

# How long the user's own server runs after its last user has ended. A program that starts in the
# meantime finds its tables encoded.
SHARED_GRACE_SECONDS = 10.0
_KEEPER = Path(__file__).with_name("_server_keeper.py")
_MAX_SOCKET_PATH = 100  # bytes; the limit of Linux is 107


def shared_address() -> str:
    """Returns the address of this user's own server, and starts it if it is not running.

    The data folder is $CHORALE_HOME, or otherwise "chorale" in $XDG_CACHE_HOME (~/.cache). The
    server ends ten seconds after the last process that has called this function.

    Raises:
        UnavailableError: The package chorale-server is not installed, or the server does not start.
    """
    home = os.environ.get("CHORALE_HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(home or os.path.join(cache, "chorale")).absolute()
    with _shared_mutex:
        server = _shared.get(folder)
        if server is None or not server.running:
            server = ServerProcess(ServedFolder(folder), None, grace=SHARED_GRACE_SECONDS)
            _shared[folder] = server
        return server.address


class ServerProcess:
    """A server that this process uses; `chorale_client.Server` is the class for users."""

    def __init__(
        self, folder: ServedFolder, options: dict[str, Any] | None, *, grace: float = 0.0
    ) -> None:
        self._folder = folder
        self._options = options
        self._grace = grace
        self._process = os.getpid()
        self._users: int | None = folder.use()
        _alive.add(self)
        try:
            self._running = self._join_or_start()
            self._check_options()
        except BaseException:
            self.stop()
            raise

    @property
    def address(self) -> str:
        """The address of the server, for `chorale_client.connect`."""
        return str(self._running["address"])

    @property
    def data_dir(self) -> Path:
        """The folder with registered tables."""
        return self._folder.data

    @property
    def log(self) -> str:
        """The log of the server."""
        return self._folder.path("server.log").read_text(encoding="utf-8", errors="replace")

    @property
    def running(self) -> bool:
        """Whether the server is running and this process uses it."""
        if self._users is None:
            return False
        return self._folder.has_keeper()

    def stop(self) -> None:
        """Stops using the server, and ends it unless another process uses it.

        The server first delivers the values that streams in flight have drawn. Repeated calls have
        no effect.
        """
        if self._users is None or self._process != os.getpid():
            return
        users, self._users = self._users, None
        os.close(users)
        with contextlib.suppress(FileNotFoundError):  # the server deletes a temporary folder
            self._folder.end_server_if_unused()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __del__(self) -> None:
        if getattr(self, "_users", None) is not None and self._process == os.getpid():
            os.close(self._users)  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rejoin, (type(self), self._folder.data)

    def __repr__(self) -> str:
        return f"<Server at {self.address}, data in {self.data_dir}>"

    def _forget(self) -> None:
        """Releases the lock in a forked process, which does not use the server of its parent."""
        if self._users is not None:
            os.close(self._users)
            self._users = None

    def _join_or_start(self) -> dict[str, Any]:
        with self._folder.locked("start"):
            while True:
                with self._folder.locked("keeper", TRY) as lock:
                    if lock is not None:
                        return self._start(lock)
                running = self._folder.running()
                if running is not None:
                    return running
                # The process that started the server has died, and the server is not ready yet.
                time.sleep(0.02)

    def _start(self, lock: int) -> dict[str, Any]:
        plan = plan_of(self._folder, self._options or {}, self._grace)
        for name in ("server.json", "port"):
            self._folder.path(name).unlink(missing_ok=True)
        log = self._folder.open("server.log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        try:
            keeper = subprocess.Popen(
                [_python(), "-I", "-S", str(_KEEPER), json.dumps(plan), str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[lock],
                env=_server_program.environment(),
                start_new_session=True,  # so that Ctrl-C in a terminal does not end it
            )
        finally:
            os.close(log)
        assert keeper.stdout is not None
        with keeper.stdout:
            line = keeper.stdout.readline()
        keeper.wait()  # a child of this process has answered
        if not line:
            raise UnavailableError(f"the server does not start: {self.log.strip()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UnavailableError(f"the server does not start: {answer['error']}\n{answer['log']}")
        return answer

    def _check_options(self) -> None:
        for name, value in (self._options or {}).items():
            if value and self._running["options"].get(name) != value:
                raise FailedPreconditionError(
                    f"{self._folder.data} is served with {name}="
                    f"{self._running['options'].get(name)!r}, not {value!r}: pass the same value, "
                    "omit the argument, or use another folder"
                )


def plan_of(folder: ServedFolder, options: dict[str, Any], grace: float) -> dict[str, Any]:
    """Returns the plan for the keeper."""
    bundle = _server_program.bundle()
    models = options.get("models") or [str(bundle / "share/chorale/models/default")]
    remove = [str(folder.data)] if folder.temporary else []
    address = options.get("address")
    if not address:
        path = folder.path("socket")
        if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
            path = Path(tempfile.mkdtemp(prefix="chorale-")) / "socket"
            remove.append(str(path.parent))
        address = f"unix:{path}"
    command = [
        str(bundle / "bin/chorale-server"),
        f"--models={','.join(models)}",
        f"--data_dir={folder.data}",
        f"--listen_address={address}",
        f"--port_file={folder.path('port')}",
        "--metrics_address=",
        "--drain_timeout=5s",
    ]
    if options.get("memory_mib"):
        command.append(f"--memory_limit_mib={options['memory_mib']}")
    return {
        "folder": str(folder.path("")),
        "command": command + options.get("flags", []),
        "address": address,
        "grace": grace,
        "remove": remove,
        "identity": {"options": options, "place": place(), "grace": grace},
    }


def _python() -> str:
    if not sys.executable:
        raise UnavailableError("the path of the Python interpreter is unknown (sys.executable)")
    return sys.executable


def _rejoin(kind: type[ServerT], data: Path) -> ServerT:
    if not data.exists():
        raise UnavailableError(f"the server with its data in {data} has ended")
    return kind(ServedFolder(data), None)


_shared: dict[Path, ServerProcess] = {}
_shared_mutex = threading.Lock()
_alive: weakref.WeakSet[ServerProcess] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    global _shared_mutex
    _shared_mutex = threading.Lock()
    _shared.clear()
    for server in list(_alive):
        server._forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
